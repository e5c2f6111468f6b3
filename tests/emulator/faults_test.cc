// Touching device memory where a GPU would not let one ends the process, and says what was touched.
#include <sys/wait.h>

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulator/world.h"

namespace hocket {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FaultsTest, TheHostCannotReadDeviceMemory) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  EXPECT_EQ(a.Ask("touch x 0"), "");
  const int status = a.Finish();
  EXPECT_NE(status, 0);
  EXPECT_THAT(a.Errors(), AllOf(HasSubstr("host access to device address 0x"), HasSubstr("64.0 KiB at 0x")));
}

TEST(FaultsTest, TheHostReadsHostMemoryAtADeviceAddressOnlyWhereItMay) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("create-on-host c 2048"), "ok");
  ASSERT_EQ(a.Ask("reserve r 2048"), "ok");
  ASSERT_EQ(a.Ask("map r 0 2048 c"), "ok");
  ASSERT_EQ(a.Ask("access r 0 2048"), "ok");
  ASSERT_EQ(a.Ask("host-access r 0 2048"), "ok");
  EXPECT_EQ(a.Ask("touch r 0"), "ok 0");
  ASSERT_EQ(a.Ask("unmap r 0 2048"), "ok");
  ASSERT_EQ(a.Ask("map r 0 2048 c"), "ok");
  ASSERT_EQ(a.Ask("access r 0 2048"), "ok");
  EXPECT_EQ(a.Ask("touch r 0"), "") << "access goes with the mapping";
  EXPECT_NE(a.Finish(), 0);
  EXPECT_THAT(a.Errors(), HasSubstr("host access to device address 0x"));
}

TEST(FaultsTest, ADeviceThatMapsNoHostMemorySaysSo) {
  World world("HOCKET_EMULATOR_HOST_MAPPING", "0");
  Puppet a = world.Start();
  EXPECT_EQ(a.Ask("create-on-host c 2048"), "CUDA_ERROR_NOT_SUPPORTED");
}

TEST(FaultsTest, AKernelReachesMappedMemoryThroughTheAlias) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  ASSERT_EQ(a.Ask("fill x 0 64 42 default"), "ok");
  EXPECT_EQ(a.Ask("touch-in-kernel add x 0"), "ok 42");
}

TEST(FaultsTest, AKernelThatTouchesUnmappedMemoryEndsTheProcessByName) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("reserve r 4096"), "ok");
  EXPECT_EQ(a.Ask("touch-in-kernel add r 5"), "");
  EXPECT_NE(a.Finish(), 0);
  EXPECT_THAT(a.Errors(), AllOf(HasSubstr("kernel add touched unmapped device memory at 0x"),
                                HasSubstr("nothing is mapped")));
}

TEST(FaultsTest, AKernelWhoseRangesAreUnmappedEndsTheProcessBeforeItRuns) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  EXPECT_EQ(a.Ask("kernel fits default write x 0 64"), "ok");
  EXPECT_EQ(a.Ask("kernel overrun default write x 0 65"), "");
  EXPECT_NE(a.Finish(), 0);
  EXPECT_THAT(a.Errors(),
              HasSubstr("kernel overrun touched unmapped device memory: it writes 66560 bytes at 0x"));
}

TEST(FaultsTest, ACopyThatOutlivesItsMemoryEndsTheProcess) {
  World world("HOCKET_EMULATOR_COPY_DELAY_US", "500000");    // the memory goes meanwhile
  Puppet a = world.Start({{"HOCKET_EMULATOR_CHECK", "0"}});  // which would refuse the unmap below
  ASSERT_EQ(a.Ask("stream s nonblocking"), "ok");
  ASSERT_EQ(a.Ask("reserve r 2048"), "ok");
  ASSERT_EQ(a.Ask("create c 2048"), "ok");
  ASSERT_EQ(a.Ask("map r 0 2048 c"), "ok");
  ASSERT_EQ(a.Ask("access r 0 2048"), "ok");
  ASSERT_EQ(a.Ask("fill r 0 2048 1 s"), "ok");
  a.Tell("unmap r 0 2048");
  a.Tell("sync s");
  const int status = a.Finish();
  EXPECT_NE(status, 0);
  EXPECT_THAT(a.Errors(), HasSubstr("memory fill touched unmapped device memory at 0x"));
}

TEST(FaultsTest, OtherFaultsAreTheProgramsOwn) {
  World world;
  Puppet a = world.Start();
  EXPECT_EQ(a.Ask("crash"), "");
  EXPECT_NE(a.Finish(), 0);
  EXPECT_THAT(a.Errors(), testing::Not(HasSubstr("device")));
}

TEST(FaultsTest, AnUnreadableSettingEndsTheProcessWithTheReason) {
  World world;
  Puppet a = world.Start({{"HOCKET_EMULATOR_MEMORY", "plenty"}});
  EXPECT_EQ(a.Ask("used"), "");
  a.Finish();
  EXPECT_THAT(a.Errors(), HasSubstr("HOCKET_EMULATOR_MEMORY=plenty"));
}

}  // namespace
}  // namespace hocket
