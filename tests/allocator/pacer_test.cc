// Pacing over a device whose time the test moves: work, timed events and waits are numbers here, everything
// else is the emulated driver's.
#include "allocator/pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/allocator/job.h"

namespace hocket {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;
using testing::EmulatedGpu;

constexpr nanoseconds kPace = 800us;

// Streams in a time of their own. The host's clock moves when it waits, and by what each call costs it.
class VirtualDevice {
 public:
  static VirtualDevice& Get() {
    static VirtualDevice device;
    return device;
  }
  void Reset() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::set<cuda::Event> events = std::exchange(events_, {});
    EXPECT_TRUE(events.empty()) << "events that nobody destroyed";
    calls_.clear();
    fails_.clear();
    done_.clear();
    now_ = nanoseconds{0};
    recorded_.clear();
  }
  // Over the emulated driver's table.
  DriverTable Table() {
    real_ = *DriverTable::Load(HOCKET_EMULATED_DRIVER);
    DriverTable table = real_;
    table.EventCreate = [](cuda::Event* event, unsigned flags) {
      if ((flags & cuda::kEventDisableTiming) != 0) return Get().real_.EventCreate(event, flags);
      return Get().Create(event, flags);
    };
    table.EventDestroy = [](cuda::Event event) { return Get().Destroy(event); };
    table.EventRecord = [](cuda::Event event, Stream stream) { return Get().Record(event, stream); };
    table.EventQuery = [](cuda::Event event) { return Get().Query(event); };
    table.EventSynchronize = [](cuda::Event event) { return Get().Synchronize(event); };
    table.EventElapsedTime = [](float* ms, cuda::Event from, cuda::Event to) {
      return Get().Elapsed(ms, from, to);
    };
    return table;
  }

  void Launch(nanoseconds work, Stream stream = nullptr) {
    const std::lock_guard<std::mutex> lock(mutex_);
    nanoseconds& done = done_[stream];
    done = std::max(done, now_) + work;
  }
  static HostClock Clock() {
    return {.now = [] { return Get().Now(); }, .sleep = [](nanoseconds time) { Get().HostWorks(time); }};
  }
  nanoseconds Now() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }
  void HostWorks(nanoseconds time) {
    const std::lock_guard<std::mutex> lock(mutex_);
    now_ += time;
  }
  nanoseconds Queued(Stream stream = nullptr) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::max(done_[stream] - now_, nanoseconds{0});
  }
  void Fail(const std::string& call, bool fails) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fails_[call] = fails;
  }
  // Of timed events only.
  int Calls(const std::string& call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_[call];
  }
  int Calls() {
    const std::lock_guard<std::mutex> lock(mutex_);
    int sum = 0;
    for (const auto& [name, count] : calls_) sum += count;
    return sum;
  }

 private:
  bool Mine(cuda::Event event) const { return events_.count(event) > 0; }
  // The driver's answer to a call that fails; 0: it does not.
  cuda::Result Begin(const std::string& call) {
    ++calls_[call];
    return fails_[call] ? 999 : cuda::kSuccess;
  }
  cuda::Result Create(cuda::Event* event, unsigned flags) {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(flags, cuda::kEventBlockingSync);
    if (const cuda::Result failed = Begin("create")) return failed;
    *event = reinterpret_cast<cuda::Event>(next_event_ += 16);
    events_.insert(*event);
    return cuda::kSuccess;
  }
  cuda::Result Destroy(cuda::Event event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (events_.erase(event) == 0) return real_.EventDestroy(event);
    ++calls_["destroy"];
    return cuda::kSuccess;
  }
  cuda::Result Record(cuda::Event event, Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!Mine(event)) return real_.EventRecord(event, stream);
    if (const cuda::Result failed = Begin("record")) return failed;
    recorded_[event] = std::max(done_[stream], now_);
    return cuda::kSuccess;
  }
  cuda::Result Query(cuda::Event event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!Mine(event)) return real_.EventQuery(event);
    if (const cuda::Result failed = Begin("query")) return failed;
    return recorded_.at(event) <= now_ ? cuda::kSuccess : cuda::kNotReady;
  }
  cuda::Result Synchronize(cuda::Event event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!Mine(event)) return real_.EventSynchronize(event);
    if (const cuda::Result failed = Begin("wait")) return failed;
    now_ = std::max(now_, recorded_.at(event));
    return cuda::kSuccess;
  }
  cuda::Result Elapsed(float* milliseconds, cuda::Event from, cuda::Event to) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const cuda::Result failed = Begin("elapsed")) return failed;
    EXPECT_LE(recorded_.at(from), now_) << "is not done";
    EXPECT_LE(recorded_.at(to), now_) << "is not done";
    *milliseconds = static_cast<float>(
        std::chrono::duration<double, std::milli>(recorded_.at(to) - recorded_.at(from)).count());
    return cuda::kSuccess;
  }

  DriverTable real_;
  std::mutex mutex_;
  nanoseconds now_{0};
  std::map<Stream, nanoseconds> done_;
  std::set<cuda::Event> events_;
  std::map<cuda::Event, nanoseconds> recorded_;
  std::uintptr_t next_event_ = 16;
  std::map<std::string, int> calls_;
  std::map<std::string, bool> fails_;
};

