// What programs needed in earlier runs is kept beyond the daemon's life, and known to the next run.
#include "coordinator/server/needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "csrc/wire/messages.h"

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

TEST_F(NeedsTest, WhatIsMoreThanAnyMachineHasMakesNoSense) {
  std::ofstream(dir_ + "/needs") << "1 1125899906842624 0 0 1\n2 0 1125899906842624 0 1\n"
                                 << "3 0 0 1125899906842624 1\n4 0 0 0 1000000001\n"
                                 << "5 18446744073709551616 0 0 1\n6 1 1 18446744073709551615 1\n";
  const Needs needs(dir_);
  EXPECT_THAT(needs.trouble(), HasSubstr("5 line(s) that make no sense"));
  ASSERT_TRUE(needs.Of(6).has_value());
  EXPECT_EQ(needs.Of(6)->host, wire::kNoHostLimit) << "of one that never said";
}

TEST_F(NeedsTest, AnyHostMemoryThatAJobNamesIsKept) {
  EXPECT_EQ(Needs(dir_).Learn(7, {.persistent = 60, .host = Bytes{1} << 60, .runs = 1}), "");
  const Needs next(dir_);
  EXPECT_EQ(next.trouble(), "");
  ASSERT_TRUE(next.Of(7).has_value());
  EXPECT_EQ(next.Of(7)->host, wire::kNoHostLimit);
}

TEST_F(NeedsTest, OfOneThatIsNamedTwiceTheLaterLineCounts) {
  std::ofstream(dir_ + "/needs") << "7 1 0 0 1\n8 2 0 0 1\n7 3 0 0 1\n";
  const Needs needs(dir_);
  EXPECT_EQ(needs.trouble(), "");
  EXPECT_EQ(needs.Of(7)->persistent, 3u);
  EXPECT_EQ(needs.Of(8)->persistent, 2u);
}

// Which took as long as there were programs before, for each line.
TEST_F(NeedsTest, OfAFileFullOfProgramsTheLastAreKnown) {
  constexpr std::uint64_t kLines = 60'000;
  {
    std::ofstream file(dir_ + "/needs");
    for (std::uint64_t i = 1; i <= kLines; ++i) file << std::hex << i << std::dec << " 1 1 1 1\n";
  }
  const Needs needs(dir_);
  EXPECT_EQ(needs.trouble(), "");
  EXPECT_TRUE(needs.Of(kLines).has_value());
  EXPECT_TRUE(needs.Of(kLines - Needs::kMost + 1).has_value());
  EXPECT_FALSE(needs.Of(kLines - Needs::kMost).has_value());
}

TEST_F(NeedsTest, ALineThatIsOnlyBegunWhereReadingEndsDoesNotCount) {
  {
    std::ofstream file(dir_ + "/needs");
    file << "7 60 5 9 1\n";
    for (std::size_t i = 11; i + 9 < 1 << 20; ++i) file << '\n';
    file << "8 1 1 1 123\n";
  }
  const Needs needs(dir_);
  EXPECT_TRUE(needs.Of(7).has_value());
  EXPECT_FALSE(needs.Of(8).has_value());
}

}  // namespace
}  // namespace hocket::coordinator
