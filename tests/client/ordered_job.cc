// A job of its own process that does what it is told: ordered_job NAME CHUNKS CALL. The environment names the
// coordinator and the device. It reads orders from stdin, a byte each, and writes the same byte to stdout
// when it has obeyed; meanwhile it is away (Client::BeginAway()), so that it can be moved.
//
//   s  a step, with a look at every byte; before the first one it allocates CHUNKS, a letter for each: p is
//      plain, c does not change, f follows its turn
//   c  the same, and all memory of the device and of its own budget on the host must be this job's, or free
//   m  what is spilled has its copy behind its addresses
//   k  from here on its CALL-th call that concerns memory ends the process by SIGKILL (0: none does)
//   e  nothing ends it any more; it looks at every byte, frees them, leaves and ends
//
// In each step it uses memory of the lane's, and of the first one some stays. Aborts where a byte is not what
// it must be.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "csrc/base/check.h"
#include "csrc/client/client.h"
#include "tests/allocator/model/blocks.h"

namespace hocket::testing {
namespace {

constexpr Bytes kChunk = 64_KiB;
constexpr Bytes kHostBudget = 1_GiB;
// Chunks lie in the slots from 0 on.
constexpr Slot kTransient = Blocks::kSlots - 1, kStays = kTransient - 1;

class OrderedJob {
 public:
  OrderedJob(Client& client, CachingAllocator& allocator)
      : client_(client), allocator_(allocator), blocks_(allocator, static_cast<std::uint64_t>(getpid())) {}

  void Allocates(const std::string& chunks) {
    for (Slot slot = 0; slot < chunks.size(); ++slot) {
      Malloc(slot, kChunk);
      if (chunks[slot] == 'c') (void)blocks_.Declare(slot);
      if (chunks[slot] == 'f') (void)blocks_.SetStage(slot, 1);
    }
  }
  void BeginsStep() {
    HOCKET_CHECK(client_.BeginStep().ok()) << "no turn";
    HOCKET_CHECK(allocator_.AwaitStage(kLastStage, nullptr).ok()) << "what follows does not come";
    blocks_.VerifyAll();
  }
  void EndsStep() {
    Malloc(kTransient, 2 * kChunk);
    if (!blocks_.Has(kStays)) Malloc(kStays, 1_KiB);
    (void)blocks_.Write(/*slot=*/0, /*stream=*/0);
    blocks_.Free(kTransient, /*verify=*/true);
    client_.EndStep();
  }
  void HasAllThatIsTaken() const {
    const Holdings held = allocator_.Held();
    HOCKET_CHECK(EmulatedGpu::Get().used() == held.persistent + held.arena)
        << EmulatedGpu::Get().used() << " bytes of the device are taken, and this job, which is alone, has "
        << held.persistent << " and " << held.arena;
    HOCKET_CHECK(held.spilled == 0 && held.host_left == kHostBudget)
        << held.spilled << " spilled, " << held.host_left << " left";
  }
  void MapsSpilled() {
    while (allocator_.MapSpilled()) continue;
  }
  void Ends() {
    BeginsStep();
    for (Slot slot = 0; slot < Blocks::kSlots; ++slot) blocks_.Free(slot, /*verify=*/true);
    client_.EndStep();
    client_.Leave();
  }

 private:
  // There is room for it, though others may be told that there is none where the one who has it stands still.
  void Malloc(Slot slot, Bytes size) {
    absl::Status given;
    do {
      given = blocks_.Malloc(slot, size, /*stream=*/0);
      HOCKET_CHECK(given.ok() || absl::IsResourceExhausted(given)) << given.message();
    } while (!given.ok());
  }

  Client& client_;
  CachingAllocator& allocator_;
  Blocks blocks_;
};

// The exit status.
int Run(const char* name, const char* chunks, int call) {
  EmulatedGpu& gpu = EmulatedGpu::Get();
  Driver& driver = gpu.driver();
  auto client = Client::Join({.name = name}, *driver.DeviceUuid(0), "emulated", *driver.DeviceCapacity(0));
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", std::string(client.status().message()).c_str());
    return 2;
  }
  auto allocator =
      CachingAllocator::Create(driver, {.chunk_size = kChunk, .host_budget = kHostBudget}, client->get());
  if (!allocator.ok()) return 3;
  (*client)->SetAllocator(allocator->get());
  OrderedJob job(**client, **allocator);
  char order = 0;
  for (bool first = true; read(STDIN_FILENO, &order, 1) == 1; first = false) {
    if (first) job.Allocates(chunks);
    switch (order) {
      case 's':
      case 'c':
        job.BeginsStep();
        if (order == 'c') job.HasAllThatIsTaken();
        job.EndsStep();
        (*client)->BeginAway();
        break;
      case 'm':
        job.MapsSpilled();
        break;
      case 'k':
        gpu.OnMemoryCall(call, [] { kill(getpid(), SIGKILL); });
        break;
      default:
        gpu.FailNoCall();
        job.Ends();
        client->reset();
        return 0;
    }
    if (write(STDOUT_FILENO, &order, 1) != 1) return 5;
  }
  return 0;
}

}  // namespace
}  // namespace hocket::testing

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  return hocket::testing::Run(argv[1], argv[2], std::atoi(argv[3]));
}