// What an allocation is followed by.
struct Piece {
  Bytes size = 0;
  nanoseconds work{0};
};
using Pieces = std::vector<Piece>;

Pieces Alike(int count, nanoseconds work) {
  Pieces pieces;
  for (int i = 1; i <= count; ++i) pieces.push_back({Bytes{512} * static_cast<Bytes>(i), work});
  return pieces;
}

class PacedGate : public testing::ScriptedGate {
 public:
  void WhileBlocked(absl::FunctionRef<void()> wait) override {
    ++waits;
    wait();
  }
  std::atomic<int> waits{0};
};

class PacerTest : public ::testing::Test {
 protected:
  PacerTest() {
    EmulatedGpu::Get().UseContext();
    device.Reset();
    driver = *Driver::Open(device.Table());
    AllocatorOptions options;
    options.chunk_size = testing::kChunk;
    options.host_budget = 64_MiB;
    options.clock = VirtualDevice::Clock();
    allocator = *CachingAllocator::Create(*driver, options, &gate);
  }

  // An allocation that the host takes a microsecond for, and its work.
  void Allocate(Piece piece, Stream stream = nullptr) {
    const absl::StatusOr<DevicePtr> block = allocator->Malloc(piece.size, stream);
    ASSERT_TRUE(block.ok()) << block.status();
    device.HostWorks(1us);
    device.Launch(piece.work, stream);
    allocator->Free(*block);
    most = std::max(most, device.Queued(stream));
  }
  void Step(const Pieces& pieces, Stream stream = nullptr) {
    allocator->BeginStep();
    most = nanoseconds{0};
    for (const Piece& piece : pieces) Allocate(piece, stream);
    allocator->EndStep();
  }

  VirtualDevice& device = VirtualDevice::Get();
  PacedGate gate;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<CachingAllocator> allocator;
  nanoseconds most{0};  // queued, in the last step
};

TEST_F(PacerTest, WithoutAPaceNoEventIsCreatedAndTheQueueGrows) {
  for (int step = 0; step < 3; ++step) Step(Alike(200, 50us));
  EXPECT_EQ(device.Calls(), 0);
  EXPECT_EQ(gate.waits, 0);
  EXPECT_GT(most, 20ms);
}

TEST_F(PacerTest, FromTheSecondStepOnNoMoreIsQueuedThanThePace) {
  allocator->SetPace(kPace);
  const Pieces pieces = Alike(200, 50us);
  Step(pieces);
  EXPECT_LE(most, 8 * 50us);
  for (int step = 0; step < 5; ++step) {
    Step(pieces);
    EXPECT_LE(most, kPace) << step;
    EXPECT_GE(most, kPace / 2) << "the device has enough to do while the host wakes up";
  }
  EXPECT_GT(gate.waits, 0) << "each wait is one that the gate knows of";
  EXPECT_EQ(gate.waits, device.Calls("wait"));
}

TEST_F(PacerTest, ABigPieceOfWorkFindsLittleInTheQueueAndLeavesTimeForWhatFollows) {
  allocator->SetPace(kPace);
  Pieces pieces = Alike(200, 10us);
  pieces[120].work = 5ms;
  Step(pieces);
  Step(pieces);  // as long as before: so it goes by the clock
  for (int step = 0; step < 3; ++step) {
    const int waits = gate.waits, events = device.Calls("wait");
    Step(pieces);
    EXPECT_GE(most, 5ms);
    EXPECT_LE(most, 5ms + kPace / 8);
    EXPECT_GT(device.Calls("wait"), events);
    EXPECT_GT(gate.waits - waits, device.Calls("wait") - events) << "for a part of it, which no event tells";
  }
}

TEST_F(PacerTest, APieceThatIsShorterThanForeseenHoldsNobodyUp) {
  allocator->SetPace(kPace);
  Pieces pieces = Alike(20, 10us);
  pieces[10].work = 1s;
  Step(pieces);
  Step(pieces);
  device.HostWorks(10s);
  pieces[10].work = 1ms;
  const nanoseconds begin = device.Now();
  Step(pieces);
  EXPECT_LE(device.Now() - begin, 3ms);
}

