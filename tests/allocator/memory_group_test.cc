#include "allocator/memory_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace hocket {
namespace {

// A tree of groups as the kernel shows it.
class MemoryGroupTest : public ::testing::Test {
 protected:
  MemoryGroupTest() { std::filesystem::create_directories(root); }
  ~MemoryGroupTest() override { std::filesystem::remove_all(root); }

  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + file).parent_path());
    std::ofstream(root + file) << text << "\n";
  }
  // Version 2.
  void Group(const std::string& path, const std::string& limit, Bytes used) {
    Write(path + "/memory.max", limit);
    Write(path + "/memory.current", std::to_string(used));
  }
  Bytes Free(const std::string& membership) {
    Write("/membership", membership);
    return FreeInMemoryGroup(root, root + "/membership");
  }

  const std::string root =
      (std::filesystem::temp_directory_path() / ("hocket-groups-" + std::to_string(getpid()))).string();
};

TEST_F(MemoryGroupTest, TheGroupOfThisProcessLimitsIt) {
  Group("/jobs/17", std::to_string(8_GiB), 3_GiB);
  EXPECT_EQ(Free("0::/jobs/17"), 5_GiB);
}

TEST_F(MemoryGroupTest, SoDoesEveryGroupAboveIt) {
  Group("/jobs/17", std::to_string(8_GiB), 3_GiB);
  Group("/jobs", std::to_string(16_GiB), 15_GiB);
  EXPECT_EQ(Free("0::/jobs/17"), 1_GiB);
  Group("/jobs/17", "max", 3_GiB);
  EXPECT_EQ(Free("0::/jobs/17"), 1_GiB);
}

TEST_F(MemoryGroupTest, InAContainerTheRootLimits) {
  Group("", std::to_string(2_GiB), 512_MiB);
  EXPECT_EQ(Free("0::/"), 1536_MiB);
  EXPECT_EQ(Free("0::/docker/of-the-host"), 1536_MiB);
}

TEST_F(MemoryGroupTest, FilesThatAreOnlyCachedCountAsFree) {
  Group("/jobs/17", std::to_string(8_GiB), 8_GiB);
  Write("/jobs/17/memory.stat", "anon 1\ninactive_file " + std::to_string(6_GiB) + "\nactive_file 5");
  EXPECT_EQ(Free("0::/jobs/17"), 6_GiB);
}

TEST_F(MemoryGroupTest, AGroupThatIsFullLeavesNothing) {
  Group("/jobs", std::to_string(1_GiB), 2_GiB);
  EXPECT_EQ(Free("0::/jobs"), 0u);
}

TEST_F(MemoryGroupTest, VersionOneHasAPathOfItsOwn) {
  Write("/memory/batch/memory.limit_in_bytes", std::to_string(4_GiB));
  Write("/memory/batch/memory.usage_in_bytes", std::to_string(1_GiB));
  EXPECT_EQ(Free("5:cpu,cpuacct:/other\n4:memory:/batch\n0::/"), 3_GiB);
}

TEST_F(MemoryGroupTest, WithoutGroupsNothingLimits) {
  EXPECT_EQ(Free(""), kNoLimit);
  EXPECT_EQ(Free("0::/jobs/17\nnonsense\n4:memory:relative"), kNoLimit);
}

}  // namespace
}  // namespace hocket
