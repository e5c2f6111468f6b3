// One device, several processes: capacity, memory passed by descriptor, deaths.
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulator/world.h"

namespace hocket {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string DescriptorIn(const std::string& answer) { return answer.substr(answer.find(' ') + 1); }

TEST(SharingTest, ProcessesOfOneNameShareTheCapacity) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 49152"), "ok");
  EXPECT_EQ(b.Ask("used"), "ok 49152 of 65536");
  EXPECT_EQ(b.Ask("alloc y 32768"), "CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_EQ(a.Ask("free x"), "ok");
  EXPECT_EQ(b.Ask("alloc y 32768"), "ok");
  EXPECT_EQ(a.Ask("used"), "ok 32768 of 65536");
}

TEST(SharingTest, DevicesAreSeparate) {
  World world("HOCKET_EMULATOR_DEVICES", "2");
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(b.Ask("device 1"), "ok");
  ASSERT_EQ(a.Ask("alloc x 65536"), "ok");
  EXPECT_EQ(b.Ask("used"), "ok 0 of 65536");
  EXPECT_EQ(b.Ask("alloc y 65536"), "ok");
}

TEST(SharingTest, InExclusiveModeOneProcessAtATimeHasAContext) {
  World world("HOCKET_EMULATOR_EXCLUSIVE", "1");
  Puppet a = world.Start(), b = world.Start();
  EXPECT_EQ(a.Ask("device 0"), "ok");
  EXPECT_EQ(b.Ask("device 0"), "CUDA_ERROR_DEVICE_UNAVAILABLE");
  a.Kill();
  EXPECT_EQ(b.Ask("device 0"), "ok");
}

TEST(SharingTest, NamesAreSeparate) {
  World one, other;
  Puppet a = one.Start(), b = other.Start();
  ASSERT_EQ(a.Ask("alloc x 65536"), "ok");
  EXPECT_EQ(b.Ask("used"), "ok 0 of 65536");
}

TEST(SharingTest, TheExistingDeviceWinsAndSaysSo) {
  World world;
  Puppet first = world.Start();
  Puppet second = world.Start({{"HOCKET_EMULATOR_MEMORY", "128MiB"}});
  EXPECT_EQ(second.Ask("used"), "ok 0 of 65536");
  second.Finish();
  EXPECT_THAT(second.Errors(), HasSubstr("asked for 1 emulated device(s) of 128.0 MiB"));
  EXPECT_THAT(second.Errors(), HasSubstr("exists with 1 of 64.0 MiB"));
}

TEST(SharingTest, WhoComesWhenAllAreGoneGetsTheDeviceAsAskedFor) {
  World world;
  world.Start().Kill();
  Puppet next = world.Start({{"HOCKET_EMULATOR_MEMORY", "128MiB"}});
  EXPECT_EQ(next.Ask("used"), "ok 0 of 131072");
}

TEST(SharingTest, TheLastProcessToEndLeavesNothingBehind) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  a.Finish();
  EXPECT_EQ(access(world.Path().c_str(), F_OK), 0);
  b.Finish();
  EXPECT_NE(access(world.Path().c_str(), F_OK), 0);
}

TEST(SharingTest, MemoryOfAProcessThatEndsIsFree) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 65536"), "ok");
  a.Finish();
  EXPECT_EQ(b.Ask("used"), "ok 0 of 65536");
}

TEST(SharingTest, MemoryOfAKilledProcessComesBack) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 65536"), "ok");
  a.Kill();
  EXPECT_EQ(b.Ask("alloc y 65536"), "ok");
}

TEST(SharingTest, MemoryOfAKilledProcessStaysForTheTeardownDelay) {
  World world("HOCKET_EMULATOR_TEARDOWN_MS", "3600000");
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 65536"), "ok");
  a.Kill();
  EXPECT_EQ(b.Ask("used"), "ok 65536 of 65536");
  EXPECT_EQ(b.Ask("alloc y 2048"), "CUDA_ERROR_OUT_OF_MEMORY");
  // Who asks decides how long that is.
  Puppet c = world.Start({{"HOCKET_EMULATOR_TEARDOWN_MS", "0"}});
  EXPECT_EQ(c.Ask("used"), "ok 0 of 65536");
}

TEST(SharingTest, MemoryOfAKilledProcessIsBackAfterTheTeardownDelay) {
  World world("HOCKET_EMULATOR_TEARDOWN_MS", "5");
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 65536"), "ok");
  a.Kill();
  while (b.Ask("used") == "ok 65536 of 65536") std::this_thread::yield();
  EXPECT_EQ(b.Ask("used"), "ok 0 of 65536");
}

