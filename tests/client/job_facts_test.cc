#include "csrc/client/job_facts.h"

#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "csrc/wire/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

TEST(JobFactsTest, TheProcessTellsWhoItIs) {
  const auto join = JoinFor({.name = "resnet", .weight = 2}, "gpu-0", "A GPU", 1_GiB);
  ASSERT_TRUE(join.ok()) << join.status();
  EXPECT_EQ(join->pid, static_cast<std::uint64_t>(getpid()));
  EXPECT_THAT(join->program, HasSubstr("client_test"));
  EXPECT_EQ(join->weight, 2);
  EXPECT_FALSE(join->hocket_version.empty());
}

TEST(JobFactsTest, APythonIsKnownByWhatItRuns) {
  EXPECT_EQ(ProgramOf({"python", "train.py", "--lr", "0.1"}), "python train.py");
  EXPECT_EQ(ProgramOf({"/opt/bin/python3.12", "-u", "/home/a/train.py"}),
            "/opt/bin/python3.12 /home/a/train.py");
  EXPECT_EQ(ProgramOf({"python", "-W", "ignore", "-X", "dev", "train.py"}), "python train.py");
  EXPECT_EQ(
      ProgramOf({"python", "-Wignore", "-Xdev", "--check-hash-based-pycs", "always", "-m", "gpt.train", "x"}),
      "python gpt.train");
  EXPECT_EQ(ProgramOf({"python", "-um", "gpt"}), "python gpt");
  EXPECT_EQ(ProgramOf({"python", "-umgpt"}), "python gpt");
  EXPECT_EQ(ProgramOf({"python", "-c", "import torch; print(1, flush=True)"}), "python");
  EXPECT_EQ(ProgramOf({"python", "-uc", "pass"}), "python");
  EXPECT_EQ(ProgramOf({"python", "-", "a"}), "python");
  EXPECT_EQ(ProgramOf({"python", "-X"}), "python");
  EXPECT_EQ(ProgramOf({"python"}), "python");
}

TEST(JobFactsTest, AnyOtherProgramIsKnownByItsFile) {
  EXPECT_EQ(ProgramOf({"./gpt", "--lr", "0.1"}), "./gpt");
  EXPECT_EQ(ProgramOf({}), "");
}

TEST(JobFactsTest, OptionsOutOfRangeAreNamedWithTheRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (double weight : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()}) {
    const auto join = JoinFor({.weight = weight}, "gpu-0", "", 1_GiB);
    EXPECT_EQ(join.status().code(), absl::StatusCode::kInvalidArgument) << weight;
    EXPECT_THAT(std::string(join.status().message()), HasSubstr("greater than 0"));
  }
  EXPECT_THAT(std::string(JoinFor({.priority = "urgent"}, "g", "", 0).status().message()),
              HasSubstr("'urgent'"));
  EXPECT_THAT(std::string(JoinFor({.memory_limit = 2_GiB}, "g", "", 1_GiB).status().message()),
              HasSubstr("the device has 1.0 GiB"));
  EXPECT_THAT(std::string(JoinFor({.name = std::string(129, 'x')}, "g", "", 0).status().message()),
              HasSubstr("129 characters: it may have 128"));
}

TEST(JobFactsTest, TheGroupIsTheOptionsOrTheEnvironments) {
  EXPECT_EQ(JoinFor({}, "g", "", 0)->group, "");
  setenv("HOCKET_GROUP", "vision", 1);
  EXPECT_EQ(JoinFor({}, "g", "", 0)->group, "vision");
  EXPECT_EQ(JoinFor({.group = "speech"}, "g", "", 0)->group, "speech");
  setenv("HOCKET_GROUP", "two words", 1);
  EXPECT_THAT(std::string(JoinFor({}, "g", "", 0).status().message()),
              HasSubstr("group 'two words': groups have names of letters"));
  unsetenv("HOCKET_GROUP");
}

TEST(JobFactsTest, TheLongestNameThatACoordinatorAcceptsIsAccepted) {
  EXPECT_TRUE(JoinFor({.name = std::string(wire::kMaxName, 'x')}, "g", "", 0).ok());
}

}  // namespace
}  // namespace hocket
