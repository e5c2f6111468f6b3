// A scene: one job, in this process, and a coordinator that says what the test tells it to.
//
//   Scene scene;                       // the job has joined
//   std::thread t = scene.Thread([&] { scene.job().BeginStep(); });
//   scene.Expects<wire::Wait>();       // blocks until the job says so
//   scene.Grants(1);
//
// Nothing sleeps: a test waits for messages and for threads. What does not come in 20 s fails the test.
#ifndef HOCKET_TESTS_CLIENT_SCENE_H_
#define HOCKET_TESTS_CLIENT_SCENE_H_

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "csrc/client/client_impl.h"
#include "gtest/gtest.h"
#include "tests/client/fake_allocator.h"

namespace hocket {

// Something that has happened, for those who wait for it.
class Happening {
 public:
  void Happens() {
    std::lock_guard<std::mutex> lock(mutex_);
    happened_ = true;
    changed_.notify_all();
  }
  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return happened_; });
  }
  // For what must not happen: gives up after a while.
  void AwaitInVain() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return happened_; });
  }
  bool HasHappened() {
    std::lock_guard<std::mutex> lock(mutex_);
    return happened_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

// Another living process that has the lane's lock until it is told to let go.
class OtherHolder {
 public:
  explicit OtherHolder(const std::string& path) {
    int ready[2], release[2];
    if (pipe(ready) != 0 || pipe(release) != 0) std::abort();
    process_ = fork();
    if (process_ == 0) {
      // Not the scene's sockets: they would outlive the coordinator that dies in it.
      for (int fd = 3; fd < 1024; ++fd) {
        if (fd != ready[1] && fd != release[0]) close(fd);
      }
      LaneLock lock;
      lock.SetPath(path);
      (void)lock.Acquire([](bool signal) { return false; });
      char byte = 'r';
      (void)!write(ready[1], &byte, 1);
      (void)!read(release[0], &byte, 1);
      _exit(0);  // the kernel drops the lock
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    release_ = UniqueFd(release[1]);
    for (int fd : {ready[0], ready[1], release[0]}) close(fd);
  }
  ~OtherHolder() {
    if (release_) LetsGo();
  }
  void LetsGo() {
    EXPECT_EQ(write(release_.get(), "x", 1), 1);
    release_.Reset();
    waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_;
  UniqueFd release_;
};

class Scene {
 public:
  struct Options {
    bool with_allocator = true;
    bool force_spill = false;
    bool spill_at_random = false;
    Clock::duration idle_limit = std::chrono::milliseconds(0);
    Clock::duration guessed_idle_limit = std::chrono::hours(1);
    Clock::duration said_idle_limit = std::chrono::hours(1);
    Clock::duration implicit_quantum = std::chrono::milliseconds(0);
    Clock::duration retry_pause = std::chrono::milliseconds(1);
    Clock::duration steady = std::chrono::seconds(1);
    Clock::duration room_patience = std::chrono::seconds(0);
    Clock::duration longest_stand_by = std::chrono::hours(1);
    Clock::duration exit_patience = std::chrono::seconds(20);  // as long as anything is waited for here
    Bytes part = 0;
    Clock::duration expect_margin = MappingTimes::kMargin;
    bool hears_parts = true;
    bool hears_headroom = true;
  };

  // For scenes in which the agent gives no turn on its own account.
  static Options NeverIdle() {
    Options options;
    options.idle_limit = std::chrono::hours(1);
    return options;
  }

  Scene() : Scene(Options()) {}
  explicit Scene(const Options& options) {
    char folder[] = "/tmp/hocket-scene-XXXXXX";
    folder_ = mkdtemp(folder);
    ClientTuning tuning;
    tuning.connect = [this] { return Connect(); };
    tuning.idle_limit = options.idle_limit;
    tuning.guessed_idle_limit = options.guessed_idle_limit;
    tuning.said_idle_limit = options.said_idle_limit;
    tuning.implicit_quantum = options.implicit_quantum;
    tuning.retry_pause = options.retry_pause;
    tuning.steady = options.steady;
    tuning.room_patience = options.room_patience;
    tuning.longest_stand_by = options.longest_stand_by;
    tuning.exit_patience = options.exit_patience;
    tuning.force_spill = options.force_spill;
    tuning.spill_at_random = options.spill_at_random;
    tuning.part = options.part;
    tuning.expect_margin = options.expect_margin;
    auto joining = std::async(std::launch::async, [&] {
      return ClientImpl::Join(wire::Join{.name = "job", .device = "gpu-0", .capacity = 1000}, tuning);
    });
    Answers(/*hears_movable=*/true, options.hears_parts, options.hears_headroom);
    auto joined = joining.get();
    EXPECT_TRUE(joined.ok()) << joined.status();
    job_ = *std::move(joined);
    allocator_.gate = job_.get();
    if (options.with_allocator) job_->SetAllocator(&allocator_);
  }
  ~Scene() {
    job_.reset();
    std::filesystem::remove_all(folder_);
  }

  ClientImpl& job() { return *job_; }
  FakeAllocator& allocator() { return allocator_; }
  void DestroyJob() { job_.reset(); }
  std::string lock_path() const { return folder_ + "/lane.lock"; }

  // --- the coordinator's side
  wire::Join Answers(bool hears_movable = true, bool hears_parts = true, bool hears_headroom = true) {
    const wire::Join join = Expects<wire::Join>();
    Says(wire::Joined{.job = 5,
                      .name = "job",
                      .lane_lock = lock_path(),
                      .hears_movable = hears_movable,
                      .hears_parts = hears_parts,
                      .hears_headroom = hears_headroom});
    return join;
  }
  // To a job that may have ended meanwhile.
  void SaysPerhapsTooLate(wire::Message message) { (void)peer().Send(message, -1); }
  void Says(wire::Message message, int descriptor = -1) {
    const absl::Status sent = peer().Send(message, descriptor);
    EXPECT_TRUE(sent.ok()) << sent;
  }
  void Grants(std::uint64_t turn, bool contended = false) {
    Says(wire::Grant{.turn = turn, .contended = contended});
  }
  // The next message of that type; others are passed over.
  template <typename Type>
  Type Expects() {
    for (;;) {
      auto received = peer().Receive();
      if (!received.ok()) {
        ADD_FAILURE() << "no " << Type::kName << " came: " << received.status();
        throw std::runtime_error("the scene has ended");
      }
      descriptor_ = std::move(received->descriptor);
      if (Type* wanted = std::get_if<Type>(&received->message)) return *wanted;
    }
  }
  // The job's next message that is no Report.
  wire::Message Next() {
    for (;;) {
      auto received = peer().Receive();
      EXPECT_TRUE(received.ok()) << received.status();
      if (!received.ok()) throw std::runtime_error("the scene has ended");
      if (!std::holds_alternative<wire::Report>(received->message)) return std::move(received->message);
    }
  }
  // The coordinator is gone; while `reachable` is false nobody can start another.
  void Dies(bool another_can_be_started = true) {
    reachable_ = another_can_be_started;
    std::lock_guard<std::mutex> lock(mutex_);
    peer_.reset();
  }
  void CannotBeStarted() { reachable_ = false; }
  // Where none can be reached it is because there is one that is stopped.
  void TakesNobodyIn() { takes_nobody_in_ = true; }
  void CanBeStarted() { reachable_ = true; }
  // Blocks until the job has tried in vain once more.
  void AwaitsFailedConnect() {
    std::unique_lock<std::mutex> lock(mutex_);
    connected_.wait(lock, [this, seen = failed_connects_] { return failed_connects_ > seen + 1; });
  }
  // Blocks until the job has read all that was said.
  void AwaitsRead() {
    int unread = 1;
    while (ioctl(peer().fd(), SIOCOUTQ, &unread) == 0 && unread > 0) std::this_thread::yield();
  }
  // The descriptor that came with the message expected last.
  UniqueFd TakeDescriptor() { return std::move(descriptor_); }
  bool PeerHasClosed() { return absl::IsUnavailable(peer().Receive().status()); }

  // --- the job's side
  void TakesTurn(std::uint64_t turn = 1, bool contended = false) {
    std::thread thread([&] { Step(); });
    Expects<wire::Wait>();
    Grants(turn, contended);
    thread.join();
  }
  void Step() {
    const absl::Status begun = job().BeginStep();
    EXPECT_TRUE(begun.ok()) << begun;
    job().EndStep(true);
  }

  // Blocks until the agent has handled all that was said before: it answers an order to spill at once.
  wire::Spilled AgentHasObeyed() { return Spills(0); }
  // The answer to an order to spill.
  wire::Spilled Spills(Bytes bytes) {
    Says(wire::Spill{.request = ++requests_, .bytes = bytes});
    for (;;) {
      const wire::Spilled answer = Expects<wire::Spilled>();
      if (answer.request == requests_) return answer;
    }
  }

 private:
  absl::StatusOr<wire::Channel> Connect() {
    if (!reachable_) {
      std::lock_guard<std::mutex> lock(mutex_);
      ++failed_connects_;
      connected_.notify_all();
      return takes_nobody_in_ ? absl::DeadlineExceededError("it takes nobody in")
                              : absl::UnavailableError("nobody listens");
    }
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    const timeval limit{20, 0};
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    std::lock_guard<std::mutex> lock(mutex_);
    peer_ = std::make_unique<wire::Channel>(UniqueFd(ends[1]));
    connected_.notify_all();
    return wire::Channel(UniqueFd(ends[0]));
  }
  wire::Channel& peer() {
    std::unique_lock<std::mutex> lock(mutex_);
    connected_.wait(lock, [&] { return peer_ != nullptr; });
    return *peer_;
  }

  std::string folder_;
  std::atomic<bool> reachable_{true}, takes_nobody_in_{false};
  int failed_connects_ = 0;
  std::mutex mutex_;
  std::condition_variable connected_;
  std::unique_ptr<wire::Channel> peer_;
  UniqueFd descriptor_;
  std::uint64_t requests_ = 1000;
  FakeAllocator allocator_;
  std::unique_ptr<ClientImpl> job_;
};

// A thread that makes a step, is then in the program's own code, and makes another where `returns`.
class ThreadInUserCode {
 public:
  explicit ThreadInUserCode(Scene& scene, bool returns = true)
      : thread_([this, &scene, returns] {
          scene.Step();
          in_user_code_.Happens();
          leave_.Await();
          if (returns) scene.Step();
        }) {}
  // Blocks until its first step is over.
  void Awaits() { in_user_code_.Await(); }
  void Leaves() { leave_.Happens(); }
  void Ends() { thread_.join(); }

 private:
  Happening in_user_code_, leave_;
  std::thread thread_;
};

}  // namespace hocket

#endif  // HOCKET_TESTS_CLIENT_SCENE_H_