TEST_F(PacerTest, SmallWorkCostsFewMarks) {
  allocator->SetPace(kPace);
  const Pieces pieces = Alike(200, 2us);
  Step(pieces);
  Step(pieces);
  const int before = device.Calls("record");
  Step(pieces);
  EXPECT_LE(device.Calls("record") - before, 200 / 100 + 1);
}

TEST_F(PacerTest, EventsAreReusedAndDestroyedWithTheAllocator) {
  allocator->SetPace(kPace);
  for (int step = 0; step < 50; ++step) Step(Alike(100, 50us));
  EXPECT_GT(device.Calls("record"), 500);
  EXPECT_LE(device.Calls("create"), 36);
  allocator.reset();
  EXPECT_EQ(device.Calls("destroy"), device.Calls("create"));
}

TEST_F(PacerTest, AHostThatWasSlowOnceIsNotTakenForWork) {
  allocator->SetPace(kPace);
  const Pieces pieces = Alike(100, 10us);
  allocator->BeginStep();
  for (const Piece& piece : pieces) {
    Allocate(piece);
    device.HostWorks(20ms);
  }
  allocator->EndStep();
  Step(pieces);
  Step(pieces);
  const int waits = gate.waits;
  Step(pieces);
  EXPECT_LE(gate.waits - waits, 100 / 20 + 1);
  EXPECT_LE(most, kPace);
}

TEST_F(PacerTest, OtherShapesAreLearnedAnew) {
  allocator->SetPace(kPace);
  for (int step = 0; step < 3; ++step) Step(Alike(100, 10us));
  Pieces other = Alike(100, 300us);
  for (Piece& piece : other) piece.size += 60'000;
  Step(other);
  EXPECT_LE(most, 8 * 300us + kPace) << "eight that nothing was known of, and what was queued before";
  Step(other);
  EXPECT_LE(most, 8 * 300us) << "which the step before has left";
  Step(other);
  EXPECT_LE(most, kPace);
}

TEST_F(PacerTest, OffAgainNobodyIsHeldUp) {
  allocator->SetPace(kPace);
  Step(Alike(100, 50us));
  Step(Alike(100, 50us));
  allocator->SetPace(0ns);
  const int calls = device.Calls();
  Step(Alike(100, 50us));
  EXPECT_EQ(device.Calls(), calls);
  EXPECT_GT(most, 4ms);
  allocator->SetPace(kPace / 2);
  Step(Alike(100, 50us));
  Step(Alike(100, 50us));
  EXPECT_LE(most, kPace / 2);
}

TEST_F(PacerTest, WhatWasQueuedWithoutAPaceIsNoAllocationsWork) {
  const Pieces pieces = Alike(100, 10us);
  const auto marks_of_a_step = [&] {
    const int before = device.Calls("record");
    Step(pieces);
    return device.Calls("record") - before;
  };
  allocator->SetPace(kPace);
  Step(pieces);
  Step(pieces);
  const int marks = marks_of_a_step();
  allocator->SetPace(0ns);
  device.Launch(1s);
  allocator->SetPace(kPace);
  EXPECT_LE(marks_of_a_step(), marks + 1) << "the first has none before it";
  EXPECT_LE(marks_of_a_step(), marks);
  EXPECT_LE(most, kPace);
}

TEST_F(PacerTest, WhileAGraphIsCapturedTheDriverIsLeftAlone) {
  allocator->SetPace(kPace);
  Step(Alike(100, 50us));
  const int calls = device.Calls();
  const CachingAllocator::PoolId pool = {1, 0};
  allocator->BeginAllocateToPool(
      pool, [](Stream) { return true; }, /*captures=*/true);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(allocator->Malloc(512, nullptr).ok());
  EXPECT_EQ(device.Calls(), calls);
  allocator->EndAllocateToPool(pool);
  Step(Alike(100, 50us));
  EXPECT_GT(device.Calls(), calls);
}

TEST_F(PacerTest, WithoutTheTurnTheDriverIsLeftAlone) {
  allocator->SetPace(kPace);
  gate.holds_turn = false;
  gate.await_turn = [&] {
    EXPECT_EQ(device.Calls(), 0);
    gate.holds_turn = true;
    return absl::OkStatus();
  };
  ASSERT_TRUE(allocator->Malloc(512, nullptr).ok());
  EXPECT_EQ(device.Calls(), 0);
  ASSERT_TRUE(allocator->Malloc(512, nullptr).ok());
  EXPECT_GT(device.Calls(), 0);
}

