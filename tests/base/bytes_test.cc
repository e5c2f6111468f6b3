#include "csrc/base/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket {
namespace {

using ::testing::HasSubstr;

TEST(BytesTest, AreWrittenWithOneDecimalInBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536_MiB), "1.5 GiB");
  EXPECT_EQ(FormatBytes(139_GiB), "139.0 GiB");
}

TEST(BytesTest, AreReadWithAndWithoutUnits) {
  EXPECT_EQ(ParseBytes("4096").value(), 4096u);
  EXPECT_EQ(ParseBytes("8GiB").value(), 8_GiB);
  EXPECT_EQ(ParseBytes(" 512 MiB ").value(), 512_MiB);
  EXPECT_EQ(ParseBytes("1.5g").value(), 1536_MiB);
  EXPECT_EQ(ParseBytes("2kb").value(), 2_KiB);
  EXPECT_EQ(ParseBytes("0").value(), 0u);
}

TEST(BytesTest, RefusesWhatIsNoSizeAndSaysWhatOneLooksLike) {
  for (const char* text : {"", "GiB", "-1", "8 bananas", "8GiBs", "1e400", "99999999999999T", "nan", "."}) {
    const auto size = ParseBytes(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_THAT(std::string(size.status().message()), HasSubstr(std::string("'") + text + "'"));
    EXPECT_THAT(std::string(size.status().message()), HasSubstr("512MiB"));
  }
}

TEST(BytesTest, RoundsToAPowerOfTwo) {
  EXPECT_EQ(RoundUp(1, 512), 512u);
  EXPECT_EQ(RoundUp(512, 512), 512u);
  EXPECT_EQ(RoundDown(1023, 512), 512u);
}

}  // namespace
}  // namespace hocket
