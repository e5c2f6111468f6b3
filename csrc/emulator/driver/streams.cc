#include "csrc/emulator/driver/streams.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/emulator/driver/process.h"
#include "csrc/emulator/driver/settings.h"
#include "csrc/emulator/driver/thread_queue.h"

namespace hocket::emulator {
namespace {

void Append(const std::vector<Point>& more, std::vector<Point>& points) {
  for (const Point& point : more) {
    if (!point.Done()) points.push_back(point);
  }
}

}  // namespace

Context::Context(int device, Streams& streams)
    : device_(device), legacy_(streams.Create(device, StreamState::Kind::kLegacy, 0)) {}

StreamState::StreamState(Streams& streams, int device, Kind kind, int priority, std::uint64_t id,
                         std::shared_ptr<WorkQueue> queue)
    : streams_(streams),
      device_(device),
      kind_(kind),
      priority_(priority),
      id_(id),
      queue_(std::move(queue)) {}

StreamState::~StreamState() { queue_->Close(); }

std::string StreamState::Name() const {
  return kind_ == Kind::kLegacy ? "the default stream" : absl::StrCat("stream ", id_);
}

void StreamState::Submit(Operation operation) {
  if (kind_ != Kind::kNonBlocking) {
    for (const auto& other : streams_.Of(device_)) {
      const bool ordered =
          kind_ == Kind::kLegacy ? other->kind() == Kind::kBlocking : other->kind() == Kind::kLegacy;
      if (ordered) Append({other->LastPoint()}, operation.after);
    }
  }
  queue_->Submit(std::move(operation));
}

std::vector<Point> StreamState::Points() const {
  std::vector<Point> points{LastPoint()};
  if (kind_ == Kind::kLegacy) {
    for (const auto& other : streams_.Of(device_)) {
      if (other->kind() == Kind::kBlocking) points.push_back(other->LastPoint());
    }
  }
  return points;
}

bool StreamState::Done() const {
  for (const Point& point : Points()) {
    if (!point.Done()) return false;
  }
  return true;
}

void StreamState::Wait() const {
  for (const Point& point : Points()) point.Wait();
}

std::shared_ptr<StreamState> Streams::Create(int device, StreamState::Kind kind, int priority) {
  auto queue = std::make_shared<ThreadQueue>(Settings::Get().copy_delay);
  const std::lock_guard lock(mutex_);
  auto stream = std::make_shared<StreamState>(*this, device, kind, priority, next_id_++, std::move(queue));
  streams_[Handle(*stream)] = stream;
  return stream;
}

bool Streams::Destroy(Stream handle) {
  const std::lock_guard lock(mutex_);
  return streams_.erase(handle) == 1;
}

std::shared_ptr<StreamState> Streams::Find(Stream handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<StreamState>> Streams::Of(int device) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<StreamState>> streams;
  for (const auto& [handle, stream] : streams_) {
    if (stream->device() == device) streams.push_back(stream);
  }
  return streams;
}

std::vector<std::shared_ptr<StreamState>> Streams::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<StreamState>> streams;
  for (const auto& [handle, stream] : streams_) streams.push_back(stream);
  return streams;
}

void EventState::Record(const std::vector<std::shared_ptr<StreamState>>& streams) {
  auto reached = std::make_shared<std::atomic<std::int64_t>>(0);
  if (timed()) {
    Operation mark{.name = "event record", .action = [reached] { *reached = MonotonicNs(); }};
    for (const auto& stream : streams) stream->Submit(mark);
  }
  std::vector<Point> points;
  for (const auto& stream : streams) {
    for (Point& point : stream->Points()) points.push_back(std::move(point));
  }
  const std::lock_guard lock(mutex_);
  points_ = std::move(points);
  reached_ = std::move(reached);
  recorded_ = true;
}

std::vector<Point> EventState::Points() const {
  const std::lock_guard lock(mutex_);
  return points_;
}

bool EventState::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

std::int64_t EventState::reached_ns() const {
  const std::lock_guard lock(mutex_);
  return reached_ == nullptr ? 0 : reached_->load();
}

bool EventState::Done() const {
  for (const Point& point : Points()) {
    if (!point.Done()) return false;
  }
  return true;
}

void EventState::Wait() const {
  for (const Point& point : Points()) point.Wait();
}

cuda::Event Events::Create(unsigned flags) {
  auto event = std::make_shared<EventState>(flags);
  const auto handle = reinterpret_cast<cuda::Event>(event.get());
  const std::lock_guard lock(mutex_);
  events_[handle] = std::move(event);
  return handle;
}

bool Events::Destroy(cuda::Event handle) {
  const std::lock_guard lock(mutex_);
  return events_.erase(handle) == 1;
}

std::shared_ptr<EventState> Events::Find(cuda::Event handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(handle);
  return found == events_.end() ? nullptr : found->second;
}

}  // namespace hocket::emulator
