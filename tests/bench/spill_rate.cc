// How fast persistent memory is spilled and restored, against plain copies of the same bytes between the same
// device memory and pinned host memory, in one process, in turns:
//
//   hocket_bench_spill ROUNDS MIB... > figures.json
//   hocket_bench_spill --in-turns MIB
//
// For each size, after one round that is not counted (host memory is taken and pinned in it), ROUNDS times:
//   plain out     CopyToHost of every block, then a wait         out    CachingAllocator::Spill
//   plain in      CopyToDevice of every block, then a wait       in     CachingAllocator::TakeTurn
// in nanoseconds. Spill and TakeTurn also unmap, release, create and map the chunks: a last round says how
// often each call of the driver was made in it, and how long that took ("calls_out", "calls_in";
// nanoseconds). In between what was spilled is mapped at its addresses, as a job does that waits ("map").
// Then the same once more, and what is mapped is taken away before the turn, as a job does that expects it
// ("unmap", "in_foreseen").
//
// HOCKET_CHUNK_SIZE: bytes of a chunk; else the allocator's choice.
//
// In turns with another program: a spill and a restore for each line of standard input, answered by a line of
// their times. The first line says that it is ready (harness.Worker).
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/driver.h"
#include "csrc/base/check.h"

namespace hocket {
namespace {

constexpr Bytes kBlock = 64_MiB;

// The driver's calls of this one thread, while they are counted.
struct Calls {
  struct Sum {
    int count = 0;
    long long nanoseconds = 0;
  };
  DriverTable real;
  bool counts = false;
  std::map<std::string, Sum> sums;

