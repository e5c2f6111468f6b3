#include "csrc/emulator/timing/stream_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "csrc/base/check.h"
#include "csrc/emulator/timing/system.h"

namespace hocket::emulator::timing {
namespace {

// Alone on its devices a process loses nothing when work is made known late: time that nobody else has
// looked at is still handed out as it should have been. Somebody who joins meanwhile is noticed this late.
constexpr Nanos kGrace = 10'000'000;

}  // namespace

StreamEngine::StreamEngine(Clock& clock, const Identity& who, Thread thread)
    : clock_(clock), who_(who), thread_policy_(thread), machinery_(std::make_unique<Machinery>()) {}

StreamEngine::~StreamEngine() {
  Stop();
  if (machinery_ != nullptr && machinery_->thread.joinable()) machinery_->thread.join();
}

absl::Status StreamEngine::Open(int device, TimelineState& state) {
  HOCKET_CHECK(device >= 0 && device < kMaxDevices) << "device " << device;
  const Lock lock(mutex_);
  if (timelines_[device] != nullptr || stopped_) return absl::OkStatus();
  auto timeline = DeviceTimeline::Join(state, who_);
  if (timeline.ok()) timelines_[device] = *std::move(timeline);
  return timeline.status();
}

std::shared_ptr<Stream> StreamEngine::CreateStream(int device) { return std::make_shared<Stream>(device); }

std::uint64_t StreamEngine::Submit(const std::shared_ptr<Stream>& stream, Work work) {
  const Lock lock(mutex_);
  if (stopped_) return stream->last();
  HOCKET_CHECK(timelines_[stream->device()] != nullptr) << "device " << stream->device() << " is not open";
  used_ |= Devices::Set{1} << stream->device();
  const Nanos now = clock_.Now();
  Devices devices(timelines_, used_);
  if (simulation_.Simple(*stream, work)) return simulation_.Submit(devices, stream, std::move(work), now);
  simulation_.Advance(devices, now);
  const std::uint64_t number = simulation_.Submit(devices, stream, std::move(work), now);
  if (simulation_.HostDue()) {
    Alert(now);
  } else if (simulation_.needs_attention()) {
    Alert(NextStep(devices, now));
  }
  return number;
}

bool StreamEngine::AdvancedPast(const Stream& stream, std::uint64_t number) {
  const Nanos now = clock_.Now();
  LookForDead(now);
  Devices devices(timelines_, used_);
  simulation_.Advance(devices, now);
  if (simulation_.HostDue()) Alert(now);
  return stream.completed() >= number;
}

bool StreamEngine::Done(const Stream& stream, std::uint64_t number) {
  if (stream.completed() >= number) return true;
  const Lock lock(mutex_);
  return stopped_ || AdvancedPast(stream, number);
}

void StreamEngine::Wait(const Stream& stream, std::uint64_t number) {
  if (stream.completed() >= number) return;
  Lock lock(mutex_);
  while (!stopped_ && !AdvancedPast(stream, number)) {
    clock_.Wait(lock, machinery_->ended, WakeFor(stream, number));
  }
}

Nanos StreamEngine::WakeFor(const Stream& stream, std::uint64_t number) {
  const Nanos now = clock_.Now();
  const Devices devices(timelines_, used_);
  const Nanos end = simulation_.EarliestEnd(devices, stream, number, now);
  return devices.Contended() ? std::min(end, now + kDeathInterval) : end;
}

Nanos StreamEngine::BusyUntil(int device, Engine engine) {
  const Lock lock(mutex_);
  if (stopped_) return 0;
  HOCKET_CHECK(timelines_[device] != nullptr) << "device " << device << " is not open";
  const Nanos now = clock_.Now();
  LookForDead(now);
  Devices devices(timelines_, used_ | Devices::Set{1} << device);
  simulation_.Advance(devices, now);
  if (simulation_.HostDue()) Alert(now);
  devices.Change(device).Advance(engine, now);
  return devices[device].BusyUntil(engine);
}

bool StreamEngine::Idle() {
  const Lock lock(mutex_);
  if (stopped_) return true;
  Devices devices(timelines_, used_);
  simulation_.Advance(devices, clock_.Now());
  return simulation_.idle();
}

void StreamEngine::Stop() {
  Lock lock(mutex_);
  stopped_ = true;
  simulation_.Clear();
  used_ = 0;
  timelines_ = {};
  if (machinery_ == nullptr) return;
  machinery_->due.notify_all();
  machinery_->ended.notify_all();
  if (machinery_->thread.get_id() == std::this_thread::get_id()) return;
  // Bounded: a host function that waits for the ending process would wait for ever.
  machinery_->ended.wait_for(lock, std::chrono::seconds(2), [this] { return !host_running_; });
}

void StreamEngine::InChild() {
  stopped_ = true;
  for (auto& timeline : timelines_) {
    if (timeline != nullptr) timeline->Abandon();
  }
  simulation_.Clear();
  // Its thread and its waiters are the parent's: it is kept, and never touched again.
  static std::vector<std::unique_ptr<Machinery>>& abandoned = *new std::vector<std::unique_ptr<Machinery>>;
  abandoned.push_back(std::move(machinery_));
  mutex_.unlock();
}

Nanos StreamEngine::Step() {
  Lock lock(mutex_);
  return StepLocked(lock);
}

Nanos StreamEngine::StepLocked(Lock& lock) {
  CallHosts(lock);
  if (stopped_) return kNever;
  const Nanos now = clock_.Now();
  LookForDead(now);
  Devices devices(timelines_, used_);
  simulation_.Advance(devices, now);
  return simulation_.HostDue() ? now : NextStep(devices, now);
}

void StreamEngine::CallHosts(Lock& lock) {
  while (std::optional<Simulation::HostCall> call = simulation_.TakeHost()) {
    host_running_ = true;
    lock.unlock();
    call->function(clock_.Now());
    call->function = nullptr;  // what it held is freed before it counts as ended
    lock.lock();
    host_running_ = false;
    if (!stopped_) {
      const Nanos now = clock_.Now();
      Devices devices(timelines_, used_);
      simulation_.Advance(devices, now);
      simulation_.EndHost(devices, *call->stream, now);
    }
    machinery_->ended.notify_all();
  }
}

Nanos StreamEngine::NextStep(const Devices& devices, Nanos now) const {
  const Nanos next = simulation_.NextByItself(devices, now);
  if (next == kNever) return kNever;
  if (devices.Contended()) return std::min(next, now + kDeathInterval);
  return simulation_.has_duties() || Shared() ? next : next + kGrace;
}

bool StreamEngine::Shared() const {
  return std::any_of(timelines_.begin(), timelines_.end(),
                     [](const std::unique_ptr<DeviceTimeline>& timeline) {
                       return timeline != nullptr && timeline->Shared();
                     });
}

void StreamEngine::LookForDead(Nanos now) {
  for (const std::unique_ptr<DeviceTimeline>& timeline : timelines_) {
    if (timeline != nullptr) timeline->DropDead(now, kDeathInterval);
  }
}

void StreamEngine::Alert(Nanos next) {
  if (next == kNever || thread_policy_ == Thread::kNone) return;
  if (!machinery_->thread.joinable()) {
    machinery_->thread = StartQuietly([this] { Run(); });
  } else if (next < asleep_until_) {
    machinery_->due.notify_one();
  }
}

void StreamEngine::Run() {
  Lock lock(mutex_);
  while (!stopped_) {
    const Nanos next = StepLocked(lock);
    if (stopped_) return;
    asleep_until_ = next;
    if (next > clock_.Now()) clock_.Wait(lock, machinery_->due, next);
    asleep_until_ = 0;
  }
}

void StreamEngine::CheckInvariants() {
  const Lock lock(mutex_);
  Devices devices(timelines_, used_);
  simulation_.Advance(devices, clock_.Now());
  simulation_.CheckInvariants(devices);
}

}  // namespace hocket::emulator::timing
