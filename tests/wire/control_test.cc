#include "csrc/wire/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "csrc/wire/channel.h"

namespace hocket::wire {
namespace {

using testing::HasSubstr;

// Listens at a path of its own and lets `serve` talk to the first who connects.
class Coordinator {
 public:
  explicit Coordinator(std::function<void(Channel&)> serve) {
    char name[] = "/tmp/hocket-control-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    dir_ = name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof(address.sun_path) - 1);
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, serve = std::move(serve)] {
      Channel channel(UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      serve(channel);
      (void)channel.Receive();  // until the other side has what it wants
    });
  }
  ~Coordinator() {
    thread_.join();
    unlink(path().c_str());
    rmdir(dir_.c_str());
  }
  std::string path() const { return dir_ + "/s"; }

 private:
  std::string dir_;
  UniqueFd listener_;
  std::thread thread_;
};

TEST(ControlTest, PartsAreJoinedUntilTheLast) {
  Coordinator coordinator([](Channel& channel) {
    const auto command = std::get<Command>(channel.Receive().value().message);
    EXPECT_EQ(command.command, "status");
    EXPECT_EQ(command.arguments, "{\"a\":1}");
    EXPECT_TRUE(channel.Send(CommandResult{.ok = true, .result = "{\"x\":", .last = false}).ok());
    EXPECT_TRUE(channel.Send(CommandResult{.ok = true, .result = "2}"}).ok());
  });
  EXPECT_EQ(Control(coordinator.path(), "status", "{\"a\":1}").value(), "{\"x\":2}");
}

TEST(ControlTest, AnErrorIsTheCoordinatorsOwnSentence) {
  Coordinator coordinator([](Channel& channel) {
    (void)channel.Receive();
    EXPECT_TRUE(channel.Send(CommandResult{.error = "there is no job 'x'."}).ok());
  });
  EXPECT_EQ(std::string(Control(coordinator.path(), "pause", "{}").status().message()),
            "there is no job 'x'.");
}

TEST(ControlTest, ARefusalIsPassedOn) {
  Coordinator coordinator([](Channel& channel) { EXPECT_TRUE(channel.Send(Refused{"too old."}).ok()); });
  EXPECT_EQ(std::string(Control(coordinator.path(), "status", "{}").status().message()), "too old.");
}

// It may have hung up before it was asked anything, or after that.
TEST(ControlTest, ARefusalIsPassedOnHoweverSoonItComes) {
  for (int i = 0; i < 300; ++i) {
    Coordinator coordinator([](Channel& channel) {
      EXPECT_TRUE(channel.Send(Refused{"this coordinator serves uid 5."}).ok());
      shutdown(channel.fd(), SHUT_RDWR);
    });
    const absl::Status refused = Control(coordinator.path(), "status", "{}").status();
    ASSERT_THAT(std::string(refused.message()), HasSubstr("serves uid 5")) << refused;
  }
}

TEST(ControlTest, OneThatDoesNotAnswerIsNotWaitedForForEver) {
  Coordinator coordinator([](Channel& channel) { (void)channel.Receive(); });
  const auto status = Control(coordinator.path(), "status", "{}", /*timeout_ms=*/20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer 'status' within 20 ms"));
}

TEST(ControlTest, NobodyThereIsNotFound) {
  EXPECT_EQ(Control("/nowhere/s", "status", "{}").status().code(), absl::StatusCode::kNotFound);
}

TEST(ControlTest, OneThatHangsUpWasThere) {
  Coordinator coordinator([](Channel& channel) {
    (void)channel.Receive();
    EXPECT_TRUE(channel.Send(CommandResult{.ok = true, .result = "{", .last = false}).ok());
    channel.Shutdown();
  });
  const auto status = Control(coordinator.path(), "status", "{}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("hung up before it had answered 'status'"));
}

}  // namespace
}  // namespace hocket::wire
