// Timing mode: the driver's memory calls last at least as long as the cost model says. Only lower bounds: a
// call of an hour that is not to be charged shows by hanging.
#include <chrono>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulator/world.h"

namespace hocket {
namespace {

constexpr const char* kHour = "3600000000";

class CallTimeTest : public testing::Test {
 protected:
  CallTimeTest() : world_("HOCKET_EMULATOR_MODE", "timing") {}

  // A process whose calls cost what `rows` say.
  Puppet Start(const std::string& rows, const Puppet::Environment& more = {}) {
    const std::string file = testing::TempDir() + "/calls-" + std::to_string(getpid());
    std::ofstream(file) << rows;
    Puppet::Environment environment = more;
    environment["HOCKET_EMULATOR_COSTS"] = file;
    Puppet puppet = world_.Start(environment);
    Does(puppet, "reserve r 65536");
    return puppet;
  }
  static void Does(Puppet& puppet, const std::string& line) { EXPECT_EQ(puppet.Ask(line), "ok") << line; }
  // Two mappings of 4 MiB at r.
  static void MapsTwo(Puppet& puppet) {
    for (const char* line : {"create a 4096", "create b 4096", "map r 0 4096 a", "map r 4096 4096 b"})
      Does(puppet, line);
  }
  // Two of the host's memory.
  static void MapsTwoOfTheHost(Puppet& puppet) {
    for (const char* line :
         {"create-on-host a 4096", "create-on-host b 4096", "map r 0 4096 a", "map r 4096 4096 b"})
      Does(puppet, line);
  }
  // A copy of 32 MiB to the host that takes an hour and more where the link is slow.
  static void Copies(Puppet& puppet, const std::string& verb) {
    for (const std::string& line : {std::string("stream s nonblocking"), std::string("alloc x 32768"),
                                    std::string("pinned h 32768"), verb + " x 0 h 32768 s"})
      Does(puppet, line);
  }
  static double Milliseconds(Puppet& puppet, const std::string& line) {
    const auto begin = std::chrono::steady_clock::now();
    Does(puppet, line);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  World world_;
};

TEST_F(CallTimeTest, MemoryCostsByTheMiBWhenItComesAndGoes) {
  Puppet a = Start("call create_us 10000\ncall create_us_per_mib 1000\ncall release_us_per_mib 5000\n");
  EXPECT_GE(Milliseconds(a, "create c 8192"), 18);
  EXPECT_GE(Milliseconds(a, "release c"), 40);
}

TEST_F(CallTimeTest, ARunOfMappingsCostsAsMuchAsEachOfThem) {
  Puppet a =
      Start("call map_us 5000\ncall access_us 10000\ncall access_us_per_mib 1000\ncall unmap_us 20000\n");
  Does(a, "create a 4096");
  Does(a, "create b 4096");
  EXPECT_GE(Milliseconds(a, "map r 0 4096 a"), 5);
  Does(a, "map r 4096 4096 b");
  EXPECT_GE(Milliseconds(a, "access r 0 8192"), 28);
  EXPECT_GE(Milliseconds(a, "unmap r 0 8192"), 40);
}

TEST_F(CallTimeTest, TheLastBondOfMemoryCostsItsRelease) {
  Puppet a = Start("call unmap_us 1000\ncall release_us 20000\n");
  MapsTwo(a);
  Does(a, "release a");
  Does(a, "release b");
  EXPECT_GE(Milliseconds(a, "unmap r 0 8192"), 42);
}

TEST_F(CallTimeTest, HostMemoryHasCostsOfItsOwn) {
  Puppet a =
      Start(std::string("call host_create_us_per_mib 5000\ncall host_own_access_us 15000\n"
                        "call host_access_us 10000\ncall host_unmap_us 20000\n") +
            "call create_us " + kHour + "\ncall access_us " + kHour + "\ncall unmap_us " + kHour + "\n");
  EXPECT_GE(Milliseconds(a, "create-on-host c 4096"), 20);
  MapsTwoOfTheHost(a);
  EXPECT_GE(Milliseconds(a, "host-access r 0 8192"), 30);
  EXPECT_GE(Milliseconds(a, "access r 0 8192"), 20);
  EXPECT_GE(Milliseconds(a, "unmap r 0 8192"), 40);
}

TEST_F(CallTimeTest, PinningCostsByTheMiBAndLessWhereThePagesAreThere) {
  Puppet a =
      Start("call pin_us_per_mib 10000\ncall pin_touched_us_per_mib 1000\ncall host_alloc_us_per_mib 5000\n");
  EXPECT_GE(Milliseconds(a, "register p 4096 0"), 40);
  EXPECT_GE(Milliseconds(a, "register q 4096 2048"), 22);
  EXPECT_GE(Milliseconds(a, "pinned h 4096"), 20);
  Puppet b = Start(std::string("call pin_us_per_mib ") + kHour + "\n");
  Does(b, "register p 4096 4096");
}

TEST_F(CallTimeTest, AnAccessWaitsBehindCopiesToTheHostForEachMapping) {
  const std::string slow = "rate copy_out_bytes_per_us 1\ncall access_behind_copy_us 15000\n";
  Puppet a = Start(slow), b = Start(slow);
  Copies(a, "to-host");
  for (Puppet* p : {&a, &b}) {  // whoever copies
    MapsTwo(*p);
    EXPECT_GE(Milliseconds(*p, "access r 0 8192"), 30);
    Does(*p, "unmap r 0 8192");
    MapsTwoOfTheHost(*p);
    EXPECT_GE(Milliseconds(*p, "access r 0 8192"), 30);
  }
}

TEST_F(CallTimeTest, OtherCallsBesideCopiesToTheHostTakeLongerByAFactor) {
  Puppet a = Start("rate copy_out_bytes_per_us 1\ncall create_us 5000\ncall beside_copy_factor 4\n");
  EXPECT_GE(Milliseconds(a, "create c 4096"), 5);
  Copies(a, "to-host");
  EXPECT_GE(Milliseconds(a, "create d 4096"), 20);
}

TEST_F(CallTimeTest, UnmappingTheHostsMemoryBesideCopiesToTheDeviceTakesLongerByAFactor) {
  Puppet a = Start(
      "rate copy_in_bytes_per_us 1\ncall host_unmap_us 5000\ncall host_unmap_beside_copy_in_factor 4\n");
  MapsTwoOfTheHost(a);
  EXPECT_GE(Milliseconds(a, "unmap r 0 8192"), 10);
  MapsTwoOfTheHost(a);
  Copies(a, "to-device");
  EXPECT_GE(Milliseconds(a, "unmap r 0 8192"), 40);
}

TEST_F(CallTimeTest, AnAccessWaitsNoLongerThanThereAreCopiesToTheHost) {
  // 100 ms of copies.
  Puppet a = Start(std::string("rate copy_out_bytes_per_us 335\ncall access_behind_copy_us ") + kHour + "\n");
  MapsTwo(a);
  Does(a, "event copied timed");
  Copies(a, "to-host");
  Does(a, "record copied s");
  Does(a, "access r 0 8192");
  EXPECT_EQ(a.Ask("query-event copied"), "ok");
}

TEST_F(CallTimeTest, AnAccessDoesNotWaitBehindCopiesToTheDeviceOrKernels) {
  Puppet a = Start(std::string("rate copy_in_bytes_per_us 1\ncall access_behind_copy_us ") + kHour + "\n");
  MapsTwo(a);
  Copies(a, "to-device");
  Does(a, "launch default 1000000 60");
  Does(a, "access r 0 8192");
}

TEST_F(CallTimeTest, ACallThatFailsCostsNothing) {
  Puppet a = Start(std::string("call create_us ") + kHour + "\ncall unmap_us " + kHour + "\n");
  EXPECT_EQ(a.Ask("create c 1048576"), "CUDA_ERROR_OUT_OF_MEMORY");
  Does(a, "unmap r 0 8192");  // of no mapping
}

TEST_F(CallTimeTest, WithValuesNothingIsCharged) {
  std::string rows;
  for (const char* call : {"create", "map", "access", "unmap", "release", "pin", "host_alloc", "host_create"})
    rows += std::string("call ") + call + "_us " + kHour + "\n";
  Puppet a = Start(rows, {{"HOCKET_EMULATOR_MODE", "values"}});
  MapsTwo(a);
  for (const char* line : {"access r 0 8192", "unmap r 0 8192", "release a", "register p 4096 0",
                           "pinned h 4096", "create-on-host c 4096"})
    Does(a, line);
}

}  // namespace
}  // namespace hocket
