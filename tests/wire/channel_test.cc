#include "csrc/wire/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "csrc/wire/codec.h"
#include "csrc/wire/control.h"
#include "tests/wire/busy_listener.h"
#include "tests/wire/foreign_coordinator.h"

namespace hocket::wire {
namespace {

using testing::HasSubstr;

struct Ends {
  Channel a;
  Channel b;
};

Ends Connected() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  return {Channel(UniqueFd(fds[0])), Channel(UniqueFd(fds[1]))};
}

// What jobs send: memory.
UniqueFd Memory() { return UniqueFd(memfd_create("test", MFD_CLOEXEC)); }

size_t OpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Sends raw bytes with `count` descriptors of `fd`.
void SendRaw(const Channel& channel, std::string bytes, int fd = -1, size_t count = 0) {
  iovec data{bytes.data(), bytes.size()};
  std::vector<char> control(CMSG_SPACE(count * sizeof(int)) + CMSG_SPACE(0));
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (count > 0) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (size_t i = 0; i < count; ++i) std::memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
  }
  ASSERT_GE(sendmsg(channel.fd(), &header, 0), 0) << std::strerror(errno);
}

TEST(ChannelTest, AMessageComesWithItsDescriptor) {
  Ends ends = Connected();
  UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(ends.a.Send(ArenaGrew{.chunk = 5, .size = 9}, file.get()).ok());
  auto received = ends.b.Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(std::get<ArenaGrew>(received->message).chunk, 5u);
  struct stat sent {
  }, got{};
  fstat(file.get(), &sent);
  ASSERT_EQ(fstat(received->descriptor.get(), &got), 0);
  EXPECT_EQ(sent.st_rdev, got.st_rdev);
  EXPECT_NE(fcntl(received->descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ChannelTest, NothingThereIsNoError) {
  Ends ends = Connected();
  auto received = ends.b.TryReceive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_FALSE(received->has_value());
}

TEST(ChannelTest, AClosedPeerIsUnavailable) {
  Ends ends = Connected();
  ends.a = Channel(UniqueFd());
  EXPECT_EQ(ends.b.Receive().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ends.b.Send(Report{}).code(), absl::StatusCode::kUnavailable);
}

// The kernel says first that it has gone without reading all.
TEST(ChannelTest, WhatAPeerHasSaidBeforeItWentIsHeard) {
  auto [a, b] = Connected();
  EXPECT_TRUE(a.Send(Wait{}).ok());
  EXPECT_TRUE(b.Send(Grant{.turn = 7}).ok());
  { const Channel gone = std::move(b); }
  const auto received = a.TryReceive();
  ASSERT_TRUE(received.ok() && *received) << received.status();
  EXPECT_EQ(std::get<Grant>((*received)->message).turn, 7u);
  EXPECT_TRUE(absl::IsUnavailable(a.TryReceive().status()));
}

TEST(ChannelTest, ShutdownWakesAReader) {
  Ends ends = Connected();
  std::thread reader([&] { EXPECT_EQ(ends.b.Receive().status().code(), absl::StatusCode::kUnavailable); });
  ends.b.Shutdown();
  reader.join();
}

TEST(ChannelTest, AnUnknownTypeIsSkippedAndItsDescriptorClosed) {
  Ends ends = Connected();
  std::string frame = Encode(Report{}).value();
  frame[8] = frame[9] = '\x7f';
  const UniqueFd memory = Memory();
  const size_t before = OpenDescriptors();
  SendRaw(ends.a, frame, memory.get(), 1);
  ASSERT_TRUE(ends.a.Send(Leave{}).ok());
  auto received = ends.b.Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_TRUE(std::holds_alternative<Leave>(received->message));
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(ChannelTest, TooManyDescriptorsAreRefusedAndClosed) {
  for (size_t count : {2, 3, 4, 5, 50}) {
    Ends ends = Connected();
    const UniqueFd memory = Memory();
    const size_t before = OpenDescriptors();
    SendRaw(ends.a, Encode(Report{}).value(), memory.get(), count);
    const auto status = ends.b.Receive().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << count;
    EXPECT_THAT(std::string(status.message()), HasSubstr("descriptors"));
    EXPECT_EQ(OpenDescriptors(), before) << count;
  }
}

TEST(ChannelTest, WhoHasNoDescriptorLeftGetsTheMessageWithoutIts) {
  Ends ends = Connected();
  ASSERT_TRUE(ends.a.Send(ArenaGrew{.chunk = 5}, Memory().get()).ok());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  auto received = ends.b.Receive();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(std::get<ArenaGrew>(received->message).chunk, 5u);
  EXPECT_FALSE(received->descriptor);
}

TEST(ChannelTest, APacketLargerThanAFrameIsRefused) {
  Ends ends = Connected();
  SendRaw(ends.a, std::string(kMaxFrameSize + 1, 'x'));
  EXPECT_THAT(std::string(ends.b.Receive().status().message()), HasSubstr("more than 65536 bytes"));
}

TEST(ChannelTest, GarbageIsRefusedWithTheLength) {
  Ends ends = Connected();
  SendRaw(ends.a, "hello");
  const auto status = ends.b.Receive().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has 5"));
}

TEST(ChannelTest, SendingToOneWhoNeverReadsEndsWithAFullQueueAndDoesNotBlock) {
  Ends ends = Connected();
  absl::Status status;
  for (int i = 0; i < 1'000'000 && status.ok(); ++i) status = ends.a.Send(Report{});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(ChannelTest, SeveralThreadsMaySend) {
  Ends ends = Connected();
  constexpr int kEach = 200;
  auto send = [&](uint64_t who) {
    for (int i = 0; i < kEach;)
      i += ends.a.Send(Report{.persistent = who}).ok() ? 1 : (std::this_thread::yield(), 0);
  };
  std::thread one(send, 1), two(send, 2);
  int got[3] = {};
  for (int i = 0; i < 2 * kEach; ++i) ++got[std::get<Report>(ends.b.Receive().value().message).persistent];
  one.join();
  two.join();
  EXPECT_EQ(got[1], kEach);
  EXPECT_EQ(got[2], kEach);
}

TEST(ChannelTest, NobodyListeningSaysWhereAndWhy) {
  const auto status = Channel::Connect("/nowhere/hocketd.sock").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/hocketd.sock: No such file"));
}

TEST(ChannelTest, WhoCannotGoThereDoesNotKnowWhetherSomebodyListens) {
  const auto too_long = Channel::Connect(std::string(200, 'x')).status();
  EXPECT_EQ(too_long.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(too_long.message()), HasSubstr("200 characters"));
  const auto no_folder = Channel::Connect("/dev/null/s").status();
  EXPECT_EQ(no_folder.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(no_folder.message()), HasSubstr("/dev/null/s: Not a directory"));
}

// Such a connect never came back.
TEST(ChannelTest, OneThatTakesNobodyInIsNotWaitedForForEver) {
  char folder[] = "/tmp/hocket-channel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/s";
  {
    const BusyListener busy(path);
    ASSERT_TRUE(busy.full());
    for (const int timeout_ms : {0, 20}) {
      const auto status = Channel::Connect(path, timeout_ms).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("has taken nobody in for "));
    }
    const auto status = Control(path, "status", "{}", /*timeout_ms=*/20).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer 'status' within 20 ms"));
  }
  std::filesystem::remove_all(folder);
}

TEST(ChannelTest, AnotherUsersCoordinatorIsNotTalkedTo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  char folder[] = "/tmp/hocket-channel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/s";
  {
    const ForeignCoordinator foreign(path);
    ASSERT_TRUE(foreign.listens());
    const auto status = Channel::Connect(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(path + ": it is run by uid 65534, this process by uid 0"));
    EXPECT_EQ(Control(path, "status", "{}", /*timeout_ms=*/1000).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
  std::filesystem::remove_all(folder);
}

TEST(ChannelTest, ThePeerIsTheOneTheKernelNames) {
  Ends ends = Connected();
  const auto peer = ends.a.Peer();
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->first, getpid());
  EXPECT_EQ(peer->second, geteuid());
}

}  // namespace
}  // namespace hocket::wire
