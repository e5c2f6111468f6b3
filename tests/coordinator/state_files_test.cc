// State files that somebody else has written: another version, or a disk that was full.
#include "coordinator/server/state_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "csrc/base/process.h"
#include "tests/coordinator/failing_readdir.h"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class StateFilesTest : public testing::Test {
 protected:
  StateFilesTest() : folder_(MakeFolder()), files_(folder_, folder_) {}
  ~StateFilesTest() override { std::filesystem::remove_all(folder_); }

  static std::string MakeFolder() {
    char folder[] = "/tmp/hocket-state-XXXXXX";
    return mkdtemp(folder);
  }
  void Put(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }
  // The first line of a file of this process.
  static std::string OfThisProcess() {
    return absl::StrCat(getpid(), " ", ReadProcess(getpid())->start, "\n");
  }

  const std::string folder_;
  StateFiles files_;
};

TEST_F(StateFilesTest, AJobWhoseSettingsMakeNoSenseIsKnownWithoutAny) {
  Put("jobs/7", OfThisProcess() + "-1 high 10 0\ntime_cap 0.5 1 2 0\n");
  const auto job = files_.Read(7);
  ASSERT_TRUE(job);
  EXPECT_FALSE(job->settings);
  EXPECT_FALSE(job->time) << "the time of a job with unknown settings";
}

TEST_F(StateFilesTest, AGuaranteeThatNoDeviceCouldKeepIsPassedOver) {
  Put("jobs/7", OfThisProcess() + "1 high 10 0\nmemory_guarantee 9223372036854775807\n");
  Put("settings", "quota group a 0.5 0 18446744073709551615 0\nquota group b 0.5 0 1024 0\n");
  EXPECT_EQ(files_.Read(7)->settings->memory_guarantee, 0u);
  const Settings settings = files_.ReadSettings();
  EXPECT_EQ(settings.quotas.size(), 1u);
  EXPECT_EQ(settings.quotas.at(Owner::Group("b")).memory_guarantee, 1024u);
  ASSERT_EQ(settings.dropped.size(), 1u);
  EXPECT_THAT(settings.dropped[0], HasSubstr("the line 'quota group a 0.5 0 18446744073709551615 0' of "));
}

// It may lie on a file system that is mounted later: the coordinator says that it is not there, and tries
// again.
TEST_F(StateFilesTest, APolicyOfTheUsersOwnIsKeptThoughItsFileIsNotThereNow) {
  Put("settings", "policy /nowhere/mine\n");
  EXPECT_EQ(files_.ReadSettings().policy, "/nowhere/mine");
  EXPECT_THAT(files_.ReadSettings().dropped, IsEmpty());
}

TEST_F(StateFilesTest, EachSettingThatIsNotTakenUpIsNamed) {
  const std::string good =
      "policy srtf\nswitch_share 0.5\nlink_bound 0.5\nproduction_bound 0.5\nmost_together 3\n"
      "overdue go-on\n\nquota user 7 0.5 0 0 0 0\n";
  Put("settings", good);
  EXPECT_THAT(files_.ReadSettings().dropped, IsEmpty());
  Put("settings", "policy best\nswitch_share 7\nlink_bound x\nproduction_bound 0.95\nmost_together 99\n" +
                      std::string("overdue never\nquota user root 0.5 0 0 0\nlater 1\n") + good);
  const Settings settings = files_.ReadSettings();
  EXPECT_EQ(settings.dropped.size(), 8u);
  EXPECT_EQ(settings.policy, "srtf");
  EXPECT_EQ(settings.most_together, 3);
  std::string lines = std::string(100'000, 'x') + "\n";
  for (int i = 0; i < 1000; ++i) lines += "nonsense\n";
  Put("settings", lines);
  EXPECT_EQ(files_.ReadSettings().dropped.size(), 20u);
  EXPECT_LT(files_.ReadSettings().dropped[0].size(), 500u);
}

// The coordinator ended before it served, and so did each one after it.
TEST_F(StateFilesTest, AFolderOfJobsThatCannotBeReadToItsEndIsReadAsFarAsItCan) {
  Put("jobs/7", OfThisProcess() + "1 high 10 0\n");
  Put("jobs/8", OfThisProcess() + "1 high 10 0\n");
  const FailingReaddir failing(/*good=*/3);  // of ".", ".." and the two
  EXPECT_LE(files_.FindLeftBehind().living.size(), 2u);
  EXPECT_TRUE(FailingReaddir::failed());
}

// The next job would have been number 0, which is nobody.
TEST_F(StateFilesTest, AJobsFileWithANumberThatNobodyGivesIsRemoved) {
  Put("jobs/18446744073709551615", OfThisProcess() + "1 high 10 0\n");
  Put("jobs/7", OfThisProcess() + "1 high 10 0\n");
  const LeftBehind former = files_.FindLeftBehind();
  ASSERT_EQ(former.living.size(), 1u);
  EXPECT_EQ(former.living.front().id, 7u);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/jobs/18446744073709551615"));
}

// --- settings beside the runtime folder -------------------------------------------------------------

TEST_F(StateFilesTest, SettingsLieInTheStateFolderAndJobsInTheOther) {
  std::filesystem::create_directory(folder_ + "/state");
  StateFiles apart(folder_, folder_ + "/state");
  EXPECT_EQ(apart.Write(Settings{.policy = "fifo"}), "");
  EXPECT_EQ(apart.Write({.id = 7, .pid = getpid()}), "");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/state/settings"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/jobs/7"));
  EXPECT_EQ(StateFiles(folder_, folder_ + "/state").ReadSettings().policy, "fifo");
}