TEST_F(PacerTest, SegmentsAreNotPaced) {
  AllocatorOptions options;
  options.chunk_size = testing::kChunk;
  options.host_budget = 64_MiB;
  options.serves_segments = true;
  const auto segments = *CachingAllocator::Create(*driver, options, &gate);
  segments->SetPace(kPace);
  ASSERT_TRUE(segments->Malloc(512, nullptr).ok());
  EXPECT_EQ(device.Calls(), 0);
}

TEST_F(PacerTest, AllocationsSucceedWhicheverCallFails) {
  for (const char* call : {"create", "record", "query", "elapsed", "wait"}) {
    allocator->SetPace(0ns);
    allocator->SetPace(kPace);
    device.Fail(call, true);
    Step(Alike(100, 50us));
    Step(Alike(100, 50us));
    EXPECT_GT(most, kPace) << call << ": nobody is held up";
    const int calls = device.Calls();
    for (int i = 0; i < 10; ++i) Allocate({512, 1us});
    EXPECT_EQ(device.Calls(), calls) << call << ": nor is it tried again in the same step";
    device.Fail(call, false);
    device.HostWorks(1s);
    for (int step = 0; step < 3; ++step) Step(Alike(100, 50us));
    EXPECT_LE(most, kPace) << call;
  }
}

TEST_F(PacerTest, EachStreamIsHeldUpForItsOwnWork) {
  const Stream other = *driver->CreateStream();
  allocator->SetPace(kPace);
  for (int step = 0; step < 4; ++step) {
    Step(Alike(50, 50us));
    EXPECT_LE(most, kPace);
    Step(Alike(50, 50us), other);
    EXPECT_LE(most, kPace);
  }
  allocator.reset();
  EXPECT_TRUE(driver->DestroyStream(other).ok());
}

// A stream that is at work until somebody waits for it.
class BusyGate : public testing::ScriptedGate {
 public:
  void WhileBlocked(absl::FunctionRef<void()> wait) override {
    go = true;
    go.notify_all();
    wait();
  }
  std::atomic<bool> go{false};
};

TEST(PacedEmulatedGpuTest, AMallocThatIsTooFarAheadOfItsStreamWaitsForIt) {
  EmulatedGpu& gpu = EmulatedGpu::Get();
  gpu.UseContext();
  BusyGate gate;
  {
    AllocatorOptions options;
    options.chunk_size = testing::kChunk;
    options.host_budget = 64_MiB;
    const auto allocator = *CachingAllocator::Create(gpu.driver(), options, &gate);
    const Stream stream = *gpu.driver().CreateStream();
    allocator->SetPace(kPace);
    allocator->BeginStep();
    ASSERT_TRUE(allocator->Malloc(512, stream).ok());
    gpu.KeepBusy(stream, &gate.go);
    for (int i = 1; !gate.go; ++i) {
      ASSERT_LE(i, 9) << "eight pieces of work that nothing is known of fill the pace";
      ASSERT_TRUE(allocator->Malloc(512 * static_cast<Bytes>(i), stream).ok());
    }
    allocator->EndStep();
    ASSERT_TRUE(gpu.driver().SynchronizeStream(stream).ok());
    ASSERT_TRUE(gpu.driver().DestroyStream(stream).ok());
  }
}

// For the thread sanitizer as much as for what it says.
TEST_F(PacerTest, ThreadsArePacedTogether) {
  allocator->SetPace(kPace);
  const Pieces pieces = Alike(200, 20us);
  const auto train = [&] {
    EmulatedGpu::Get().UseContext();
    for (int step = 0; step < 20; ++step) {
      allocator->BeginStep();
      for (const Piece& piece : pieces) {
        const absl::StatusOr<DevicePtr> block = allocator->Malloc(piece.size, nullptr);
        ASSERT_TRUE(block.ok());
        device.Launch(piece.work);
        allocator->Free(*block);
        if (piece.size == 51'200) allocator->SetPace(step % 5 == 4 ? 0ns : kPace);
      }
      allocator->EndStep();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(train);
  for (std::thread& thread : threads) thread.join();
  allocator->SetPace(kPace);
  device.HostWorks(10s);
  // Of other sizes: what was learned while the threads allocated in turns is of the wrong allocations
  // (queued_work.h).
  Pieces others = pieces;
  for (Piece& piece : others) piece.size += Bytes{256} * 512;
  Step(others);
  Step(others);
  EXPECT_LE(most, kPace);
  allocator->CheckInvariants();
}

}  // namespace
}  // namespace hocket
