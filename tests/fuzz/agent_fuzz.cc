// A job whose coordinator says anything, in any order, and goes away at any time: the job outlives it. When
// no coordinator can be had any more, the program's thread goes on; nothing was touched that is not there.
//
// The input: a byte of settings, then moves (AgentMove). The client is a job's own, over a device's memory as
// numbers; this thread is the coordinator, another one the program. After each move both settle for a moment,
// so that what comes next mostly meets what it is meant for; nothing that must hold depends on that.
#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "csrc/base/check.h"
#include "csrc/client/client_impl.h"
#include "csrc/wire/codec.h"
#include "tests/client/fake_allocator.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/moves.h"

namespace hocket::fuzz {
namespace {

constexpr int kMostMoves = 32;
constexpr auto kHangs = std::chrono::seconds(30);

// The program's one thread: does one thing after the other, and may stand at a door in it.
class Program {
 public:
  Program() : ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { Run(); }) {}
  ~Program() {
    Does(nullptr);
    thread_.join();
  }

  bool busy() {
    std::lock_guard<std::mutex> lock(mutex_);
    return busy_;
  }
  // Readable once what it does is done.
  int ready() const { return ready_.get(); }

  // REQUIRES: not busy.
  void Does(std::function<void()> what) {
    std::uint64_t times;
    (void)!read(ready_.get(), &times, sizeof(times));
    std::lock_guard<std::mutex> lock(mutex_);
    what_ = std::move(what);
    busy_ = true;
    changed_.notify_all();
  }
  bool AwaitReady(std::chrono::seconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return !busy_; });
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return busy_; });
      if (!what_) return;
      lock.unlock();
      what_();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
      const std::uint64_t one = 1;
      (void)!write(ready_.get(), &one, sizeof(one));
    }
  }

  const UniqueFd ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> what_;
  bool busy_ = false;
  std::thread thread_;
};

class World {
 public:
  explicit World(Input& input) : input_(input), settings_(input.Byte()) {
    allocator_.idle = (settings_ & 2) == 0;
    allocator_.maps_spilled = (settings_ & 4) == 0;
    allocator_.fail_spill_after_part = (settings_ & 8) != 0;
    allocator_.chunk = 10;
    if (settings_ & 16) LacksOnce();
  }

  void Play() {
    program_.Does([this] { Join(); });
    Settle();
    for (int move = 0; move < kMostMoves && !input_.ended(); ++move) {
      const uint8_t byte = input_.Byte();
      Take(static_cast<AgentMove>(byte & 0x0f), byte >> 4);
      Settle();
    }
    End();
  }

 private:
  // The next turn that brings bytes back finds no room at first.
  void LacksOnce() {
    allocator_.missing = 10;
    allocator_.SetHook([this, times = std::make_shared<int>(0)](const std::string& call) {
      if (call == "take turn" && ++*times > 1) allocator_.missing = 0;
    });
  }

  void Join() {
    ClientTuning tuning;
    tuning.connect = [this] { return Connect(); };
    tuning.idle_limit = tuning.implicit_quantum = tuning.retry_pause = std::chrono::milliseconds(0);
    if (settings_ & 32) tuning.guessed_idle_limit = tuning.said_idle_limit = std::chrono::milliseconds(0);
    tuning.steady = tuning.room_patience = std::chrono::seconds(0);
    tuning.part = 7;
    tuning.spill_at_random = tuning.force_spill = (settings_ & 64) != 0;
    auto joined = ClientImpl::Join(wire::Join{.name = "job", .device = "gpu-0", .capacity = 1000}, tuning);
    HOCKET_CHECK(joined.ok() || !joined.status().message().empty()) << "refused without a word";
    if (!joined.ok()) return;
    job_ = *std::move(joined);
    allocator_.gate = job_.get();
    if (settings_ & 1) job_->SetAllocator(&allocator_);
  }

