// Streams, events and captures in one process. A host function that waits for the test holds a stream up, so
// that "not yet" can be seen without clocks.
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/emulator/driver_functions.h"
#include "tests/emulator/own_device.h"

namespace hocket {
namespace {

using namespace hocket::cuda;  // NOLINT: the driver's functions

constexpr Bytes kSize = 4096;

// Keeps a stream from going on until it is opened.
class Gate {
 public:
  void Close(hocket::Stream stream) {
    auto* open = new std::shared_future<void>(open_.get_future());
    ASSERT_EQ(cuLaunchHostFunc(stream, &Wait, open), kSuccess);
  }
  void Open() { open_.set_value(); }

 private:
  static void Wait(void* data) {
    const std::unique_ptr<std::shared_future<void>> open(static_cast<std::shared_future<void>*>(data));
    open->wait();
  }

  std::promise<void> open_;
};

class StreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(UseDevice(), kSuccess);
    ASSERT_EQ(cuMemAlloc_v2(&device_, kSize), kSuccess);
    ASSERT_EQ(cuMemHostAlloc(&memory_, kSize, 0), kSuccess);
    pinned_ = static_cast<unsigned char*>(memory_);
    ASSERT_EQ(cuStreamCreate(&one_, kStreamNonBlocking), kSuccess);
    ASSERT_EQ(cuStreamCreate(&two_, kStreamNonBlocking), kSuccess);
    ASSERT_EQ(cuEventCreate(&event_, kEventDisableTiming), kSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cuEventDestroy_v2(event_), kSuccess);
    EXPECT_EQ(cuStreamDestroy_v2(one_), kSuccess);
    EXPECT_EQ(cuStreamDestroy_v2(two_), kSuccess);
    EXPECT_EQ(cuMemFreeHost(memory_), kSuccess);
    EXPECT_EQ(cuMemFree_v2(device_), kSuccess);
  }

  // What launching a graph of the work answers that `queue` puts on one_.
  Result CaptureAndLaunch(const std::function<void()>& queue) {
    Graph graph = nullptr;
    GraphExec exec = nullptr;
    EXPECT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
    queue();
    EXPECT_EQ(cuStreamEndCapture(one_, &graph), kSuccess);
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kSuccess);
    const Result launched = cuGraphLaunch(exec, one_);
    EXPECT_EQ(cuGraphDestroy(graph), kSuccess);
    EXPECT_EQ(cuGraphExecDestroy(exec), kSuccess);
    return launched;
  }

  DevicePtr device_ = 0;
  void* memory_ = nullptr;
  unsigned char* pinned_ = nullptr;
  hocket::Stream one_ = nullptr, two_ = nullptr;
  Event event_ = nullptr;
};

TEST_F(StreamsTest, APinnedCopyIsReadLaterThanTheCall) {
  Gate gate;
  gate.Close(one_);
  std::memset(pinned_, 1, kSize);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device_, pinned_, kSize, one_), kSuccess);
  EXPECT_EQ(cuStreamQuery(one_), kNotReady);
  std::memset(pinned_, 2, kSize);
  gate.Open();
  unsigned char byte = 0;
  ASSERT_EQ(cuStreamSynchronize(one_), kSuccess);
  ASSERT_EQ(cuMemcpyDtoH_v2(&byte, device_, 1), kSuccess);
  EXPECT_EQ(byte, 2);
}

TEST_F(StreamsTest, APageableSourceIsTakenBeforeTheCallReturns) {
  Gate gate;
  gate.Close(one_);
  std::vector<unsigned char> source(kSize, 1);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(device_, source.data(), kSize, one_), kSuccess);
  source.assign(kSize, 2);
  gate.Open();
  unsigned char byte = 0;
  ASSERT_EQ(cuStreamSynchronize(one_), kSuccess);
  ASSERT_EQ(cuMemcpyDtoH_v2(&byte, device_, 1), kSuccess);
  EXPECT_EQ(byte, 1);
}

TEST_F(StreamsTest, APageableTargetIsWrittenBeforeTheCallReturns) {
  std::vector<unsigned char> target(kSize, 0);
  ASSERT_EQ(cuMemsetD8Async(device_, 9, kSize, one_), kSuccess);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(target.data(), device_, kSize, one_), kSuccess);
  EXPECT_EQ(target[kSize - 1], 9);
}

