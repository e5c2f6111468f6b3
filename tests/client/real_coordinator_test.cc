// Several processes and a real hocketd, which the first of them starts.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "csrc/base/paths.h"
#include "csrc/base/unique_fd.h"
#include "csrc/client/client.h"
#include "csrc/client/daemon_launcher.h"
#include "csrc/wire/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;

class RealCoordinatorTest : public testing::Test {
 protected:
  RealCoordinatorTest() {
    char folder[] = "/tmp/hocket-real-XXXXXX";
    folder_ = mkdtemp(folder);
    setenv("HOCKET_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("HOCKET_DAEMON", HOCKETD_PATH, 1);
  }
  ~RealCoordinatorTest() override {
    for (const auto& [pid, job] : jobs_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    KillDaemon();
    unsetenv("HOCKET_RUNTIME_DIR");
    unsetenv("HOCKET_DAEMON");
    std::filesystem::remove_all(folder_);
  }

  struct Job {
    std::string name;
    UniqueFd output;
    int steps = 0;
  };

  void Starts(const std::string& name, int steps) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string count = std::to_string(steps);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(JOB_PROCESS_PATH, "job_process", name.c_str(), count.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    jobs_[pid] = {name, UniqueFd(ends[0])};
  }

  // Until so many more steps were made by anybody, or all jobs have ended. Ended ones must have ended well.
  void Progresses(int steps) {
    while (steps > 0 && !jobs_.empty()) {
      std::vector<pollfd> fds;
      std::vector<pid_t> pids;
      for (const auto& [pid, job] : jobs_) {
        fds.push_back({job.output.get(), POLLIN, 0});
        pids.push_back(pid);
      }
      ASSERT_GT(poll(fds.data(), fds.size(), 60'000), 0) << "no step in 60 s";
      for (size_t i = 0; i < fds.size(); ++i) {
        if (fds[i].revents != 0) steps -= Reads(pids[i]);
      }
    }
  }
  int Reads(pid_t pid) {
    char bytes[64];
    const ssize_t count = read(jobs_[pid].output.get(), bytes, sizeof(bytes));
    if (count > 0) return static_cast<int>(count);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << jobs_[pid].name << ": status " << status;
    jobs_.erase(pid);
    return 0;
  }
  void AllEnd() { Progresses(1 << 30); }

  void KillsOneJob(std::mt19937& random) {
    auto victim = std::next(jobs_.begin(), static_cast<long>(random() % jobs_.size()));
    kill(victim->first, SIGKILL);
    waitpid(victim->first, nullptr, 0);
    jobs_.erase(victim);
  }
  void KillDaemon() {
    auto channel = wire::Channel::Connect(SocketPath());
    if (!channel.ok()) return;
    auto peer = channel->Peer();
    if (peer.ok()) kill(peer->first, SIGKILL);
  }

  std::map<pid_t, Job> jobs_;
  std::string folder_;
};

TEST_F(RealCoordinatorTest, ThreeJobsTakeTurnsAndNoTwoAreInAStep) {
  for (const char* name : {"a", "b", "c"}) Starts(name, 100);
  AllEnd();
}

TEST_F(RealCoordinatorTest, TheTurnOfAKilledJobGoesToTheNext) {
  std::mt19937 random(1);
  for (const char* name : {"a", "b", "c"}) Starts(name, 100);
  for (int i = 0; i < 10; ++i) {
    Progresses(10);
    KillsOneJob(random);
    Starts("again", 100);
  }
  AllEnd();
}

TEST_F(RealCoordinatorTest, NobodyNoticesThatTheCoordinatorIsKilled) {
  for (const char* name : {"a", "b", "c"}) Starts(name, 200);
  for (int i = 0; i < 10; ++i) {
    Progresses(15);
    KillDaemon();
  }
  AllEnd();
}

TEST_F(RealCoordinatorTest, RandomKillsOfJobsAndCoordinatorLeaveNobodyHanging) {
  std::mt19937 random(20);
  for (const char* name : {"a", "b", "c"}) Starts(name, 150);
  for (int i = 0; i < 20; ++i) {
    Progresses(1 + static_cast<int>(random() % 20));
    if (jobs_.empty() || random() % 3 == 0) {
      KillDaemon();
    } else {
      KillsOneJob(random);
      Starts("again", 150);
    }
  }
  AllEnd();
}

TEST_F(RealCoordinatorTest, ADaemonThatCannotStartIsToldWithWhatWasTried) {
  setenv("HOCKET_DAEMON", "/bin/false", 1);
  const auto job = Client::Join({.name = "a"}, "cpu", "the CPU", 0);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("started /bin/false, but it ended"));
  EXPECT_THAT(std::string(job.status().message()), HasSubstr(folder_ + "/hocketd.sock"));
}

TEST_F(RealCoordinatorTest, AMissingDaemonIsToldWithItsPath) {
  setenv("HOCKET_DAEMON", "/nowhere/hocketd", 1);
  EXPECT_THAT(std::string(Client::Join({.name = "a"}, "cpu", "the CPU", 0).status().message()),
              HasSubstr("HOCKET_DAEMON names /nowhere/hocketd"));
}

TEST_F(RealCoordinatorTest, ASecondStartFindsTheFirstDaemon) {
  auto first = ConnectOrStart();
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = ConnectOrStart();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->Peer()->first, second->Peer()->first);
}

}  // namespace
}  // namespace hocket