  // On the program's thread or the agent's.
  absl::StatusOr<wire::Channel> Connect() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!reachable_) return absl::UnavailableError("nobody listens");
    int ends[2];
    HOCKET_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) << "no sockets";
    peer_ = UniqueFd(ends[1]);
    connected_.notify_all();
    return wire::Channel(UniqueFd(ends[0]));
  }

  void Take(AgentMove move, int slot) {
    switch (move) {
      case AgentMove::kFrame:
        return Send(input_.Text(), /*with_descriptor=*/false);
      case AgentMove::kGoodFrame:
        return Send(WithGoodHeader(input_.Text()), slot % 2 == 1);
      case AgentMove::kHangsUp:
      case AgentMove::kIsGone:
        return HangUp(/*for_good=*/move == AgentMove::kIsGone);
      default:
        if (!program_.busy() && job_ != nullptr) Act(move, slot % 2 == 1);
    }
  }

  void Act(AgentMove move, bool odd) {
    switch (move) {
      case AgentMove::kBeginsStep:
        return program_.Does([this, odd] { depth_ += job_->BeginStep(odd).ok() ? 1 : 0; });
      case AgentMove::kEndsStep:
        return program_.Does([this, odd] {
          if (depth_ > 0) --depth_, job_->EndStep(!odd);
        });
      case AgentMove::kAllocates:
        return program_.Does([this] {
          if (settings_ & 1) (void)allocator_.Malloc(1, nullptr);
        });
      case AgentMove::kGoesAway:
        return program_.Does([this] { job_->BeginAway(); });
      case AgentMove::kComesBack:
        return program_.Does([this] { (void)job_->EndAway(); });
      case AgentMove::kMeets:
        return program_.Does([this, odd] { job_->JoinGang("gang", odd ? 1 : 0, 2); });
      case AgentMove::kLeaves:
        return program_.Does([this] { job_->Leave(); });
      default:
        return;
    }
  }

  // A coordinator names files of its own: here they are ours, and can be opened.
  static std::string LockOf(const std::string& said) {
    return said.empty() ? "" : Folder() + (said.size() % 2 == 0 ? "/lane-0.lock" : "/lane-1.lock");
  }
  static std::string WithOurLocks(std::string frame) {
    auto decoded = wire::Decode(frame);
    if (!decoded.ok() || !*decoded) return frame;
    auto* const joined = std::get_if<wire::Joined>(&**decoded);
    auto* const grant = std::get_if<wire::Grant>(&**decoded);
    if (joined == nullptr && grant == nullptr) return frame;
    std::string& lock = joined != nullptr ? joined->lane_lock : grant->lane_lock;
    lock = LockOf(lock);
    return wire::Encode(**decoded).value_or(frame);
  }

  void Send(const std::string& said, bool with_descriptor) {
    const std::string frame = WithOurLocks(said);
    const UniqueFd descriptor(with_descriptor ? eventfd(0, EFD_CLOEXEC) : -1);
    std::unique_lock<std::mutex> lock(mutex_);
    if (!std::exchange(reachable_, true) || !peer_)
      connected_.wait_for(lock, std::chrono::milliseconds(2), [&] { return static_cast<bool>(peer_); });
    if (peer_) SendPacket(peer_.get(), frame, descriptor.get());
  }

  void HangUp(bool for_good) {
    std::lock_guard<std::mutex> lock(mutex_);
    reachable_ = !for_good;
    peer_.Reset();
  }

  // For a moment, until the program is at the end of what it does, or the job has said something.
  void Settle() {
    std::unique_lock<std::mutex> lock(mutex_);
    const UniqueFd peer(peer_ ? dup(peer_.get()) : -1);
    lock.unlock();
    for (int look = 0; look < 50 && Unread(peer); ++look) usleep(10);
    pollfd fds[] = {{program_.busy() ? program_.ready() : -1, POLLIN, 0}, {peer.get(), POLLIN, 0}};
    if (program_.busy()) (void)poll(fds, 2, /*ms=*/1);
    char packet[4096];
    while (peer && recv(peer.get(), packet, sizeof(packet), MSG_DONTWAIT) > 0) continue;
  }
  static bool Unread(const UniqueFd& peer) {
    int bytes = 0;
    return peer && ioctl(peer.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
  }

  void End() {
    HangUp(/*for_good=*/true);
    HOCKET_CHECK(program_.AwaitReady(kHangs)) << "the program hangs, though no coordinator can be had";
    if (job_ == nullptr) return;
    program_.Does([this] {
      for (; depth_ > 0; --depth_) job_->EndStep(true);
      HOCKET_CHECK(job_->BeginStep().ok()) << "without a coordinator a step fails";
      job_->EndStep(true);
    });
    HOCKET_CHECK(program_.AwaitReady(kHangs)) << "without a coordinator a step does not begin";
    job_.reset();
    HOCKET_CHECK(allocator_.touched_while_spilled() == 0) << "an allocation while bytes were on the host";
  }

  Input& input_;
  const uint8_t settings_;
  FakeAllocator allocator_;
  std::mutex mutex_;
  std::condition_variable connected_;
  UniqueFd peer_;
  bool reachable_ = true;
  std::unique_ptr<ClientImpl> job_;
  int depth_ = 0;  // of the program's thread
  Program program_;
};

}  // namespace
}  // namespace hocket::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::fuzz::Input input(data, size);
  hocket::fuzz::World(input).Play();
  return 0;
}
