#include "csrc/wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/wire/random_message.h"

namespace hocket::wire {
namespace {

using testing::HasSubstr;

std::string FrameOf(const Message& message) { return Encode(message).value(); }

// Writes `value` little-endian at `at`.
void Poke(std::string& frame, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) frame[at + i] = static_cast<char>(value >> (8 * i));
}

std::string WithField(std::string frame, uint16_t number, uint16_t tag, const std::string& payload) {
  std::string header(kFieldHeaderSize, '\0');
  Poke(header, 0, number, 2);
  Poke(header, 2, tag, 2);
  Poke(header, 4, payload.size(), 4);
  frame += header + payload;
  Poke(frame, 0, frame.size(), 4);
  return frame;
}

TEST(CodecTest, EveryMessageComesBackAsItWasSent) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    for (const Message& sent : OneOfEach(random)) {
      const auto received = Decode(FrameOf(sent));
      ASSERT_TRUE(received.ok()) << NameOf(sent) << ": " << received.status();
      ASSERT_TRUE(received->has_value()) << NameOf(sent);
      EXPECT_EQ(ToText(**received), ToText(sent));
    }
  }
}

struct Numbers {
  std::set<uint16_t> seen;
  bool twice = false;
  void operator()(uint16_t number, const auto&) { twice |= !seen.insert(number).second; }
};

TEST(CodecTest, TypesAndFieldNumbersAreUsedOnce) {
  std::mt19937_64 random(1);
  std::set<uint16_t> types;
  for (Message message : OneOfEach(random)) {
    Numbers numbers;
    std::visit([&](auto& m) { m.VisitFields(numbers); }, message);
    EXPECT_FALSE(numbers.twice) << NameOf(message);
    EXPECT_TRUE(types.insert(std::visit([](auto& m) { return m.kType; }, message)).second) << NameOf(message);
  }
}

TEST(CodecTest, NumbersKeepEveryBit) {
  Join join{.capacity = std::numeric_limits<uint64_t>::max(), .weight = -0.0};
  auto back = std::get<Join>(**Decode(FrameOf(join)));
  EXPECT_EQ(back.capacity, join.capacity);
  EXPECT_TRUE(std::signbit(back.weight));
  join.weight = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(std::get<Join>(**Decode(FrameOf(join))).weight));
}

TEST(CodecTest, UnknownFieldsAreSkipped) {
  const std::string frame = WithField(FrameOf(Report{.persistent = 7}), 999, 4, "from the future");
  EXPECT_EQ(std::get<Report>(**Decode(frame)).persistent, 7u);
  const std::string odd_tag = WithField(FrameOf(Report{.persistent = 7}), 998, 77, "?");
  EXPECT_EQ(std::get<Report>(**Decode(odd_tag)).persistent, 7u);
}

TEST(CodecTest, MissingFieldsKeepTheirDefault) {
  std::string frame = FrameOf(Join{}).substr(0, kFrameHeaderSize);
  Poke(frame, 0, frame.size(), 4);
  const auto join = std::get<Join>(**Decode(frame));
  EXPECT_EQ(join.weight, 1);
  EXPECT_EQ(join.priority, "normal");
}

TEST(CodecTest, OfAFieldSentTwiceTheLaterOneCounts) {
  std::string eight(8, '\0');
  eight[0] = 9;
  EXPECT_EQ(std::get<Report>(**Decode(WithField(FrameOf(Report{.persistent = 7}), 1, 1, eight))).persistent,
            9u);
}

TEST(CodecTest, UnknownTypesAreNoMessageAndNoError) {
  std::string frame = FrameOf(Report{});
  Poke(frame, 8, 40'000, 2);
  const auto decoded = Decode(frame);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->has_value());
}

TEST(CodecTest, AnotherMinorVersionIsUnderstood) {
  std::string frame = FrameOf(Report{.persistent = 3});
  Poke(frame, 6, 99, 2);
  EXPECT_EQ(std::get<Report>(**Decode(frame)).persistent, 3u);
}