TEST_F(StreamsTest, StreamsDoNotWaitForEachOther) {
  Gate gate;
  gate.Close(one_);
  ASSERT_EQ(cuMemsetD8Async(device_, 3, kSize, two_), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(two_), kSuccess);
  EXPECT_EQ(cuStreamQuery(one_), kNotReady);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(one_), kSuccess);
}

TEST_F(StreamsTest, AStreamWaitsForAnEventOfAnother) {
  Gate gate;
  gate.Close(one_);
  ASSERT_EQ(cuEventRecord(event_, one_), kSuccess);
  ASSERT_EQ(cuStreamWaitEvent(two_, event_, 0), kSuccess);
  ASSERT_EQ(cuMemsetD8Async(device_, 3, kSize, two_), kSuccess);
  EXPECT_EQ(cuStreamQuery(two_), kNotReady);
  EXPECT_EQ(cuEventQuery(event_), kNotReady);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(two_), kSuccess);
  EXPECT_EQ(cuEventQuery(event_), kSuccess);
}

TEST_F(StreamsTest, AnEventStandsForWhatWasQueuedWhenItWasRecorded) {
  ASSERT_EQ(cuEventQuery(event_), kSuccess);  // never recorded
  ASSERT_EQ(cuEventRecord(event_, one_), kSuccess);
  Gate gate;
  gate.Close(one_);
  EXPECT_EQ(cuEventSynchronize(event_), kSuccess);
  gate.Open();
}

TEST_F(StreamsTest, TheDefaultStreamAndBlockingStreamsWaitForEachOther) {
  hocket::Stream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), kSuccess);
  Gate gate;
  gate.Close(blocking);
  ASSERT_EQ(cuMemsetD8Async(device_, 3, kSize, nullptr), kSuccess);
  EXPECT_EQ(cuStreamQuery(nullptr), kNotReady);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess);

  Gate second;
  second.Close(nullptr);
  ASSERT_EQ(cuMemsetD8Async(device_, 3, kSize / 2, blocking), kSuccess);
  ASSERT_EQ(cuMemsetD8Async(device_ + kSize / 2, 3, kSize / 2, one_), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(one_), kSuccess);
  EXPECT_EQ(cuStreamQuery(blocking), kNotReady);
  second.Open();
  EXPECT_EQ(cuStreamSynchronize(blocking), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(blocking), kSuccess);
}

TEST_F(StreamsTest, AContextEventCoversAllStreams) {
  Context context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), kSuccess);
  Gate gate;
  gate.Close(two_);
  ASSERT_EQ(cuCtxRecordEvent(context, event_), kSuccess);
  ASSERT_EQ(cuStreamSynchronize(one_), kSuccess);
  EXPECT_EQ(cuEventQuery(event_), kNotReady);
  gate.Open();
  EXPECT_EQ(cuEventSynchronize(event_), kSuccess);
}

TEST_F(StreamsTest, AllStreamsWaitForAnEventOfTheContext) {
  Context context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), kSuccess);
  Gate gate;
  gate.Close(one_);
  ASSERT_EQ(cuEventRecord(event_, one_), kSuccess);
  ASSERT_EQ(cuCtxWaitEvent(context, event_), kSuccess);
  ASSERT_EQ(cuMemsetD8Async(device_, 3, kSize, two_), kSuccess);
  EXPECT_EQ(cuStreamQuery(two_), kNotReady);
  gate.Open();
  EXPECT_EQ(cuCtxSynchronize(), kSuccess);
}

TEST_F(StreamsTest, WorkOnADestroyedStreamIsStillDone) {
  hocket::Stream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, kStreamNonBlocking), kSuccess);
  Gate gate;
  gate.Close(stream);
  ASSERT_EQ(cuMemsetD8Async(device_, 77, kSize, stream), kSuccess);
  ASSERT_EQ(cuStreamDestroy_v2(stream), kSuccess);
  EXPECT_EQ(cuStreamQuery(stream), kInvalidHandle);
  gate.Open();
  unsigned char byte = 0;
  ASSERT_EQ(cuCtxSynchronize(), kSuccess);
  ASSERT_EQ(cuMemcpyDtoH_v2(&byte, device_, 1), kSuccess);
  EXPECT_EQ(byte, 77);
}

