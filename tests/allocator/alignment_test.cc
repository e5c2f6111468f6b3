#include "allocator/alignment.h"

#include <gtest/gtest.h>

namespace hocket {
namespace {

std::vector<StepEntry> Written(std::vector<Bytes> sizes) {
  std::vector<StepEntry> step;
  for (const Bytes size : sizes) step.push_back({.size = size});
  return step;
}

class AlignmentTest : public ::testing::Test {
 protected:
  // The entry that answers to `size`; -1: none.
  int Next(Bytes size) {
    last = alignment.Next(written, size, nullptr);
    return last.found ? static_cast<int>(last.index) : -1;
  }

  std::vector<StepEntry> written = Written({1, 2, 3, 4, 5, 6});
  Alignment alignment;
  Alignment::Match last;
};

TEST_F(AlignmentTest, ARepeatedStepIsExact) {
  for (int i = 0; i < 6; ++i) EXPECT_EQ(Next(static_cast<Bytes>(i + 1)), i);
  EXPECT_TRUE(alignment.exact());
  EXPECT_EQ(alignment.cursor(), 6u);
  EXPECT_EQ(Next(1), -1) << "the step is over";
}

TEST_F(AlignmentTest, AnInsertionAnswersToNothing) {
  EXPECT_EQ(Next(1), 0);
  EXPECT_EQ(Next(77), -1);
  EXPECT_EQ(Next(2), 1);
  EXPECT_FALSE(alignment.exact());
}

TEST_F(AlignmentTest, AnOmissionIsJumpedOver) {
  EXPECT_EQ(Next(1), 0);
  EXPECT_EQ(Next(4), 3);
  EXPECT_TRUE(last.sure);
  EXPECT_EQ(Next(5), 4);
}

TEST_F(AlignmentTest, AnInsertionThatLooksLikeALaterOneIsUndone) {
  EXPECT_EQ(Next(1), 0);
  EXPECT_EQ(Next(5), 4) << "taken for an omission";
  EXPECT_EQ(Next(2), 1);
  EXPECT_TRUE(last.undid_jump);
  EXPECT_EQ(last.mistake, 4u);
  EXPECT_EQ(Next(3), 2);
}

TEST_F(AlignmentTest, ARunOfJumpsIsNotSure) {
  EXPECT_EQ(Next(2), 1);
  EXPECT_TRUE(last.sure);
  EXPECT_EQ(Next(4), 3);
  EXPECT_FALSE(last.sure);
}

TEST_F(AlignmentTest, TheSameSizeOnAnotherStreamIsAnother) {
  const auto other = reinterpret_cast<Stream>(1);
  EXPECT_FALSE(alignment.Next(written, 1, other).found);
  EXPECT_TRUE(alignment.Next(written, 1, nullptr).found);
}

}  // namespace
}  // namespace hocket
