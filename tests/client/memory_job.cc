// A job of its own process with memory on the emulated device: memory_job NAME STEPS [WORKERS]. The
// environment names the coordinator and the device, which other processes share. After its first step it
// forks so many WORKERS, which do nothing and outlive it, as a loader's may.
//
// In each step it does what programs do (tests/allocator/model), with every byte known, and looks at all of
// them at its begin. Writes a byte to stdout after each step: 'm' if memory has come back from the host for
// it, else 's'. Aborts where a byte is not what it must be.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "csrc/client/client.h"
#include "tests/allocator/model/blocks.h"
#include "tests/allocator/model/teller.h"

namespace hocket::testing {
namespace {

constexpr Bytes kChunk = 64_KiB;
constexpr int kOperationsInAStep = 100;

// Steps have their ends in Run().
void Apply(CachingAllocator& allocator, Blocks& blocks, const Operation& operation) {
  const auto [first, second, third] = operation.arguments;
  switch (operation.kind) {
    case Kind::kMalloc:
      blocks.Free(first, /*verify=*/true);
      (void)blocks.Malloc(first, second, third);  // the device is small
      return;
    case Kind::kFree:
      return (void)blocks.Free(first, /*verify=*/true);
    case Kind::kRead:
      return (void)blocks.Read(first, second);
    case Kind::kWrite:
      return (void)blocks.Write(first, second);
    case Kind::kRecord:
      return (void)blocks.Record(first, second);
    default:
      return allocator.CheckInvariants();
  }
}

void Fork() {
  if (fork() != 0) return;
  close(STDOUT_FILENO);  // whoever reads our steps is to see our end
  close(STDERR_FILENO);
  for (;;) pause();
}

// The exit status.
int Run(const char* name, int steps, int workers) {
  Driver& driver = EmulatedGpu::Get().driver();
  auto client = Client::Join({.name = name}, *driver.DeviceUuid(0), "emulated", *driver.DeviceCapacity(0));
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", std::string(client.status().message()).c_str());
    return 2;
  }
  auto allocator =
      CachingAllocator::Create(driver, {.chunk_size = kChunk, .host_budget = 1_GiB}, client->get());
  if (!allocator.ok()) return 3;
  (*client)->SetAllocator(allocator->get());
  Blocks blocks(**allocator, static_cast<std::uint64_t>(getpid()));
  Teller teller(static_cast<std::uint64_t>(getpid()));
  Bytes restored = 0;
  for (int i = 0; i < steps; ++i) {
    if (!(*client)->BeginStep().ok()) return 4;
    blocks.VerifyAll();
    for (int k = 0; k < kOperationsInAStep; ++k) Apply(**allocator, blocks, teller.NextCommon());
    const Bytes total = (*allocator)->Held().restored_total;
    (*client)->EndStep();
    if (write(STDOUT_FILENO, std::exchange(restored, total) == total ? "s" : "m", 1) != 1) return 5;
    for (; workers > 0; --workers) Fork();
    (*client)->BeginAway();  // here it may be spilled, whether or not somebody else is in a step
    (void)(*client)->EndAway();
  }
  if (!(*client)->BeginStep().ok()) return 4;
  blocks.VerifyAll();
  for (Slot slot = 0; slot < Blocks::kSlots; ++slot) blocks.Free(slot, /*verify=*/true);
  (*client)->EndStep();
  (*client)->Leave();
  client->reset();
  return 0;
}

}  // namespace
}  // namespace hocket::testing

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 64;
  return hocket::testing::Run(argv[1], std::atoi(argv[2]), argc == 4 ? std::atoi(argv[3]) : 0);
}