TEST_F(StreamsTest, TheDefaultStreamWaitsForADestroyedBlockingStream) {
  hocket::Stream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), kSuccess);
  ASSERT_EQ(cuStreamSynchronize(nullptr), kSuccess);
  Gate gate;
  gate.Close(blocking);
  ASSERT_EQ(cuStreamDestroy_v2(blocking), kSuccess);
  EXPECT_EQ(cuStreamQuery(nullptr), kNotReady);
  gate.Open();
  EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess);
  EXPECT_EQ(cuStreamQuery(nullptr), kSuccess);
}

TEST_F(StreamsTest, ElapsedTimeNeedsTwoTimedEventsThatWereReached) {
  Event start = nullptr, end = nullptr;
  float milliseconds = -1;
  ASSERT_EQ(cuEventCreate(&start, 0), kSuccess);
  ASSERT_EQ(cuEventCreate(&end, 0), kSuccess);
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, start, end), kInvalidHandle);
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, start, event_), kInvalidHandle);
  ASSERT_EQ(cuEventRecord(start, one_), kSuccess);
  Gate gate;
  gate.Close(one_);
  ASSERT_EQ(cuEventRecord(end, one_), kSuccess);
  EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, start, end), kNotReady);
  gate.Open();
  ASSERT_EQ(cuEventSynchronize(end), kSuccess);
  ASSERT_EQ(cuEventElapsedTime_v2(&milliseconds, start, end), kSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cuEventDestroy_v2(start), kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(end), kSuccess);
}

TEST_F(StreamsTest, AKernelWaitsForItsStreamAndHoldsUpWhatFollows) {
  Gate gate;
  gate.Close(one_);
  std::atomic<bool> ran = false;
  std::promise<void> finish;
  std::thread launcher([&] {
    ASSERT_EQ(UseDevice(), kSuccess);
    hocket_emulator_begin_kernel(one_, "slow", nullptr, 0);
    ran = true;
    finish.get_future().wait();
    hocket_emulator_end_kernel(one_, nullptr, 0);
  });
  EXPECT_FALSE(ran);
  gate.Open();
  while (!ran) std::this_thread::yield();
  ASSERT_EQ(cuMemsetD8Async(device_, 3, kSize, one_), kSuccess);
  EXPECT_EQ(cuStreamQuery(one_), kNotReady);
  finish.set_value();
  EXPECT_EQ(cuStreamSynchronize(one_), kSuccess);
  launcher.join();
}

TEST_F(StreamsTest, HandlesOfNoStreamAndNoEventAreRefused) {
  const auto bogus = reinterpret_cast<hocket::Stream>(0x1234560);
  EXPECT_EQ(cuStreamSynchronize(bogus), kInvalidHandle);
  EXPECT_EQ(cuMemsetD8Async(device_, 0, 1, bogus), kInvalidHandle);
  EXPECT_EQ(cuEventSynchronize(reinterpret_cast<Event>(bogus)), kInvalidHandle);
  EXPECT_EQ(cuStreamDestroy_v2(nullptr), kInvalidHandle);
}

// --- captures ---

TEST_F(StreamsTest, ACaptureBecomesAGraphThatRunsWhenLaunched) {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  ASSERT_EQ(cuMemsetD8Async(device_, 1, kSize, one_), kSuccess);
  ASSERT_EQ(cuStreamSynchronize(one_), kSuccess);
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  ASSERT_EQ(cuMemsetD8Async(device_, 5, kSize, one_), kSuccess);
  ASSERT_EQ(cuMemcpyDtoHAsync_v2(pinned_, device_, kSize, one_), kSuccess);
  ASSERT_EQ(cuStreamEndCapture(one_, &graph), kSuccess);
  ASSERT_EQ(cuMemcpyDtoH_v2(pinned_, device_, 1), kSuccess);
  EXPECT_EQ(pinned_[0], 1);

  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kSuccess);
  ASSERT_EQ(cuGraphLaunch(exec, two_), kSuccess);
  ASSERT_EQ(cuStreamSynchronize(two_), kSuccess);
  EXPECT_EQ(pinned_[kSize - 1], 5);
  EXPECT_EQ(cuGraphDestroy(graph), kSuccess);
  EXPECT_EQ(cuGraphExecDestroy(exec), kSuccess);
  EXPECT_EQ(cuGraphLaunch(exec, two_), kInvalidValue);
}

