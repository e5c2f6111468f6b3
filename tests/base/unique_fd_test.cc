#include "csrc/base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "csrc/base/check.h"

namespace hocket {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesWhatItOwns) {
  int fd = -1;
  {
    UniqueFd owner(open("/dev/null", O_RDONLY | O_CLOEXEC));
    fd = owner.get();
    ASSERT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(UniqueFdTest, MovesAndReleasesOwnership) {
  UniqueFd a(open("/dev/null", O_RDONLY | O_CLOEXEC));
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a);
  const int fd = b.Release();
  EXPECT_FALSE(b);
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(UniqueFdTest, DuplicatesAreClosedOnExec) {
  UniqueFd a(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd b = a.Duplicate();
  ASSERT_TRUE(b);
  EXPECT_NE(a.get(), b.get());
  EXPECT_EQ(fcntl(b.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(UniqueFd().Duplicate());
}

TEST(CheckDeathTest, SaysWhatDoesNotHold) {
  HOCKET_CHECK(1 + 1 == 2) << "never evaluated";
  EXPECT_DEATH(HOCKET_CHECK(1 + 1 == 3) << "sum " << 2, "1 \\+ 1 == 3 does not hold. sum 2");
}

}  // namespace
}  // namespace hocket
