// State files that somebody else has written: another version, or a disk that was full.
#include "coordinator/server/state_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "csrc/base/process.h"

namespace hocket::coordinator {
namespace {

class StateFilesTest : public testing::Test {
 protected:
  StateFilesTest() : folder_(MakeFolder()), files_(folder_) {}
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

}  // namespace
}  // namespace hocket::coordinator
