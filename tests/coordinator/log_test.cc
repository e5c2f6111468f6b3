#include "coordinator/server/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "nlohmann/json.hpp"

namespace hocket::coordinator {
namespace {

using testing::HasSubstr;

class LogTest : public testing::Test {
 protected:
  LogTest() : path_(testing::TempDir() + "/log_test." + std::to_string(getpid())) {
    std::remove(path_.c_str());
  }
  ~LogTest() override { std::remove(path_.c_str()); }

  Logger Open(const std::string& level = "info") { return *Logger::Open(path_, level, false); }

  std::vector<nlohmann::json> Lines() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  const std::string path_;
};

TEST_F(LogTest, ASentenceStandsBesideWhatItIsAbout) {
  Open().Info("resnet has ended",
              {.event = "ended", .job = 3, .pid = 41, .name = "resnet", .device = "GPU-1"});
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["level"], "info");
  EXPECT_EQ(lines[0]["event"], "ended");
  EXPECT_EQ(lines[0]["job"], 3);
  EXPECT_EQ(lines[0]["pid"], 41);
  EXPECT_EQ(lines[0]["name"], "resnet");
  EXPECT_EQ(lines[0]["device"], "GPU-1");
  EXPECT_EQ(lines[0]["text"], "resnet has ended");
  EXPECT_THAT(lines[0]["time"].get<std::string>(), testing::MatchesRegex("....-..-..T..:..:..\\....Z"));
}

TEST_F(LogTest, WhatASentenceIsNotAboutIsLeftOut) {
  Open().Warning("no descriptors are left");
  EXPECT_EQ(Lines().at(0).size(), 3u) << Lines().at(0);
  EXPECT_EQ(Lines().at(0)["level"], "warning");
}

// Names and reasons come from other processes.
TEST_F(LogTest, NothingThatAProcessSaysEndsTheLineOrBreaksIt) {
  Open().Info("a\nb \"c\" \xff {}", {.name = "x\n\x80"});
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_THAT(Lines().at(0)["text"].get<std::string>(), HasSubstr("a\nb \"c\""));
}

TEST_F(LogTest, WhatIsBelowTheLevelIsNotWritten) {
  Logger log = Open("warning");
  log.Info("not this");
  log.Debug("nor this");
  log.Error("this");
  EXPECT_FALSE(log.debug());
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_EQ(Lines().at(0)["text"], "this");
}

}  // namespace
}  // namespace hocket::coordinator
