#include "allocator/copy_wait.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/allocator/emulated_gpu.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;

constexpr Bytes kMany = 64_MiB, kFew = 64_KiB;

// A stream with work on it, and an event behind that.
class CopyWaitTest : public ::testing::Test {
 protected:
  CopyWaitTest() {
    gpu.UseContext();
    gpu.KeepBusy(stream, &go);
    EXPECT_TRUE(gpu.driver().RecordEvent(event, stream).ok());
    gpu.ForgetCalls();
  }
  ~CopyWaitTest() override {
    End();
    gpu.FailNoCall();
    (void)gpu.driver().SynchronizeStream(stream);
    (void)gpu.driver().DestroyEvent(event);
    (void)gpu.driver().DestroyStream(stream);
  }
  void End() {
    go = true;
    go.notify_all();
  }
  // When the wait comes to this call of the driver's, the work ends.
  void EndsAt(const std::string& call) {
    gpu.OnNext(call, [this] { End(); });
  }
  absl::Status Await(Bytes bytes) { return wait.Await(event, bytes, Clock::now()); }

  EmulatedGpu& gpu = EmulatedGpu::Get();
  Stream stream = *gpu.driver().CreateStream();
  EventHandle event = *gpu.driver().CreateEvent();
  std::atomic<bool> go{false};
  CopyWait wait{gpu.driver()};
};

TEST_F(CopyWaitTest, ItAsksUntilTheCopiesHaveArrived) {
  EndsAt("EventQuery");
  ASSERT_TRUE(Await(kMany).ok());
  EXPECT_TRUE(*gpu.driver().EventDone(event));
}

TEST_F(CopyWaitTest, WhoHasAskedInVainForAWhileLetsTheDriverWakeHim) {
  EndsAt("EventSynchronize");
  ASSERT_TRUE(Await(kMany).ok());
  EXPECT_GT(gpu.Calls()["EventQuery"], 0);
  EXPECT_EQ(gpu.Calls()["EventSynchronize"], 1);
  EXPECT_TRUE(*gpu.driver().EventDone(event));
}

TEST_F(CopyWaitTest, ForFewBytesNobodyAsks) {
  EndsAt("EventSynchronize");
  ASSERT_TRUE(Await(kFew).ok());
  EXPECT_EQ(gpu.Calls()["EventQuery"], 0);
}

// What took hours once, a stopped process say, does not keep anybody from asking the driver the next time.
TEST_F(CopyWaitTest, AfterOneThatTookForEverTheDriverWakesHim) {
  EndsAt("EventSynchronize");
  ASSERT_TRUE(wait.Await(event, kMany, Clock::now() - std::chrono::hours(1)).ok());
  gpu.ForgetCalls();
  ASSERT_TRUE(Await(kMany).ok());
  EXPECT_EQ(gpu.Calls()["EventQuery"], 0);
  EXPECT_EQ(gpu.Calls()["EventSynchronize"], 1);
}

TEST_F(CopyWaitTest, AnErrorIsTheDrivers) {
  gpu.FailNext("EventQuery", 999);
  EXPECT_FALSE(Await(kMany).ok());
  gpu.FailNext("EventSynchronize", 999);
  EXPECT_FALSE(Await(kFew).ok());
}

}  // namespace
}  // namespace hocket
