// Several processes and a real hocketd, which the first of them starts.
#include "tests/client/real_coordinator.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
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
#include "tests/wire/busy_listener.h"
#include "tests/wire/foreign_coordinator.h"

namespace hocket {
namespace {

using ::testing::HasSubstr;
using testing::RealCoordinatorTest;

TEST_F(RealCoordinatorTest, ThreeJobsTakeTurnsAndNoTwoAreInAStep) {
  for (const char* name : {"a", "b", "c"}) Starts(name, 100);
  AllEnd();
}

TEST_F(RealCoordinatorTest, TheTurnOfAKilledJobGoesToTheNext) {
  std::mt19937 random = testing::Seeded(1);
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
  std::mt19937 random = testing::Seeded(20);
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
  std::mt19937 random = testing::Seeded(7);
  for (const char* name : {"a", "b", "c", "d"}) Starts(name, 150);
  for (int i = 0; i < 12 && !jobs_.empty(); ++i) {
    Progresses(1 + static_cast<int>(random() % 20));
    if (!jobs_.empty()) StopsOneJobForAWhile(random);
  }
  AllEnd();
}

TEST_F(RealCoordinatorTest, RandomStopsAndKillsOfJobsAndCoordinatorLeaveNobodyHanging) {
  std::mt19937 random = testing::Seeded(8);
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

TEST_F(RealCoordinatorTest, ADaemonThatTakesNobodyInIsNotReplaced) {
  setenv("HOCKET_DAEMON", WriteDaemonThatIsKilled(folder_, 1000).c_str(), 1);
  {
    const wire::BusyListener busy(SocketPath());
    ASSERT_TRUE(busy.full());
    const absl::Status status = ConnectOrStart().status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/starts"));
}

TEST_F(RealCoordinatorTest, AFolderThatIsNamedRelativelyStaysTheSameWhereverTheProgramGoes) {
  const std::filesystem::path here = std::filesystem::current_path();
  setenv("HOCKET_RUNTIME_DIR", std::filesystem::relative(folder_).c_str(), 1);
  std::string deeper = folder_;  // so that the way up from there does not end at the root, too
  for (const auto& part : here) deeper += part.string() + "/below/";
  std::filesystem::create_directories(deeper);
  std::filesystem::current_path(deeper);
  const auto channel = ConnectOrStart();
  std::filesystem::current_path(here);
  setenv("HOCKET_RUNTIME_DIR", folder_.c_str(), 1);
  ASSERT_TRUE(channel.ok()) << channel.status();
  const auto found = ConnectOrStart();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->Peer()->first, channel->Peer()->first);
}

TEST_F(RealCoordinatorTest, ASecondStartFindsTheFirstDaemon) {
  auto first = ConnectOrStart();
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = ConnectOrStart();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->Peer()->first, second->Peer()->first);
}

// --- the daemon of all users -----------------------------------------------------------------------

// An empty one; but the folder that hocketd lies in is there, also where that was below `path`.
bool MountEmpty(const char* path, const char* mode) {
  const auto programs = std::filesystem::path(HOCKETD_PATH).parent_path();
  const UniqueFd kept(open(programs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (kept.get() < 0 || mount("hocket-test", path, "tmpfs", 0, mode) != 0) return false;
  if (std::filesystem::exists(programs)) return true;
  std::filesystem::create_directories(programs);
  const std::string hidden = "/proc/self/fd/" + std::to_string(kept.get());
  return mount(hidden.c_str(), programs.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

// In a process of its own, to which /run, /tmp, /var/lib and its home are empty. False: none can be had here.
bool InOwnFolders(const std::function<void()>& life) {
  constexpr int kNone = 77;
  const pid_t process = fork();
  if (process == 0) {
    const bool made = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      MountEmpty("/run", "mode=0755") && MountEmpty("/tmp", "mode=1777") &&
                      MountEmpty("/var/lib", "mode=0755") && MountEmpty("/mnt", "mode=0755");
    if (!made) _exit(kNone);
    setenv("HOME", "/mnt", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOCKET_RUNTIME_DIR");
    life();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(process, &status, 0);
  const bool made = !WIFEXITED(status) || WEXITSTATUS(status) != kNone;
  EXPECT_TRUE(!made || status == 0) << "status " << status << "; its own words are above";
  return made;
}

// As systemd starts and stops it: the folder goes with it.
class SystemDaemon {
 public:
  SystemDaemon() { EXPECT_EQ(std::system(HOCKETD_PATH " --system"), 0); }
  ~SystemDaemon() {
    End("/run/hocket");
    std::filesystem::remove_all("/run/hocket");
  }
  static void End(const std::string& folder) {
    const auto channel = wire::Channel::Connect(folder + "/hocketd.sock");
    const auto peer = channel.ok() ? channel->Peer() : channel.status();
    if (!peer.ok()) return;
    const UniqueFd ends(static_cast<int>(syscall(SYS_pidfd_open, peer->first, 0)));
    kill(peer->first, SIGTERM);
    pollfd end{ends.get(), POLLIN, 0};
    poll(&end, 1, 60'000);
  }
};

std::string PolicyAt(const std::string& folder) {
  const auto answer = wire::Control(folder + "/hocketd.sock", "status", "{}");
  if (!answer.ok()) return std::string(answer.status().message());
  return nlohmann::json::parse(*answer)["daemon"]["policy"].get<std::string>();
}

absl::Status SetPolicyAt(const std::string& folder, const std::string& policy) {
  const std::string arguments = nlohmann::json{{"name", policy}}.dump();
  return wire::Control(folder + "/hocketd.sock", "policy", arguments).status();
}

TEST_F(RealCoordinatorTest, WhoWasUnderTheDaemonOfAllUsersWaitsForItAndStartsNoPrivateOne) {
  const bool possible = InOwnFolders([] {
    auto daemon = std::make_unique<SystemDaemon>();
    ASSERT_TRUE(ConnectOrStart().ok());
    daemon.reset();
    ASSERT_FALSE(std::filesystem::exists("/run/hocket"));
    const auto waited = ConnectOrStart();
    EXPECT_EQ(waited.status().code(), absl::StatusCode::kUnavailable) << "the job goes on, and tries again";
    EXPECT_THAT(std::string(waited.status().message()),
                HasSubstr("/run/hocket/hocketd.sock: No such file or directory; that one serves all users"));
    EXPECT_THAT(std::string(waited.status().message()), HasSubstr("end the program and start it again"));
    EXPECT_FALSE(std::filesystem::exists("/tmp/hocket-0")) << "nothing was started there";
    daemon = std::make_unique<SystemDaemon>();
    EXPECT_TRUE(ConnectOrStart().ok());
  });
  if (!possible) GTEST_SKIP() << "needs root and mount namespaces";
}

TEST_F(RealCoordinatorTest, WhoWasUnderTheDaemonOfAllUsersMayStillBeSentElsewhere) {
  const bool possible = InOwnFolders([] {
    auto daemon = std::make_unique<SystemDaemon>();
    ASSERT_TRUE(ConnectOrStart().ok());
    daemon.reset();
    setenv("HOCKET_RUNTIME_DIR", "/tmp/mine", 1);
    const auto own = ConnectOrStart();
    ASSERT_TRUE(own.ok()) << own.status();
    kill(own->Peer()->first, SIGKILL);
  });
  if (!possible) GTEST_SKIP() << "needs root and mount namespaces";
}

// As after a reboot: the runtime folder is gone, and with it whatever lies there.
TEST_F(RealCoordinatorTest, WhatPeopleSetOutlivesTheRuntimeFolder) {
  const bool possible = InOwnFolders([] {
    ASSERT_TRUE(ConnectOrStart().ok());
    const std::string own = RuntimeDir();
    EXPECT_TRUE(SetPolicyAt(own, "srtf").ok());
    SystemDaemon::End(own);
    std::filesystem::remove_all(own);
    ASSERT_TRUE(ConnectOrStart().ok());
    EXPECT_EQ(PolicyAt(own), "srtf");
    SystemDaemon::End(own);

    auto daemon = std::make_unique<SystemDaemon>();
    EXPECT_EQ(PolicyAt("/run/hocket"), "fair") << "what a user has set is his own matter";
    EXPECT_TRUE(SetPolicyAt("/run/hocket", "fifo").ok());
    daemon.reset();
    ASSERT_FALSE(std::filesystem::exists("/run/hocket"));
    daemon = std::make_unique<SystemDaemon>();
    EXPECT_EQ(PolicyAt("/run/hocket"), "fifo");
  });
  if (!possible) GTEST_SKIP() << "needs root and mount namespaces";
}

// Nothing but its home is lacking.
TEST_F(RealCoordinatorTest, ADaemonThatHasNoPlaceForSettingsSaysSoOnceAndKeepsThemInTheRuntimeFolder) {
  const bool possible = InOwnFolders([] {
    setenv("HOME", "/proc", 1);
    ASSERT_TRUE(ConnectOrStart().ok());
    const std::string own = RuntimeDir();
    for (const char* policy : {"fifo", "srtf"}) EXPECT_TRUE(SetPolicyAt(own, policy).ok());
    EXPECT_TRUE(std::filesystem::exists(own + "/settings"));
    SystemDaemon::End(own);
    std::ifstream in(own + "/hocketd.log");
    const std::string log((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const std::string said = "/proc/.local/state/hocket for settings";
    EXPECT_THAT(log, HasSubstr(said + ": No such file or directory. What people set is kept in " + own));
    EXPECT_EQ(log.find(said), log.rfind(said)) << log;
    setenv("HOME", "/mnt", 1);
    ASSERT_TRUE(ConnectOrStart().ok());
    EXPECT_EQ(PolicyAt(own), "srtf");
    SystemDaemon::End(own);
    EXPECT_TRUE(std::filesystem::exists("/mnt/.local/state/hocket/settings"));
    EXPECT_FALSE(std::filesystem::exists(own + "/settings"));
  });
  if (!possible) GTEST_SKIP() << "needs root and mount namespaces";
}

TEST_F(RealCoordinatorTest, WhoWasNeverUnderTheDaemonOfAllUsersStartsOne) {
  const bool possible = InOwnFolders([] {
    SystemDaemon();  // and is gone
    const auto own = ConnectOrStart();
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(RuntimeDir(), "/tmp/hocket-0");
    kill(own->Peer()->first, SIGKILL);
  });
  if (!possible) GTEST_SKIP() << "needs root and mount namespaces";
}

// In the place of hocketd: one that says when it was started, and becomes the real one when it may.
class SlowDaemon {
 public:
  explicit SlowDaemon(const std::string& folder) : began_(folder + "/began"), go_(folder + "/go") {
    EXPECT_EQ(mkfifo(began_.c_str(), 0600), 0);
    EXPECT_EQ(mkfifo(go_.c_str(), 0600), 0);
    const std::string path = folder + "/daemon";
    std::ofstream(path) << "#!/bin/sh\n"
                        << "echo >" << began_ << "\n"
                        << "read line <" << go_ << "\n"
                        << "exec " << HOCKETD_PATH << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    setenv("HOCKET_DAEMON", path.c_str(), 1);
  }
  void AwaitsStart() {
    std::string line;
    std::getline(std::ifstream(began_), line);
  }
  void GoesOn() { std::ofstream(go_) << "\n"; }

 private:
  const std::string began_, go_;
};

bool HasOpen(const std::string& path) {
  struct stat wanted, found;
  if (stat(path.c_str(), &wanted) != 0) return false;
  for (int fd = 0; fd < 1024; ++fd) {
    if (fstat(fd, &found) == 0 && found.st_ino == wanted.st_ino && found.st_dev == wanted.st_dev) return true;
  }
  return false;
}

// A worker that was forked while its program started a daemon, and lives until this ends.
class Worker {
 public:
  Worker(const std::function<pid_t()>& forks, const std::string& looks_for) {
    int told[2], ends[2];
    if (pipe(told) != 0 || pipe(ends) != 0) std::abort();
    process_ = forks();
    if (process_ == 0) {
      close(ends[1]);
      const char answer = HasOpen(looks_for) ? 'y' : 'n';
      (void)!write(told[1], &answer, 1);
      char byte;
      (void)!read(ends[0], &byte, 1);
      _exit(0);
    }
    char answer = '?';
    EXPECT_EQ(read(told[0], &answer, 1), 1);
    has_it_open_ = answer == 'y';
    end_ = UniqueFd(ends[1]);
    for (int fd : {told[0], told[1], ends[0]}) close(fd);
  }
  ~Worker() {
    end_.Reset();
    waitpid(process_, nullptr, 0);
  }
  bool has_it_open() const { return has_it_open_; }

 private:
  pid_t process_;
  bool has_it_open_ = false;
  UniqueFd end_;
};

bool IsFree(const std::string& lock) {
  const UniqueFd file(open(lock.c_str(), O_RDWR | O_CLOEXEC));
  return file && flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

// It kept its copy for as long as it lived: nobody could start the next daemon.
TEST_F(RealCoordinatorTest, AWorkerForkedWhileADaemonStartsHasNoPartInTheLock) {
  SlowDaemon daemon(folder_);
  auto starting = std::async(std::launch::async, ConnectOrStart);
  daemon.AwaitsStart();
  const std::string lock = folder_ + "/start.lock";
  EXPECT_FALSE(IsFree(lock));
  const Worker worker(fork, lock);
  EXPECT_FALSE(worker.has_it_open());
  daemon.GoesOn();
  const auto channel = starting.get();
  EXPECT_TRUE(channel.ok()) << channel.status();
  EXPECT_TRUE(IsFree(lock));
}

TEST_F(RealCoordinatorTest, TheLockIsFreeAfterTheStartThoughAChildHasACopyOfIt) {
  SlowDaemon daemon(folder_);
  auto starting = std::async(std::launch::async, ConnectOrStart);
  daemon.AwaitsStart();
  const std::string lock = folder_ + "/start.lock";
  const auto without_handlers = [] {
    return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  };
  const Worker worker(without_handlers, lock);
  EXPECT_TRUE(worker.has_it_open());
  daemon.GoesOn();
  const auto channel = starting.get();
  EXPECT_TRUE(channel.ok()) << channel.status();
  EXPECT_TRUE(IsFree(lock));
}

// A program may be forked while this one starts a daemon and has the pipe open by which it says what is
// wrong.
TEST_F(RealCoordinatorTest, ItIsStartedThoughSomebodyElseKeepsThePipeThatItWritesTo) {
  const std::string path = folder_ + "/daemon", end = folder_ + "/end";
  ASSERT_EQ(mkfifo(end.c_str(), 0600), 0);
  std::ofstream(path) << "#!/bin/sh\n"
                      << "(read line <" << end << ") &\n"
                      << "exec " << HOCKETD_PATH << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  setenv("HOCKET_DAEMON", path.c_str(), 1);
  const auto channel = ConnectOrStart();
  EXPECT_TRUE(channel.ok()) << channel.status();
  std::ofstream(end) << "\n";
}

}  // namespace
}  // namespace hocket