  static Calls& Get() {
    static Calls calls;
    return calls;
  }
};

template <auto Member, const char* const& Name, typename Function>
struct Timed;
template <auto Member, const char* const& Name, typename... Args>
struct Timed<Member, Name, cuda::Result (*)(Args...)> {
  static cuda::Result Call(Args... args) {
    Calls& calls = Calls::Get();
    if (!calls.counts) return (calls.real.*Member)(args...);
    const auto begin = std::chrono::steady_clock::now();
    const cuda::Result result = (calls.real.*Member)(args...);
    Calls::Sum& sum = calls.sums[Name];
    ++sum.count;
    sum.nanoseconds += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    return result;
  }
};

#define HOCKET_NAME(member, name, parameters) const char* const k##member = name;
HOCKET_DRIVER_FUNCTIONS(HOCKET_NAME)
HOCKET_DRIVER_OPTIONAL_FUNCTIONS(HOCKET_NAME)

DriverTable TimedTable(const DriverTable& real) {
  Calls::Get().real = real;
  DriverTable table;
#define HOCKET_TIME(member, name, parameters) \
  if (real.member != nullptr)                 \
    table.member = &Timed<&DriverTable::member, k##member, decltype(DriverTable::member)>::Call;
  HOCKET_DRIVER_FUNCTIONS(HOCKET_TIME)
  HOCKET_DRIVER_OPTIONAL_FUNCTIONS(HOCKET_TIME)
  return table;
}

// Always the turn, and nobody who could make room.
class Alone : public Gate {
 public:
  bool HoldsTurn() const override { return true; }
  absl::Status AwaitTurn() override { return absl::OkStatus(); }
  absl::Status AwaitRoom(Bytes bytes) override { return absl::ResourceExhaustedError("nobody else is here"); }
  void ArenaGrew(ArenaChunkId, Bytes, UniqueFd) override {}
  void ArenaLost(ArenaChunkId) override {}
};

template <typename T>
T Must(absl::StatusOr<T> value) {
  HOCKET_CHECK(value.ok()) << value.status().message();
  return *std::move(value);
}
void Must(const absl::Status& status) { HOCKET_CHECK(status.ok()) << status.message(); }

template <typename Function>
long long NanosecondsOf(Function f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

Bytes ChunkSize() {
  const char* const said = std::getenv("HOCKET_CHUNK_SIZE");
  return said == nullptr ? 0 : Must(ParseBytes(said));
}

// One size: the allocator with its blocks, and host memory of our own for the plain copies.
class Contest {
 public:
  Contest(Driver& driver, Bytes size)
      : driver_(driver),
        size_(size),
        stream_(Must(driver.CreateStream())),
        allocator_(Must(CachingAllocator::Create(
            driver, {.chunk_size = ChunkSize(), .host_budget = 2 * size, .shares_arena = false}, &gate_))) {
    for (Bytes got = 0; got < size; got += kBlock)
      blocks_.push_back(Must(allocator_->Malloc(kBlock, nullptr)));
    host_ =
        static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    HOCKET_CHECK(host_ != MAP_FAILED);
    Must(driver.RegisterHost(host_, size));
  }
  ~Contest() {
    for (const DevicePtr block : blocks_) allocator_->Free(block);
    Must(driver_.UnregisterHost(host_));
    munmap(host_, size_);
    Must(driver_.DestroyStream(stream_));
  }

  void PlainOut() {
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      Must(driver_.CopyToHost(host_ + i * kBlock, blocks_[i], kBlock, stream_));
    Must(driver_.SynchronizeStream(stream_));
  }
  void PlainIn() {
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      Must(driver_.CopyToDevice(blocks_[i], host_ + i * kBlock, kBlock, stream_));
    Must(driver_.SynchronizeStream(stream_));
  }
  void PassTurn() {
    Must(allocator_->Drain());
    allocator_->Lock();
    allocator_->PassTurn();
    allocator_->Unlock();
  }
  void Map() {
    while (allocator_->MapSpilled()) continue;
  }
  void Unmap() {
    while (allocator_->UnmapSpilled()) continue;
  }
  void Out() { HOCKET_CHECK(Must(allocator_->Spill(~Bytes{0})) >= size_) << "not everything was spilled"; }
  void In() {
    Bytes missing = 0;
    Must(allocator_->TakeTurn(/*for_step=*/false, &missing));
  }

 private:
  Driver& driver_;
  const Bytes size_;
  Alone gate_;
  const Stream stream_;
  const std::unique_ptr<CachingAllocator> allocator_;
  std::vector<DevicePtr> blocks_;
  char* host_ = nullptr;
};

void Print(const char* name, const std::vector<long long>& values, const char* after) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%lld", i == 0 ? "" : ", ", values[i]);
  std::printf("]%s", after);
}

template <typename Function>
void PrintCalls(const char* name, Function f, const char* after) {
  Calls& calls = Calls::Get();
  calls.counts = true;
  const long long all = NanosecondsOf(f);
  calls.counts = false;
  std::printf("\"%s\": {\"all\": [1, %lld]", name, all);
  for (const auto& [call, sum] : std::exchange(calls.sums, {}))
    std::printf(", \"%s\": [%d, %lld]", call.c_str(), sum.count, sum.nanoseconds);
  std::printf("}%s", after);
}

void Measure(Driver& driver, Bytes size, int rounds, bool last) {
  Contest contest(driver, size);
  std::vector<long long> plain_out, plain_in, out, in, map, unmap, in_foreseen;
  for (int round = 0; round <= rounds; ++round) {
    const long long a = NanosecondsOf([&] { contest.PlainOut(); });
    contest.PassTurn();
    const long long b = NanosecondsOf([&] { contest.Out(); });
    const long long between = NanosecondsOf([&] { contest.Map(); });
    const long long c = NanosecondsOf([&] { contest.In(); });
    const long long d = NanosecondsOf([&] { contest.PlainIn(); });
    contest.PassTurn(), contest.Out(), contest.Map();
    const long long e = NanosecondsOf([&] { contest.Unmap(); });
    const long long f = NanosecondsOf([&] { contest.In(); });
    if (round == 0) {
      std::printf("{\"bytes\": %llu, \"first_out\": %lld, ", static_cast<unsigned long long>(size), b);
      continue;
    }
    plain_out.push_back(a), out.push_back(b), in.push_back(c), plain_in.push_back(d), map.push_back(between);
    unmap.push_back(e), in_foreseen.push_back(f);
  }
  Print("plain_out", plain_out, ", "), Print("out", out, ", "), Print("plain_in", plain_in, ", ");
  Print("in", in, ", "), Print("map", map, ", "), Print("unmap", unmap, ", ");
  Print("in_foreseen", in_foreseen, ", ");
  contest.PassTurn();
  PrintCalls(
      "calls_out", [&] { contest.Out(); }, ", ");
  contest.Map();
  PrintCalls(
      "calls_in", [&] { contest.In(); }, last ? "}\n" : "},\n");
  std::fflush(stdout);
}

// Once before the first line: host memory is taken and pinned in it.
int MeasureInTurns(Driver& driver, Bytes size) {
  Contest contest(driver, size);
  std::string line;
  do {
    contest.PassTurn();
    const long long out = NanosecondsOf([&] { contest.Out(); });
    contest.Map();
    const long long in = NanosecondsOf([&] { contest.In(); });
    std::printf("{\"out\": %lld, \"in\": %lld}\n", out, in);
    std::fflush(stdout);
  } while (std::getline(std::cin, line));
  return 0;
}

Bytes SizeOf(const char* mib) { return RoundUp(std::strtoull(mib, nullptr, 10) * 1_MiB, kBlock); }

int Main(int count, char** arguments) {
  HOCKET_CHECK(count >= 3) << "hocket_bench_spill ROUNDS MIB... or --in-turns MIB";
  const auto driver = Must(Driver::Open(TimedTable(Must(DriverTable::Load()))));
  const ContextHandle context = Must(driver->PrimaryContext(0));
  Must(driver->UseContext(context));
  if (std::string(arguments[1]) == "--in-turns") return MeasureInTurns(*driver, SizeOf(arguments[2]));
  std::printf("[");
  for (int i = 2; i < count; ++i)
    Measure(*driver, SizeOf(arguments[i]), std::atoi(arguments[1]), i + 1 == count);
  std::printf("]\n");
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int count, char** arguments) { return hocket::Main(count, arguments); }
