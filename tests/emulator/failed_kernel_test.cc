// A kernel that fails takes its process's devices away: what is queued is over, and every call that works on
// a device answers its error, until the process ends. Others go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/emulator/world.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

constexpr char kFails[] = "fail-kernel 710";
constexpr char kError[] = "CUDA_ERROR_ASSERT";

// 2 MiB at r, of the chunk c, which `chunk` makes.
void Map(Puppet& puppet, const std::string& chunk = "create c 2048") {
  for (const std::string& call :
       {std::string("reserve r 2048"), chunk, std::string("map r 0 2048 c"), std::string("access r 0 2048")})
    ASSERT_EQ(puppet.Ask(call), "ok") << call;
}

TEST(FailedKernelTest, CallsThatWorkOnTheDeviceAnswerItsErrorFromThenOn) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  ASSERT_EQ(a.Ask("stream s plain"), "ok");
  ASSERT_EQ(a.Ask("event e plain"), "ok");
  ASSERT_EQ(a.Ask("record e s"), "ok");
  ASSERT_EQ(a.Ask(kFails), "ok");
  for (const char* call :
       {"sync-all", "sync s", "sync-event e", "query-event e", "record e s", "record-all e", "wait s e",
        "fill x 0 64 1 s", "alloc y 64", "free x", "stream t plain", "event f plain", "destroy s"})
    EXPECT_EQ(a.Ask(call), kError) << call;
  EXPECT_THAT(a.Ask("used"), HasSubstr(kError));
  EXPECT_EQ(a.Ask("device 0"), "ok") << "what is asked of devices is answered";
  EXPECT_EQ(a.Finish(), 0) << a.Errors();
}

TEST(FailedKernelTest, TheFirstErrorIsTheOneThatLasts) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("fail-kernel 700"), "ok");
  ASSERT_EQ(a.Ask(kFails), "ok");
  EXPECT_EQ(a.Ask("sync-all"), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

// What a GPU's driver answers there is not known, so both are tested against.
TEST(FailedKernelTest, CallsThatNeedNoContextWorkOnUnlessTheyAreToldNotTo) {
  for (const bool fail : {false, true}) {
    World world("HOCKET_EMULATOR_LOST_MEMORY_CALLS", fail ? "1" : "0");
    Puppet a = world.Start();
    Map(a);
    ASSERT_EQ(a.Ask(kFails), "ok");
    for (const char* call : {"unmap r 0 2048", "release c", "create d 2048"})
      EXPECT_EQ(a.Ask(call), fail ? kError : "ok") << call;
  }
}

TEST(FailedKernelTest, WhatIsQueuedIsOverAndWhoWaitsHearsOfIt) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("stream s plain"), "ok");
  ASSERT_EQ(a.Ask("hold s"), "ok");
  ASSERT_EQ(a.Ask("mark s"), "ok");
  ASSERT_EQ(a.Ask("begin-to-sync s"), "ok");
  ASSERT_EQ(a.Ask(kFails), "ok");
  EXPECT_EQ(a.Ask("end-of-sync"), kError);
  ASSERT_EQ(a.Ask("let-go"), "ok");
  EXPECT_EQ(a.Ask("mark s"), kError);
  EXPECT_EQ(a.Ask("marks"), "ok 0");
  EXPECT_EQ(a.Finish(), 0) << a.Errors();
}

// Its work is over, so check mode has nothing to say where another process uses the memory that it used last.
TEST(FailedKernelTest, OthersGoOnAndMayUseTheMemoryThatItUsedLast) {
  World world;
  Puppet a = world.Start();
  Puppet b = world.Start();
  Map(a);
  const std::string exported = a.Ask("export c");
  ASSERT_THAT(exported, HasSubstr("ok "));
  Map(b, "import c " + std::to_string(a.pid()) + " " + exported.substr(3));
  ASSERT_EQ(a.Ask("kernel last default write r 0 2048"), "ok");
  ASSERT_EQ(a.Ask(kFails), "ok");
  EXPECT_EQ(b.Ask("kernel next default write r 0 2048"), "ok") << b.Errors();
  EXPECT_EQ(b.Ask("sync-all"), "ok");
  EXPECT_EQ(a.Finish(), 0) << a.Errors();
  EXPECT_EQ(b.Finish(), 0) << b.Errors();
}

TEST(FailedKernelTest, InTimingModeItsWorkIsGoneFromTheTimeline) {
  World world("HOCKET_EMULATOR_MODE", "timing");
  Puppet a = world.Start();
  Puppet b = world.Start();
  constexpr char kForHours[] = "launch default 10000000000";
  ASSERT_EQ(a.Ask(kForHours), "ok");
  ASSERT_EQ(a.Ask(kFails), "ok");
  EXPECT_EQ(a.Ask("sync-all"), kError);
  ASSERT_EQ(b.Ask("launch default 1000"), "ok");
  EXPECT_EQ(b.Ask("sync-all"), "ok");
}

}  // namespace
}  // namespace hocket