TEST(SharingTest, AContextTakesItsOverhead) {
  World world("HOCKET_EMULATOR_CONTEXT_MEMORY", "8MiB");
  Puppet a = world.Start();
  EXPECT_EQ(a.Ask("used"), "ok 8192 of 65536");
  Puppet b = world.Start();
  EXPECT_EQ(a.Ask("used"), "ok 16384 of 65536");
  b.Kill();
  EXPECT_EQ(a.Ask("used"), "ok 8192 of 65536");
}

TEST(SharingTest, AStreamTakesMemoryAndCannotBeMadeWhereNoneIsLeft) {
  World world("HOCKET_EMULATOR_STREAM_MEMORY", "2MiB");
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("stream s nonblocking"), "ok");
  EXPECT_EQ(b.Ask("used"), "ok 2048 of 65536");
  ASSERT_EQ(b.Ask("alloc x 63488"), "ok");
  EXPECT_EQ(a.Ask("stream t nonblocking"), "CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_EQ(a.Ask("destroy s"), "ok");
  EXPECT_EQ(a.Ask("stream t nonblocking"), "ok");
  a.Kill();
  EXPECT_EQ(b.Ask("used"), "ok 63488 of 65536");
}

TEST(SharingTest, AChunkPassedOnIsTheSameMemoryAndCountsOnce) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("reserve r 2048"), "ok");
  ASSERT_EQ(a.Ask("create c 2048"), "ok");
  ASSERT_EQ(a.Ask("map r 0 2048 c"), "ok");
  ASSERT_EQ(a.Ask("access r 0 2048"), "ok");
  ASSERT_EQ(a.Ask("fill r 0 2048 91 default"), "ok");
  ASSERT_EQ(a.Ask("sync-all"), "ok");
  const std::string fd = DescriptorIn(a.Ask("export c"));

  ASSERT_EQ(b.Ask("import d " + std::to_string(a.pid()) + " " + fd), "ok");
  EXPECT_EQ(b.Ask("used"), "ok 2048 of 65536");
  ASSERT_EQ(b.Ask("reserve r 2048"), "ok");
  ASSERT_EQ(b.Ask("map r 0 2048 d"), "ok");
  ASSERT_EQ(b.Ask("access r 0 2048"), "ok");
  EXPECT_EQ(b.Ask("read r 2047"), "ok 91");
  ASSERT_EQ(b.Ask("fill r 0 1 17 default"), "ok");
  ASSERT_EQ(b.Ask("sync-all"), "ok");
  EXPECT_EQ(a.Ask("read r 0"), "ok 17");
}

TEST(SharingTest, AChunkCountsUntilTheLastHolderLetsGo) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("create c 2048"), "ok");
  const std::string fd = DescriptorIn(a.Ask("export c"));
  ASSERT_EQ(b.Ask("import d " + std::to_string(a.pid()) + " " + fd), "ok");
  ASSERT_EQ(a.Ask("release c"), "ok");
  ASSERT_EQ(a.Ask("close " + fd), "ok");
  EXPECT_EQ(a.Ask("used"), "ok 2048 of 65536");
  ASSERT_EQ(b.Ask("release d"), "ok");
  EXPECT_EQ(a.Ask("used"), "ok 0 of 65536");
}

TEST(SharingTest, AKilledMakersChunkLivesOnWithItsImporter) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("create c 2048"), "ok");
  const std::string fd = DescriptorIn(a.Ask("export c"));
  ASSERT_EQ(b.Ask("import d " + std::to_string(a.pid()) + " " + fd), "ok");
  a.Kill();
  EXPECT_EQ(b.Ask("used"), "ok 2048 of 65536");
  b.Kill();
  Puppet c = world.Start();
  EXPECT_EQ(c.Ask("used"), "ok 0 of 65536");
}

TEST(SharingTest, AChunkOfAnotherDeviceNameIsRefused) {
  World one, other;
  Puppet a = one.Start(), b = other.Start();
  ASSERT_EQ(a.Ask("create c 2048"), "ok");
  const std::string fd = DescriptorIn(a.Ask("export c"));
  EXPECT_EQ(b.Ask("import d " + std::to_string(a.pid()) + " " + fd), "CUDA_ERROR_INVALID_VALUE");
}

