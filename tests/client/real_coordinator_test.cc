// Several processes and a real hocketd, which the first of them starts.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "csrc/base/paths.h"
#include "csrc/base/unique_fd.h"
#include "csrc/client/client.h"
#include "csrc/client/daemon_launcher.h"
#include "csrc/wire/channel.h"
#include "csrc/wire/control.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/wire/foreign_coordinator.h"

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
    umount2(folder_.c_str(), MNT_DETACH);  // see MountFullDisk()
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
  void Progresses(int steps) { ASSERT_TRUE(Progresses(steps, 60'000)) << "no step in 60 s"; }
  // False: nobody has made a step for so long.
  bool Progresses(int steps, int patience_ms) {
    while (steps > 0 && !jobs_.empty()) {
      std::vector<pollfd> fds;
      std::vector<pid_t> pids;
      for (const auto& [pid, job] : jobs_) {
        fds.push_back({job.output.get(), POLLIN, 0});
        pids.push_back(pid);
      }
      if (poll(fds.data(), fds.size(), patience_ms) <= 0) return false;
      for (size_t i = 0; i < fds.size(); ++i) {
        if (fds[i].revents != 0) steps -= Reads(pids[i]);
      }
    }
    return true;
  }
  int Reads(pid_t pid) {
    char bytes[64];
    const ssize_t count = read(jobs_[pid].output.get(), bytes, sizeof(bytes));
    if (count > 0) {
      jobs_[pid].steps += static_cast<int>(count);
      return static_cast<int>(count);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << jobs_[pid].name << ": status " << status;
    jobs_.erase(pid);
    return 0;
  }
  void AllEnd() { Progresses(1 << 30); }

  nlohmann::json Asks(const std::string& command,
                      const nlohmann::json& arguments = nlohmann::json::object()) {
    const auto answer = wire::Control(SocketPath(), command, arguments.dump());
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? nlohmann::json::parse(*answer) : nlohmann::json();
  }
  std::string StateOf(const std::string& name) {
    const nlohmann::json status = Asks("status");
    for (const auto& job : status["jobs"]) {
      if (job["name"] == name) return job["state"];
    }
    return "";
  }
  void Until(const std::string& name, const std::string& state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (StateOf(name) != state)
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name << " never was " << state;
  }
  pid_t PidOf(const std::string& name) {
    for (const auto& [pid, job] : jobs_) {
      if (job.name == name) return pid;
    }
    return 0;
  }
  void Ends(const std::string& name) {
    while (const pid_t pid = PidOf(name)) Reads(pid);
  }
  // Returns when it stands still, or has ended.
  void Stops(pid_t pid) {
    kill(pid, SIGSTOP);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WEXITED | WNOWAIT);
  }
  void GoesOn(pid_t pid) { kill(pid, SIGCONT); }
  pid_t AnyJob(std::mt19937& random) {
    return std::next(jobs_.begin(), static_cast<long>(random() % jobs_.size()))->first;
  }

  void KillsOneJob(std::mt19937& random) {
    const pid_t victim = AnyJob(random);
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    jobs_.erase(victim);
  }
  // Stops one for some steps of the others; for a while only if it has the turn, and they make none.
  void StopsOneJobForAWhile(std::mt19937& random) {
    const pid_t stopped = AnyJob(random);
    Stops(stopped);
    (void)Progresses(static_cast<int>(random() % 40), /*patience_ms=*/1'500);
    GoesOn(stopped);
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

TEST_F(RealCoordinatorTest, AJobStoppedWhileItWaitsHoldsNobodyUpAndGoesOnWhereItWas) {
  auto holder = Client::Join({.name = "holder"}, "cpu", "the CPU", 0);
  ASSERT_TRUE(holder.ok()) << holder.status();
  ASSERT_TRUE((*holder)->BeginStep().ok());
  Starts("stopped", 50);
  Until("stopped", "waits");
  const pid_t stopped = PidOf("stopped");
  Stops(stopped);
  for (const char* name : {"a", "b"}) {
    Starts(name, 50);
    Until(name, "waits");
  }
  (*holder)->EndStep(true);
  holder->reset();
  Until("stopped", "stopped");  // it was given the turn, and has lost it
  EXPECT_THAT(Asks("explain", {{"job", "stopped"}})["why"].get<std::string>(),
              HasSubstr("has not taken up the turn that it was given"));
  for (const char* name : {"a", "b"}) Ends(name);
  EXPECT_EQ(jobs_[stopped].steps, 0);
  EXPECT_THAT(Asks("logs")["tail"].get<std::string>(),
              HasSubstr("stopped (pid " + std::to_string(stopped) + ") has not taken up the turn"));
  GoesOn(stopped);
  AllEnd();
}

TEST_F(RealCoordinatorTest, JobsStoppedAtRandomMomentsLoseNoStep) {
  std::mt19937 random(7);
  for (const char* name : {"a", "b", "c", "d"}) Starts(name, 150);
  for (int i = 0; i < 12 && !jobs_.empty(); ++i) {
    Progresses(1 + static_cast<int>(random() % 20));
    if (!jobs_.empty()) StopsOneJobForAWhile(random);
  }
  AllEnd();
}

TEST_F(RealCoordinatorTest, RandomStopsAndKillsOfJobsAndCoordinatorLeaveNobodyHanging) {
  std::mt19937 random(8);
  for (const char* name : {"a", "b", "c", "d"}) Starts(name, 150);
  for (int i = 0; i < 12 && !jobs_.empty(); ++i) {
    Progresses(1 + static_cast<int>(random() % 20));
    if (jobs_.empty()) break;
    const pid_t stopped = AnyJob(random);
    Stops(stopped);
    if (random() % 2 == 0) KillDaemon();
    (void)Progresses(static_cast<int>(random() % 20), /*patience_ms=*/1'500);
    if (random() % 3 == 0) KillDaemon();
    GoesOn(stopped);
    if (random() % 3 == 0 && !jobs_.empty()) {
      KillsOneJob(random);
      Starts("again", 150);
    }
  }
  AllEnd();
}

// Mounts a folder that takes `files` files and no bytes, in a view of the file system that only this process
// and those that it starts have. False: this system gives nobody but root such a view, and we are not root.
bool MountFullDisk(const std::string& folder, int files) {
  const uid_t uid = geteuid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << uid << " " << uid << " 1";
  }
  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  const std::string options = "size=4k,mode=0700,nr_inodes=" + std::to_string(1 + files);
  return mount("hocket-test", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

TEST_F(RealCoordinatorTest, AFullDiskForTheSocketIsToldWithWhatToDo) {
  if (!MountFullDisk(folder_, 0)) GTEST_SKIP() << "no mount here; CannotTest checks the sentence";
  const auto job = Client::Join({.name = "a"}, "cpu", "the CPU", 0);
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr(folder_ + "/start.lock: No space left on device. Free some space there"));
}

TEST_F(RealCoordinatorTest, ADiskTooFullForTheDaemonIsToldInItsOwnWords) {
  if (!MountFullDisk(folder_, 1)) GTEST_SKIP() << "no mount here; CannotTest checks the sentence";
  const auto job = Client::Join({.name = "a"}, "cpu", "the CPU", 0);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("No space left on device"));
}

// Log and state folder take no byte more, as on a disk that is full.
TEST_F(RealCoordinatorTest, ADaemonThatCanWriteNothingGivesTurnsAllTheSame) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a daemon with a sanitizer in it does not start under such a limit";
#endif
  const pid_t starter = fork();
  if (starter == 0) {
    const rlimit none{0, 0};
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &none);
    _exit(ConnectOrStart().ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(starter, &status, 0);
  ASSERT_EQ(status, 0);
  for (const char* name : {"a", "b"}) Starts(name, 50);
  AllEnd();
  EXPECT_EQ(std::filesystem::file_size(folder_ + "/hocketd.log"), 0u);
}

TEST_F(RealCoordinatorTest, AProcessWithoutDescriptorsIsToldAndMayJoinOnceItHasSome) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors to look at a virtual table";
#endif
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<UniqueFd> all;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all.emplace_back(fd);
  const auto refused = Client::Join({.name = "a"}, "cpu", "the CPU", 0);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("Too many open files. The process has all 64"));
  for (size_t left = 1; left < 12 && left < all.size(); ++left) {  // each place where it may come to an end
    all.pop_back();
    const auto job = Client::Join({.name = "a"}, "cpu", "the CPU", 0);
    if (!job.ok()) {
      EXPECT_EQ(job.status().code(), absl::StatusCode::kUnavailable) << job.status();
    }
  }
  all.clear();
  const auto joined = Client::Join({.name = "a"}, "cpu", "the CPU", 0);
  EXPECT_TRUE(joined.ok()) << joined.status();
  setrlimit(RLIMIT_NOFILE, &before);
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

// In the place of hocketd: `failures` times it ends as one does that was killed when it listened already.
std::string WriteDaemonThatIsKilled(const std::string& folder, int failures) {
  const std::string path = folder + "/daemon";
  std::ofstream(path) << "#!/bin/sh\n"
                      << "echo >> " << folder << "/starts\n"
                      << "[ $(wc -l < " << folder << "/starts) -gt " << failures << " ] || exit 0\n"
                      << "exec " << HOCKETD_PATH << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST_F(RealCoordinatorTest, ADaemonThatIsKilledAsSoonAsItListensIsStartedAgain) {
  setenv("HOCKET_DAEMON", WriteDaemonThatIsKilled(folder_, 2).c_str(), 1);
  const auto channel = ConnectOrStart();
  EXPECT_TRUE(channel.ok()) << channel.status();
}

TEST_F(RealCoordinatorTest, ADaemonThatIsGoneEachTimeIsNotStartedForEver) {
  setenv("HOCKET_DAEMON", WriteDaemonThatIsKilled(folder_, 1000).c_str(), 1);
  const auto channel = ConnectOrStart();
  EXPECT_THAT(std::string(channel.status().message()), HasSubstr("5 times, and it was gone each time"));
  EXPECT_THAT(std::string(channel.status().message()), HasSubstr(folder_ + "/hocketd.log"));
}

TEST_F(RealCoordinatorTest, AnotherUsersCoordinatorIsNotJoined) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const wire::ForeignCoordinator foreign(SocketPath());
  ASSERT_TRUE(foreign.listens());
  const absl::Status status = ConnectOrStart().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << "jobs go on without one";
  EXPECT_THAT(std::string(status.message()), HasSubstr("it is run by uid 65534, this process by uid 0"));
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
