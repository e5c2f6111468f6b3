// Jobs in processes of their own and a real hocketd, which the first of them starts; each ends with the test.
#ifndef HOCKET_TESTS_CLIENT_REAL_COORDINATOR_H_
#define HOCKET_TESTS_CLIENT_REAL_COORDINATOR_H_

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "csrc/base/paths.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/channel.h"
#include "csrc/wire/control.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hocket::testing {

// So that the same kills and stops come in each run; another one in HOCKET_TEST_SEED plays others.
inline std::mt19937 Seeded(unsigned usual) {
  const char* other = std::getenv("HOCKET_TEST_SEED");
  return std::mt19937(other == nullptr ? usual : static_cast<unsigned>(std::atoi(other)));
}

class RealCoordinatorTest : public ::testing::Test {
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
      execl(program_.c_str(), program_.c_str(), name.c_str(), count.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    jobs_[pid] = {name, UniqueFd(ends[0])};
  }

  // Until so many more steps were made by anybody, or all jobs have ended. Ended ones must have ended well.
  void Progresses(int steps) {
    ASSERT_TRUE(Progresses(steps, 60'000)) << "no step in 60 s: " << Asks("status").dump(1) << Reasons();
  }
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
      said_.append(bytes, static_cast<std::size_t>(count));
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
  // What the coordinator says of each job, in words.
  std::string Reasons() {
    std::string reasons;
    for (const auto& job : Asks("status")["jobs"]) reasons += Asks("explain", {{"job", job["name"]}}).dump(1);
    return reasons;
  }
  std::string StateOf(const std::string& name) {
    const nlohmann::json status = Asks("status");
    for (const auto& job : status["jobs"]) {
      if (job["name"] == name) return job["state"];
    }
    return "";
  }
  void Until(const std::string& name, const std::string& state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(300);
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

  std::string program_ = JOB_PROCESS_PATH;  // what Starts() starts
  std::string said_;                        // a byte for each step, by whomever
  std::map<pid_t, Job> jobs_;
  std::string folder_;
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_CLIENT_REAL_COORDINATOR_H_
