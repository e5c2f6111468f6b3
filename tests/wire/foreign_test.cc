// Descriptors whose closing may take as long as somebody likes.
#include "csrc/wire/foreign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "csrc/wire/channel.h"
#include "tests/wire/slow_files.h"

namespace hocket::wire {
namespace {

using ::testing::HasSubstr;

TEST(ForeignTest, MemoryAndDevicesAreNotFilesAre) {
  EXPECT_FALSE(IsForeign(UniqueFd(memfd_create("chunk", MFD_CLOEXEC)).get()));
  EXPECT_FALSE(IsForeign(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)).get()));
  EXPECT_FALSE(IsForeign(UniqueFd(eventfd(0, EFD_CLOEXEC)).get()));
  EXPECT_TRUE(IsForeign(UniqueFd(open("/proc/self/stat", O_RDONLY | O_CLOEXEC)).get()));
  EXPECT_TRUE(IsForeign(UniqueFd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)).get()));
  EXPECT_TRUE(IsForeign(-1)) << "nothing can be said of it";
}

class SlowFilesTest : public testing::Test {
 protected:
  SlowFilesTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    a_.emplace(UniqueFd(fds[0]));
    b_.emplace(UniqueFd(fds[1]));
  }
  void SetUp() override {
    if (!files_->mounted()) GTEST_SKIP() << "no file system can be mounted here";
    file_ = files_->Open();
    ASSERT_TRUE(file_);
  }
  void TearDown() override {
    files_.reset();  // now all closing ends
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (ForeignOnes() > 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(ForeignOnes(), 0);
  }
  // What the receiver makes of it.
  absl::Status Sends() {
    EXPECT_TRUE(a_->Send(ArenaGrew{.chunk = 1, .size = 1}, file_.get()).ok());
    return b_->TryReceive().status();
  }

  std::optional<Channel> a_, b_;
  UniqueFd file_;  // closed after the file system
  std::unique_ptr<SlowFiles> files_ = std::make_unique<SlowFiles>();
};

TEST_F(SlowFilesTest, WhoReceivesAFileDoesNotWaitForItsEnd) {
  const absl::Status received = Sends();
  EXPECT_EQ(received.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(received.message()), HasSubstr("neither memory nor a device"));
  EXPECT_EQ(ForeignOnes(), 1) << "it is being closed";
}

// What one of them does is not to keep the memory of the others from arriving.
TEST_F(SlowFilesTest, WhereMostAreAnotherUsersDescriptorsAreTakenAllTheSame) {
  constexpr unsigned kAnother = 12345;
  for (int i = 0; i < kMostForeignOnes; ++i)
    CloseElsewhere(UniqueFd(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)), kAnother);
  const UniqueFd chunk(memfd_create("chunk", MFD_CLOEXEC));
  ASSERT_TRUE(a_->Send(ArenaGrew{.chunk = 1, .size = 1}, chunk.get()).ok());
  const auto received = b_->TryReceive();
  ASSERT_TRUE(received.ok() && *received) << received.status();
  EXPECT_TRUE((*received)->descriptor);
  for (int i = 0; i < kMostForeignOnesOfAUser; ++i) EXPECT_FALSE(Sends().ok());
  EXPECT_TRUE(Sends().ok()) << "what came with it is lost";
  EXPECT_EQ(ForeignOnesOf(getuid()), kMostForeignOnesOfAUser);
  EXPECT_EQ(ForeignOnesOf(kAnother), kMostForeignOnes);
}

TEST_F(SlowFilesTest, NoMoreAreTakenThanFew) {
  for (int i = 0; i < kMostForeignOnes; ++i) EXPECT_FALSE(Sends().ok());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Sends().ok()) << "what came with it is lost";
  EXPECT_EQ(ForeignOnesOf(getuid()), kMostForeignOnes);
  EXPECT_EQ(ForeignOnes(), kMostForeignOnes);
}

}  // namespace
}  // namespace hocket::wire
