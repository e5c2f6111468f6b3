// A job is killed when it is about to make its first driver call that concerns memory, then at the second,
// and so on: in each state of a chunk. Whichever it is, the other job has its turns and all of its bytes, and
// nothing of the killed one is left on the device or the host.
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/client/real_coordinator.h"

namespace hocket {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kEach = 3;  // a process takes long to start
#else
constexpr int kEach = 1;
#endif

// What jobs are told (ordered_job.cc).
constexpr char kStep = 's', kStepAlone = 'c', kMaps = 'm', kIsKilled = 'k', kEnds = 'e';

class KilledJobTest : public testing::RealCoordinatorTest {
 protected:
  KilledJobTest() {
    setenv("HOCKET_EMULATOR_NAME", device_.c_str(), 1);
    setenv("HOCKET_EMULATOR_MEMORY", "384KiB", 1);  // six chunks: what each of them needs in a step
    setenv("HOCKET_EMULATOR_GRANULARITY", "64KiB", 1);
    setenv("HOCKET_EMULATOR_CHECK", "1", 1);
    setenv("HOCKET_SWITCH_SHARE", "0.9", 1);  // a turn that is asked for is given soon
  }
  ~KilledJobTest() override { unlink(("/dev/shm/" + Page()).c_str()); }

  void Joins(const char* name, const char* chunks, int call) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const std::string deadly = std::to_string(call);
    const pid_t pid = fork();
    if (pid == 0) {
      for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) dup2(ends[1], standard);
      execl(ORDERED_JOB_PATH, ORDERED_JOB_PATH, name, chunks, deadly.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    jobs_[pid] = {name, UniqueFd(ends[0])};
  }
  // Returns when it has obeyed. False: it has ended instead.
  bool Does(const char* name, char order) {
    const int socket = jobs_.at(PidOf(name)).output.get();
    (void)send(socket, &order, 1, MSG_NOSIGNAL);
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, /*ms=*/300'000) <= 0)
      throw std::runtime_error(std::string(name) + " has not obeyed: " + Asks("status").dump(1) + Reasons());
    return recv(socket, &order, 1, 0) == 1;
  }
  // Of one that does not obey any more. True: it was killed.
  bool WasKilled(const char* name) {
    const pid_t pid = PidOf(name);
    int status = 0;
    waitpid(pid, &status, 0);
    jobs_.erase(pid);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed || status == 0) << name << ": status " << status;
    return killed;
  }

  // `plays` tells the two what to do. Of the one's calls after kIsKilled each ends it once.
  template <typename Plays>
  void KillsAtEachCall(Plays plays) {
    Joins("stays", /*chunks=*/"ppp", /*call=*/0);
    ASSERT_TRUE(Does("stays", kStep));
    EXPECT_FALSE(IsKilledAt(/*call=*/0, plays));
    int call = 1;
    for (bool killed = true; killed; call += kEach) {
      SCOPED_TRACE("killed at call " + std::to_string(call));
      killed = IsKilledAt(call, plays);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(call, 30) << "it calls the driver less often than it should";
    (void)Does("stays", kEnds);
    EXPECT_FALSE(WasKilled("stays"));
  }

 private:
  template <typename Plays>
  bool IsKilledAt(int call, Plays plays) {
    Joins("dies", /*chunks=*/"pcf", call);
    plays();
    (void)Does("dies", kEnds);
    const bool killed = WasKilled("dies");
    EXPECT_TRUE(Does("stays", kStepAlone)) << "it has lost bytes, or memory";
    Until("dies", "");
    ThereIsLeft({folder_ + "/jobs/1", "/dev/shm/" + Page()});  // of the one that stays
    return killed;
  }
  std::string Page() const { return "hocket-emulator-" + std::to_string(geteuid()) + "-" + device_; }
  // What jobs may leave behind: files, and descriptors of memory, of the device or of the host, that hocketd
  // has, by the names that they have there.
  std::vector<std::string> Left() {
    std::vector<std::string> left;
    const auto folder = [](const std::string& path) { return std::filesystem::directory_iterator(path); };
    for (const auto& file : folder(folder_ + "/jobs")) left.push_back(file.path());
    for (const auto& file : folder("/dev/shm")) {
      if (file.path().string().ends_with(device_)) left.push_back(file.path());
    }
    for (const auto& file : folder("/proc/" + Asks("version")["pid"].dump() + "/fd")) {
      std::error_code closed;
      const std::string name = std::filesystem::read_symlink(file.path(), closed);
      if (name.starts_with("/memfd:") && !name.starts_with("/memfd:hocket-page")) left.push_back(name);
    }
    return left;
  }
  // Soon: hocketd may have a descriptor on its way to a job.
  void ThereIsLeft(const std::vector<std::string>& wanted) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    for (std::vector<std::string> left = Left(); left != wanted; left = Left())
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << ::testing::PrintToString(left);
  }

  const std::string device_ = "killed-job-" + std::to_string(getpid());
};

TEST_F(KilledJobTest, WhereverItIsWhenItsTurnPassesAndItsBytesGoToTheHost) {
  KillsAtEachCall([this] {
    ASSERT_TRUE(Does("dies", kStep));
    (void)Does("dies", kIsKilled);
    ASSERT_TRUE(Does("stays", kStep));
    (void)Does("dies", kMaps);
  });
}

TEST_F(KilledJobTest, WhereverItIsWhenItsBytesComeBackAndGoAgain) {
  KillsAtEachCall([this] {
    ASSERT_TRUE(Does("dies", kStep));
    ASSERT_TRUE(Does("stays", kStep));
    ASSERT_TRUE(Does("dies", kMaps));
    (void)Does("dies", kIsKilled);
    (void)Does("dies", kStep);
    ASSERT_TRUE(Does("stays", kStep));
    (void)Does("dies", kMaps);
  });
}

}  // namespace
}  // namespace hocket
