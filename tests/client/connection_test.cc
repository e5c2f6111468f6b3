// Whom a message wakes: a thread at the door, else the agent.
#include "csrc/client/connection.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tests/client/sleeping_thread.h"

namespace hocket {
namespace {

class ConnectionTest : public testing::Test {
 protected:
  // A coordinator's end of a fresh connection.
  wire::Channel Connect() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    connection_.Attach(wire::Channel(UniqueFd(ends[0])));
    return wire::Channel(UniqueFd(ends[1]));
  }
  bool AgentHears() {
    pollfd poller{connection_.agent_fd(), POLLIN, 0};
    return poll(&poller, 1, 0) == 1;
  }

  Connection connection_;
};

// A thread that waits at the door; the constructor returns when it sleeps there.
class AtDoor {
 public:
  explicit AtDoor(Connection& connection)
      : thread_([this, &connection] {
          tid_ = static_cast<int>(syscall(SYS_gettid));
          woken_ = connection.AwaitAtDoor(Connection::kNoLimit);
        }) {
    AwaitsSleep(tid_);
  }
  Connection::Woken Returns() {
    thread_.join();
    return woken_;
  }

 private:
  std::atomic<int> tid_{0};
  Connection::Woken woken_ = Connection::Woken::kOtherwise;
  std::thread thread_;
};

TEST_F(ConnectionTest, AMessageWakesTheThreadAtTheDoorAndNotTheAgent) {
  wire::Channel coordinator = Connect();
  AtDoor thread(connection_);
  ASSERT_TRUE(coordinator.Send(wire::Grant{.turn = 1}).ok());
  EXPECT_EQ(thread.Returns(), Connection::Woken::kByMessage);
  EXPECT_FALSE(AgentHears());
  EXPECT_TRUE(connection_.Receive()->has_value());
}

TEST_F(ConnectionTest, WithNobodyAtTheDoorTheAgentHears) {
  wire::Channel coordinator = Connect();
  ASSERT_TRUE(coordinator.Send(wire::Grant{.turn = 1}).ok());
  EXPECT_TRUE(AgentHears());
  EXPECT_TRUE(connection_.Receive()->has_value());
  EXPECT_FALSE(AgentHears());
}

TEST_F(ConnectionTest, AWakingOfTheDoorIsNotLostBeforeSomebodyComesThere) {
  wire::Channel coordinator = Connect();
  connection_.WakeDoor();
  EXPECT_EQ(connection_.AwaitAtDoor(Connection::kNoLimit), Connection::Woken::kOtherwise);
  ASSERT_TRUE(coordinator.Send(wire::Grant{.turn = 1}).ok());
  EXPECT_EQ(connection_.AwaitAtDoor(Connection::kNoLimit), Connection::Woken::kByMessage);
}

// A large arena is told to a job that joins, chunk by chunk.
TEST_F(ConnectionTest, MoreDescriptorsAreSentThanAProcessMayHave) {
  constexpr int kMessages = 3000;
  constexpr rlim_t kAllowed = 800;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{kAllowed, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  wire::Channel coordinator = Connect();
  int came = 0;
  std::thread reader([&] {
    for (int i = 0; i < kMessages; ++i) came += coordinator.Receive()->descriptor ? 1 : 0;
  });
  int sent = 0;
  const UniqueFd memory(memfd_create("memory", MFD_CLOEXEC));
  for (int i = 0; i < kMessages; ++i) {
    UniqueFd descriptor(dup(memory.get()));
    sent += descriptor ? 1 : 0;
    connection_.Send(wire::ArenaGrew{.chunk = 1, .size = 1}, std::move(descriptor));
  }
  while (connection_.has_queue()) connection_.Flush();
  reader.join();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(sent, kMessages);
  EXPECT_EQ(came, kMessages);
}

TEST_F(ConnectionTest, TheEndOfTheCoordinatorWakesBoth) {
  auto coordinator = std::make_unique<wire::Channel>(Connect());
  AtDoor thread(connection_);
  coordinator.reset();
  EXPECT_EQ(thread.Returns(), Connection::Woken::kByMessage);
  EXPECT_TRUE(AgentHears());
  EXPECT_FALSE(connection_.Receive().ok());
}

TEST_F(ConnectionTest, TheNextCoordinatorIsHeardAndTheFormerIsNot) {
  wire::Channel former = Connect();
  const UniqueFd kept(dup(connection_.fd()));  // as a forked child keeps it for an instant
  wire::Channel next = Connect();
  (void)former.Send(wire::Grant{.turn = 1});
  EXPECT_FALSE(AgentHears());
  EXPECT_EQ(connection_.AwaitAtDoor(Clock::duration::zero()), Connection::Woken::kOtherwise);
  ASSERT_TRUE(next.Send(wire::Grant{.turn = 2}).ok());
  EXPECT_TRUE(AgentHears());
  EXPECT_EQ(connection_.AwaitAtDoor(Connection::kNoLimit), Connection::Woken::kByMessage);
}

}  // namespace
}  // namespace hocket
