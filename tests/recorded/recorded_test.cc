// What every released version has said, today's coordinator and today's jobs understand.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "csrc/wire/codec.h"
#include "tests/recorded/stages.h"
#include "tests/wire/random_message.h"

namespace hocket::recorded {
namespace {

std::vector<std::string> Versions() {
  std::vector<std::string> versions;
  for (const auto& entry : std::filesystem::directory_iterator(RECORDED_FOLDER)) {
    if (entry.is_directory()) versions.push_back(entry.path().filename());
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

std::string FileOf(const std::string& version, const std::string& name) {
  return std::string(RECORDED_FOLDER) + "/" + version + "/" + name;
}

Recording AllOf(const std::string& version) {
  Recording lines = Read(FileOf(version, "coordinator.bin"));
  for (Line& line : Read(FileOf(version, "job.bin"))) lines.push_back(std::move(line));
  return lines;
}

// The same words where a version speaks another major version of the protocol, as they were promised then.
void ExpectRefused(const Recording& recording, Stage& stage) {
  const Line& first = recording.front();
  stage.Say(first.peer, first.bytes, first.carries);
  const auto said = wire::Decode(stage.Hear(first.peer));
  ASSERT_TRUE(said.ok() && *said && std::holds_alternative<wire::Refused>(**said));
  const std::string reason = std::get<wire::Refused>(**said).reason;
  EXPECT_NE(reason.find("install the same release of Hocket on both sides"), std::string::npos) << reason;
}

std::string TroubleWith(const Recording& recording, Stage& stage) {
  try {
    Play(recording, stage);
  } catch (const std::exception& trouble) {
    return trouble.what();
  }
  return "";
}

class RecordedTest : public testing::TestWithParam<std::string> {};

TEST_P(RecordedTest, TheCoordinatorUnderstandsItsJobsAndItsCommandLine) {
  const Recording recording = Read(FileOf(GetParam(), "coordinator.bin"));
  const auto stage = CoordinatorStage();
  if (MajorOf(recording.front().bytes) != wire::kMajorVersion) return ExpectRefused(recording, *stage);
  EXPECT_EQ(TroubleWith(recording, *stage), "");
}

TEST_P(RecordedTest, AJobUnderstandsItsCoordinator) {
  const Recording recording = Read(FileOf(GetParam(), "job.bin"));
  const bool same_major = std::all_of(recording.begin(), recording.end(), [](const Line& line) {
    return line.kind == Kind::kDo || MajorOf(line.bytes) == wire::kMajorVersion;
  });
  if (!same_major) return;  // it is told so when it joins: the test above
  EXPECT_EQ(TroubleWith(recording, *JobStage()), "");
}

// Nothing of a frame is lost: what today's codec reads it writes again, with what that version could say.
TEST_P(RecordedTest, EveryFrameIsReadWithAllItsFields) {
  for (const Line& line : AllOf(GetParam())) {
    if (line.kind == Kind::kDo || MajorOf(line.bytes) != wire::kMajorVersion) continue;
    const auto message = wire::Decode(line.bytes);
    ASSERT_TRUE(message.ok()) << message.status();
    ASSERT_TRUE(message->has_value())
        << "type " << TypeOf(line.bytes) << " is unknown: no number is given up";
    EXPECT_GE(wire::Encode(**message)->size(), line.bytes.size()) << wire::NameOf(**message);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryVersion, RecordedTest, testing::ValuesIn(Versions()), [](const auto& version) {
  std::string name = "v" + version.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(RecordingsTest, ThisVersionIsRecordedWithEveryTypeOfMessage) {
  ASSERT_TRUE(std::filesystem::exists(FileOf(HOCKET_VERSION_STRING, "coordinator.bin")))
      << "run scripts/record-frames and commit what it writes: a release is one only with its frames";
  std::set<std::uint16_t> recorded;
  for (const Line& line : AllOf(HOCKET_VERSION_STRING)) {
    if (line.kind != Kind::kDo) recorded.insert(TypeOf(line.bytes));
  }
  std::mt19937_64 random(1);
  for (const wire::Message& message : wire::OneOfEach(random)) {
    const auto type = std::visit([](const auto& m) { return m.kType; }, message);
    EXPECT_TRUE(recorded.contains(type)) << wire::NameOf(message) << " is in no script (scripts.cc)";
  }
}

}  // namespace
}  // namespace hocket::recorded