// Writes `value` to a byte on the device, as an operator does; recorded as one node.
struct Store {
  DevicePtr to;
  unsigned char value;
  int* dropped;

  static unsigned char* At(DevicePtr address) {
    return reinterpret_cast<unsigned char*>(address + hocket_emulator_alias_offset());
  }
  static int Compute(void* data) {
    const auto* store = static_cast<Store*>(data);
    *At(store->to) += store->value;
    return store->value == 0 ? 1 : 0;
  }
  static void Drop(void* data) {
    ++*static_cast<Store*>(data)->dropped;
    delete static_cast<Store*>(data);
  }
  void Record(hocket::Stream stream) const {
    const HocketEmulatorRange range = {to, 1, 1};
    hocket_emulator_begin_recording();
    hocket_emulator_begin_kernel(stream, "store", &range, 1);
    *At(to) = 77;
    hocket_emulator_end_kernel(stream, &range, 1);
    hocket_emulator_end_recording(stream, "store", &range, 1, Compute, new Store(*this), Drop);
  }
};

TEST_F(StreamsTest, ARecordedOperatorRunsAtEachLaunchAndItsCaptureLeavesMemoryAsItWas) {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  int dropped = 0;
  *Store::At(device_) = 1;
  *Store::At(device_ + 1) = 2;
  ASSERT_EQ(hocket_emulator_any_capture(), 0);
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  EXPECT_EQ(hocket_emulator_is_capturing(one_), 1);
  EXPECT_EQ(hocket_emulator_is_capturing(two_), 0);
  Store{device_, 5, &dropped}.Record(one_);
  Store{device_ + 1, 6, &dropped}.Record(one_);
  Store{device_, 7, &dropped}.Record(one_);
  ASSERT_EQ(cuStreamEndCapture(one_, &graph), kSuccess);
  EXPECT_EQ(*Store::At(device_), 1);
  EXPECT_EQ(*Store::At(device_ + 1), 2);

  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), kSuccess);
  ASSERT_EQ(cuGraphLaunch(exec, two_), kSuccess);
  ASSERT_EQ(cuGraphLaunch(exec, two_), kSuccess);
  EXPECT_EQ(*Store::At(device_), 1 + 2 * 12);
  EXPECT_EQ(*Store::At(device_ + 1), 2 + 2 * 6);
  EXPECT_EQ(cuGraphDestroy(graph), kSuccess);
  EXPECT_EQ(dropped, 0);
  EXPECT_EQ(cuGraphExecDestroy(exec), kSuccess);
  EXPECT_EQ(dropped, 3);
}

TEST_F(StreamsTest, ARecordedOperatorThatFailsFailsItsLaunch) {
  int dropped = 0;
  EXPECT_EQ(CaptureAndLaunch([&] { Store{device_, 0, &dropped}.Record(one_); }), kLaunchFailed);
}

TEST_F(StreamsTest, AKernelOutsideARecordingMakesAGraphThatCannotBeLaunched) {
  const auto kernel = [&] {
    hocket_emulator_begin_kernel(one_, "unknown", nullptr, 0);
    hocket_emulator_end_kernel(one_, nullptr, 0);
  };
  EXPECT_EQ(CaptureAndLaunch(kernel), kNotSupported);
}

TEST_F(StreamsTest, WhatOverlappingKernelsOverwriteInACaptureComesBack) {
  for (int i = 0; i < 64; ++i) *Store::At(device_ + i) = static_cast<unsigned char>(i);
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  for (const auto& [from, size] : {std::pair<int, size_t>{8, 8}, {24, 8}, {4, 40}, {0, 6}, {30, 34}}) {
    const HocketEmulatorRange range = {device_ + from, size, 1};
    hocket_emulator_begin_kernel(one_, "fill", &range, 1);
    std::memset(Store::At(device_ + from), 200, size);
    hocket_emulator_end_kernel(one_, &range, 1);
  }
  Graph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(one_, &graph), kSuccess);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(*Store::At(device_ + i), i);
  EXPECT_EQ(cuGraphDestroy(graph), kSuccess);
}

