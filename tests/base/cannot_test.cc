#include "csrc/base/cannot.h"

#include <sys/resource.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

std::string Text(int error) { return std::string(Cannot("open /x/hocketd.lock", error).message()); }

TEST(CannotTest, AFullDiskIsToldWithWhatToDo) {
  EXPECT_EQ(Text(ENOSPC),
            "cannot open /x/hocketd.lock: No space left on device. Free some space there, or name another "
            "folder in HOCKET_RUNTIME_DIR.");
}

TEST(CannotTest, UsedUpDescriptorsAreToldWithTheirNumber) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(Text(EMFILE), HasSubstr("all " + std::to_string(limit.rlim_cur) + " descriptors"));
  EXPECT_THAT(Text(EMFILE), HasSubstr("ulimit -n"));
}

TEST(CannotTest, WhatNothingIsKnownToHelpAgainstIsToldWithoutAdvice) {
  EXPECT_EQ(Text(ELOOP), "cannot open /x/hocketd.lock: Too many levels of symbolic links.");
}

}  // namespace
}  // namespace hocket