TEST(CodecTest, AnotherMajorVersionIsRefusedNamingBoth) {
  std::string frame = FrameOf(Report{});
  Poke(frame, 4, 7, 2);
  const auto status = Decode(frame).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 7"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 1"));
}

TEST(CodecTest, RefusedIsReadAcrossMajorVersions) {
  std::string frame = FrameOf(Refused{.reason = "too old"});
  Poke(frame, 4, 7, 2);
  EXPECT_EQ(std::get<Refused>(**Decode(frame)).reason, "too old");
}

TEST(CodecTest, CutAtAnyByteIsAnErrorAndNeverAMessage) {
  std::mt19937_64 random(2);
  for (const Message& message : OneOfEach(random)) {
    const std::string frame = FrameOf(message);
    for (size_t size = 0; size < frame.size(); ++size) {
      std::string cut = frame.substr(0, size);
      ASSERT_FALSE(Decode(cut).ok()) << NameOf(message) << " cut at " << size;
      if (size < kFrameHeaderSize) continue;
      Poke(cut, 0, size, 4);  // the length agrees: the cut is seen in a field, or lies between two
      (void)Decode(cut);
    }
  }
}

TEST(CodecTest, AFieldLongerThanItsFrameIsNamedWithBothLengths) {
  std::string frame = FrameOf(Refused{.reason = "short"});
  Poke(frame, kFrameHeaderSize + 4, 4'294'967'295, 4);
  const std::string text(Decode(frame).status().message());
  EXPECT_THAT(text, HasSubstr("4294967295 bytes"));
  EXPECT_THAT(text, HasSubstr("holds 5"));
}

TEST(CodecTest, AFieldOfTheWrongTypeOrSizeIsNamed) {
  const std::string frame = FrameOf(Report{});
  EXPECT_THAT(std::string(Decode(WithField(frame, 1, 4, "x")).status().message()),
              HasSubstr("field 1 of Report"));
  EXPECT_THAT(std::string(Decode(WithField(frame, 1, 1, "x")).status().message()), HasSubstr("1 bytes"));
  std::string two(8, '\0');
  two[0] = 2;
  EXPECT_THAT(std::string(Decode(WithField(FrameOf(Room{}), 1, 1, two)).status().message()),
              HasSubstr("neither 0 nor 1"));
}

TEST(CodecTest, AFrameLongerThanAllowedIsNotMadeAndNotRead) {
  EXPECT_THAT(std::string(Encode(Refused{std::string(kMaxFrameSize, 'x')}).status().message()),
              HasSubstr("cannot send Refused"));
  std::string frame = WithField(FrameOf(Report{}), 999, 4, std::string(kMaxFrameSize, 'x'));
  EXPECT_THAT(std::string(Decode(frame).status().message()), HasSubstr("at most 65536"));
}

// Whatever comes, decoding ends with a message, none, or an error; what is accepted can be sent on.
TEST(CodecTest, RandomGarbageIsSurvived) {
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string frame(random() % 200, '\0');
    for (char& c : frame) c = static_cast<char>(random());
    if (frame.size() >= kFrameHeaderSize && i % 2 == 0) {  // half of them get past the header
      Poke(frame, 0, frame.size(), 4);
      Poke(frame, 4, kMajorVersion, 2);
      Poke(frame, 8, random() % 24, 2);
    }
    const auto decoded = Decode(frame);
    if (decoded.ok() && *decoded) accepted += Encode(**decoded).ok();
  }
  EXPECT_GT(accepted, 0);
}

// Frames that were right once, with a few bytes changed: these come far into the decoder.
TEST(CodecTest, DamagedFramesAreSurvived) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 500; ++round) {
    for (const Message& message : OneOfEach(random)) {
      std::string frame = FrameOf(message);
      for (uint64_t i = random() % 4; i < 4; ++i)
        frame[random() % frame.size()] = static_cast<char>(random());
      const auto decoded = Decode(frame);
      if (decoded.ok() && *decoded) {
        EXPECT_TRUE(Encode(**decoded).ok());
      }
    }
  }
}

}  // namespace
}  // namespace hocket::wire