// A file system that was read-only for a day: quotas held no more, and the first policy that was set then
// replaced them for good.
TEST_F(StateFilesTest, WhileTheStateFolderCannotBeWrittenToWhatItHasHoldsAndIsKept) {
  std::filesystem::create_directory(folder_ + "/state");
  const std::string quota = "quota group vision 0.5 0 0 0 0\n";
  Put("state/settings", "policy srtf\n" + quota);
  StateFiles meanwhile(folder_, folder_, folder_ + "/state");
  Settings settings = meanwhile.ReadSettings();
  EXPECT_EQ(settings.policy, "srtf");
  ASSERT_EQ(settings.quotas.size(), 1u);
  settings.policy = "fifo";
  ASSERT_EQ(meanwhile.Write(settings), "");
  EXPECT_EQ(StateFiles(folder_, folder_, folder_ + "/state").ReadSettings().policy, "fifo") << "later";
  EXPECT_EQ(StateFiles(folder_, folder_ + "/state").ReadSettings().quotas.size(), 1u);
}

TEST_F(StateFilesTest, WhatOnlyTheStateFolderHasStaysWhenLaterSettingsAreMovedThere) {
  std::filesystem::create_directory(folder_ + "/state");
  Put("state/settings", "policy srtf\nlink_bound 0.5\nquota group a 0.5 0 0 0 0\nquota user 7 0.5 0 0 0 0\n");
  Put("settings", "policy fifo\nquota user 7 0.25 0 0 0 0\n");
  const Settings settings = StateFiles(folder_, folder_ + "/state").ReadSettings();
  EXPECT_EQ(settings.policy, "fifo");
  EXPECT_EQ(settings.link_bound, 0.5);
  EXPECT_EQ(settings.quotas.size(), 2u);
  EXPECT_EQ(settings.quotas.at(Owner::User(7)).time_cap, 0.25);
}

// Moved onto themselves they were removed afterwards.
TEST_F(StateFilesTest, AStateFolderThatIsALinkToTheOtherKeepsItsSettings) {
  Put("settings", "policy fifo\n");
  std::filesystem::create_directory_symlink(folder_, folder_ + "/state");
  EXPECT_EQ(StateFiles(folder_, folder_ + "/state").ReadSettings().policy, "fifo");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/settings"));
}

// They were written last: by a Hocket that knew no other place, or when that could not be written.
TEST_F(StateFilesTest, SettingsAreTakenOverFromTheRuntimeFolderOnce) {
  std::filesystem::create_directory(folder_ + "/state");
  Put("state/settings", "policy srtf\n");
  Put("settings", "policy fifo\nlink_bound 0.5\n");
  StateFiles apart(folder_, folder_ + "/state");
  EXPECT_EQ(apart.trouble(), "");
  EXPECT_EQ(apart.ReadSettings().policy, "fifo");
  EXPECT_EQ(apart.ReadSettings().link_bound, 0.5);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/settings"));
  apart.Write(Settings{.policy = "pack"});
  EXPECT_EQ(StateFiles(folder_, folder_ + "/state").ReadSettings().policy, "pack");
}

TEST_F(StateFilesTest, SettingsThatCannotBeMovedAreUsedWhereTheyAre) {
  Put("settings", "policy fifo\n");
  StateFiles apart(folder_, folder_ + "/missing");
  EXPECT_NE(apart.trouble().find(folder_ + "/missing/settings"), std::string::npos) << apart.trouble();
  EXPECT_EQ(apart.ReadSettings().policy, "fifo");
  EXPECT_EQ(apart.Write(Settings{.policy = "pack"}), "");
  EXPECT_EQ(StateFiles(folder_, folder_).ReadSettings().policy, "pack");
}

}  // namespace
}  // namespace hocket::coordinator