TEST_F(StreamsTest, WaitingForACapturingStreamInvalidatesTheCapture) {
  Graph graph = nullptr;
  int status = -1;
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(one_), kCaptureUnsupported);
  ASSERT_EQ(cuStreamIsCapturing(one_, &status), kSuccess);
  EXPECT_EQ(status, kCaptureStatusInvalidated);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cuStreamSynchronize(one_), kSuccess);
}

TEST_F(StreamsTest, AllocatingDuringAGlobalCaptureNeedsTheRelaxedMode) {
  DevicePtr address = 0;
  Graph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  int mode = kCaptureRelaxed;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), kSuccess);
  EXPECT_EQ(mode, kCaptureGlobal);
  EXPECT_EQ(cuMemAlloc_v2(&address, kSize), kSuccess);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), kSuccess);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kSuccess);
  EXPECT_EQ(cuGraphDestroy(graph), kSuccess);
  EXPECT_EQ(cuMemFree_v2(address), kSuccess);

  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  EXPECT_EQ(cuMemAlloc_v2(&address, kSize), kCaptureUnsupported);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kCaptureInvalidated);
}

TEST_F(StreamsTest, AnotherThreadDisturbsAGlobalCaptureUnlessItIsRelaxed) {
  Graph graph = nullptr;
  const auto query_elsewhere = [&](int mode) {
    Result result = kUnknown;
    std::thread([&] {
      if (cuThreadExchangeStreamCaptureMode(&mode) == kSuccess) result = cuEventQuery(event_);
    }).join();
    return result;
  };
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
  EXPECT_EQ(query_elsewhere(kCaptureRelaxed), kSuccess);
  EXPECT_EQ(query_elsewhere(kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(query_elsewhere(kCaptureGlobal), kCaptureUnsupported);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kCaptureInvalidated);
}

TEST_F(StreamsTest, ACaptureSpreadsAlongEventsAndMustBeJoined) {
  Graph graph = nullptr;
  int status = -1;
  const auto fork = [&] {
    ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureGlobal), kSuccess);
    ASSERT_EQ(cuEventRecord(event_, one_), kSuccess);
    ASSERT_EQ(cuStreamWaitEvent(two_, event_, 0), kSuccess);
    ASSERT_EQ(cuMemsetD8Async(device_, 5, kSize, two_), kSuccess);
  };
  fork();
  ASSERT_EQ(cuStreamIsCapturing(two_, &status), kSuccess);
  EXPECT_EQ(status, kCaptureStatusActive);
  EXPECT_EQ(cuStreamEndCapture(two_, &graph), kCaptureUnmatched);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kCaptureUnjoined);

  fork();
  ASSERT_EQ(cuEventRecord(event_, two_), kSuccess);
  EXPECT_EQ(cuEventSynchronize(event_), kCapturedEvent);
  ASSERT_EQ(cuStreamWaitEvent(one_, event_, 0), kSuccess);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kSuccess);
  EXPECT_EQ(cuGraphDestroy(graph), kSuccess);
}

TEST_F(StreamsTest, TheContextCannotBeWaitedForDuringACapture) {
  Graph graph = nullptr;
  Context context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), kSuccess);
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureRelaxed), kSuccess);
  EXPECT_EQ(cuCtxSynchronize(), kCaptureUnsupported);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kCaptureInvalidated);
  ASSERT_EQ(cuStreamBeginCapture_v2(one_, kCaptureRelaxed), kSuccess);
  EXPECT_EQ(cuCtxRecordEvent(context, event_), kCaptureUnsupported);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph), kCaptureInvalidated);
}

TEST_F(StreamsTest, TheDefaultStreamCannotDependOnACapturingBlockingStream) {
  hocket::Stream blocking = nullptr;
  Graph graph = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), kSuccess);
  ASSERT_EQ(cuStreamBeginCapture_v2(blocking, kCaptureRelaxed), kSuccess);
  EXPECT_EQ(cuMemsetD8Async(device_, 1, kSize, nullptr), kCaptureImplicit);
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), kCaptureInvalidated);
  EXPECT_EQ(cuStreamDestroy_v2(blocking), kSuccess);
}

}  // namespace
}  // namespace hocket