TEST(SharingTest, AnAllocationIsSharedByItsHandle) {
  World world;
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  ASSERT_EQ(a.Ask("fill x 0 64 33 default"), "ok");
  ASSERT_EQ(a.Ask("sync-all"), "ok");
  const std::string handle = DescriptorIn(a.Ask("share-memory x"));
  ASSERT_EQ(b.Ask("open-memory y " + handle), "ok");
  EXPECT_EQ(b.Ask("read y 63"), "ok 33");
  EXPECT_EQ(b.Ask("used"), "ok 64 of 65536");
  EXPECT_EQ(b.Ask("close-memory y"), "ok");
  EXPECT_EQ(b.Ask("close-memory y"), "CUDA_ERROR_INVALID_VALUE");
}

TEST(SharingTest, AnEventOfAnotherProcessIsWaitedFor) {
  World world("HOCKET_EMULATOR_COPY_DELAY_US", "20000");
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  ASSERT_EQ(a.Ask("stream s nonblocking"), "ok");
  ASSERT_EQ(a.Ask("event e shared"), "ok");
  const std::string event = DescriptorIn(a.Ask("share-event e"));
  const std::string memory = DescriptorIn(a.Ask("share-memory x"));
  ASSERT_EQ(b.Ask("open-event e " + event), "ok");
  ASSERT_EQ(b.Ask("open-memory x " + memory), "ok");
  for (int i = 1; i <= 5; ++i) {
    const std::string value = std::to_string(i);
    ASSERT_EQ(a.Ask("fill x 0 64 " + value + " s"), "ok");  // late by the copy delay
    ASSERT_EQ(a.Ask("record e s"), "ok");
    ASSERT_EQ(b.Ask("sync-event e"), "ok");
    EXPECT_EQ(b.Ask("read x 0"), "ok " + value);
  }
}

TEST(SharingTest, AnEventWhoseRecorderIsDeadHoldsNobodyUp) {
  World world("HOCKET_EMULATOR_COPY_DELAY_US", "60000000");
  Puppet a = world.Start(), b = world.Start();
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  ASSERT_EQ(a.Ask("event e shared"), "ok");
  ASSERT_EQ(b.Ask("open-event e " + DescriptorIn(a.Ask("share-event e"))), "ok");
  ASSERT_EQ(a.Ask("fill x 0 64 1 default"), "ok");
  ASSERT_EQ(a.Ask("record e default"), "ok");
  EXPECT_EQ(b.Ask("query-event e"), "CUDA_ERROR_NOT_READY");
  a.Kill();
  EXPECT_EQ(b.Ask("sync-event e"), "ok");
}

TEST(SharingTest, AForkedChildHasNoDriverAndNoDescriptors) {
  World world;
  Puppet a = world.Start();
  ASSERT_EQ(a.Ask("create c 2048"), "ok");
  ASSERT_EQ(a.Ask("alloc x 64"), "ok");
  EXPECT_EQ(a.Ask("fork"), "CUDA_ERROR_NOT_INITIALIZED 0 descriptors");
  EXPECT_EQ(a.Ask("used"), "ok 2112 of 65536");
}

// Kills processes in the middle of whatever they do; what is left must add up every time.
TEST(SharingTest, TheStateStaysConsistentWhoeverIsKilledWherever) {
  World world;
  Puppet witness = world.Start();
  std::mt19937 random(20240607);
  std::uniform_int_distribution<int> microseconds(0, 3000);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<Puppet> victims;
    for (int i = 0; i < 2; ++i) victims.push_back(world.Start());
    for (Puppet& victim : victims) victim.Tell("churn 100000");
    usleep(static_cast<useconds_t>(microseconds(random)));
    for (Puppet& victim : victims) victim.Kill();
    ASSERT_EQ(witness.Ask("used"), "ok 0 of 65536");
    ASSERT_EQ(witness.Ask("alloc all 65536"), "ok");
    ASSERT_EQ(witness.Ask("free all"), "ok");
  }
}

TEST(SharingTest, ProcessesThatAreStartedTogetherAgreeOnTheDevice) {
  World world;
  std::vector<Puppet> puppets;
  for (int i = 0; i < 6; ++i) puppets.push_back(world.Start());
  for (Puppet& puppet : puppets) puppet.Tell("alloc x 8192");
  for (Puppet& puppet : puppets) EXPECT_EQ(puppet.Answer(), "ok");
  for (Puppet& puppet : puppets) EXPECT_EQ(puppet.Ask("used"), "ok 49152 of 65536");
}

}  // namespace
}  // namespace hocket
