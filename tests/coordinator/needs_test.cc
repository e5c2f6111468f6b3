// What programs needed in earlier runs is kept beyond the daemon's life, and known to the next run.
#include "coordinator/server/needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;

class NeedsTest : public testing::Test {
 protected:
  NeedsTest() {
    std::string pattern = "/tmp/hk-needs-XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~NeedsTest() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
};

TEST_F(NeedsTest, AreKnownToTheNextDaemon) {
  EXPECT_EQ(Needs(dir_).Learn(7, {.persistent = 60, .transient = 5, .host = 9, .runs = 1}), "");
  const Needs next(dir_);
  EXPECT_EQ(next.trouble(), "");
  ASSERT_TRUE(next.Of(7).has_value());
  EXPECT_EQ(next.Of(7)->persistent, 60u);
  EXPECT_EQ(next.Of(7)->transient, 5u);
  EXPECT_EQ(next.Of(7)->host, 9u);
  EXPECT_EQ(next.Of(7)->runs, 1u);
  EXPECT_FALSE(next.Of(8).has_value());
}

TEST_F(NeedsTest, MoreIsBelievedAtOnceAndLessSoon) {
  Needs needs(dir_);
  needs.Learn(7, {.persistent = 60, .runs = 1});
  needs.Learn(7, {.persistent = 80, .runs = 1});
  EXPECT_EQ(needs.Of(7)->persistent, 80u);
  needs.Learn(7, {.persistent = 20, .runs = 1});
  EXPECT_EQ(needs.Of(7)->persistent, 50u);
  EXPECT_EQ(needs.Of(7)->runs, 3u);
}

TEST_F(NeedsTest, LinesThatMakeNoSenseAreToldAndIgnored) {
  std::ofstream(dir_ + "/needs") << "0000000000000007 60 5 9 1\n\xff\xfe\n7 -1 0 0 1\n8 1 2 3\n9 1 2 3 4 5\n";
  const Needs needs(dir_);
  EXPECT_THAT(needs.trouble(), HasSubstr("4 line(s) that make no sense"));
  EXPECT_EQ(needs.Of(7)->persistent, 60u);
  EXPECT_FALSE(needs.Of(8).has_value());
  EXPECT_FALSE(needs.Of(9).has_value());
}

TEST_F(NeedsTest, TheOnesUsedLongestAgoAreForgotten) {
  {
    std::ofstream file(dir_ + "/needs");
    for (std::size_t i = 1; i <= Needs::kMost; ++i) file << std::hex << i << std::dec << " 1 1 1 1\n";
  }
  Needs needs(dir_);
  needs.Learn(1, {.persistent = 1, .runs = 1});
  needs.Learn(0xffff, {.persistent = 1, .runs = 1});
  const Needs next(dir_);
  EXPECT_TRUE(next.Of(1).has_value()) << "it was used again";
  EXPECT_FALSE(next.Of(2).has_value());
  EXPECT_TRUE(next.Of(3).has_value());
}

}  // namespace
}  // namespace hocket::coordinator
