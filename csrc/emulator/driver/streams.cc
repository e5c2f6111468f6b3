#include "csrc/emulator/driver/streams.h"

#include <utility>

namespace hocket::emulator {
namespace {

using StreamList = std::vector<std::shared_ptr<StreamState>>;

std::vector<std::uint64_t> Ids(const StreamList& streams) {
  std::vector<std::uint64_t> ids;
  for (const auto& stream : streams) ids.push_back(stream->id());
  return ids;
}

bool AllDone(const std::vector<Point>& points) {
  for (const Point& point : points) {
    if (!point.Done()) return false;
  }
  return true;
}

}  // namespace

Context::Context(int device, Streams& streams)
    : device_(device), legacy_(streams.Create(device, StreamState::Kind::kLegacy, 0)) {}

// --- one stream ---

StreamState::StreamState(Streams& streams, int device, Kind kind, int priority, std::uint64_t id,
                         std::shared_ptr<WorkQueue> queue)
    : streams_(streams),
      device_(device),
      kind_(kind),
      priority_(priority),
      id_(id),
      queue_(std::move(queue)) {}

StreamState::~StreamState() { queue_->Close(); }

StreamList StreamState::Before() const {
  if (kind_ == Kind::kNonBlocking) return {};
  return streams_.Of(device_, kind_ == Kind::kLegacy ? Kind::kBlocking : Kind::kLegacy);
}

std::vector<std::uint64_t> StreamState::Covered() const {
  std::vector<std::uint64_t> ids{id_};
  if (kind_ == Kind::kLegacy) {
    for (std::uint64_t id : Ids(Before())) ids.push_back(id);
  }
  return ids;
}

Operation StreamState::Behind(Operation operation) const {
  for (const auto& other : Before()) {
    Point point = other->LastPoint();
    if (!point.Done()) operation.after.push_back(std::move(point));
  }
  return operation;
}

void StreamState::Submit(Operation operation) {
  if (streams_.captures().Add(*this, operation)) return;
  if (Order* order = streams_.order()) order->Queue(id_, Ids(Before()), operation.name, operation.uses);
  queue_->Submit(Behind(std::move(operation)));
}

Ticket StreamState::BeginInline(const char* name, const std::vector<Use>& uses) {
  Ticket ticket;
  if (Order* order = streams_.order()) ticket = order->Queue(id_, Ids(Before()), name, uses);
  Operation operation = Behind(Operation());
  if (!operation.after.empty()) queue_->Submit(std::move(operation));
  queue_->BeginInline();
  return ticket;
}

cuda::Result StreamState::WaitFor(const EventState& event) {
  bool joined = false;
  if (const cuda::Result result = streams_.captures().Wait(*this, event.captured(), &joined)) return result;
  if (joined) return cuda::kSuccess;
  if (Order* order = streams_.order()) {
    order->StreamWaits(id_, event.clock());
    if (event.shared() != nullptr) order->Knows(event.shared()->recorder(), event.shared()->last_use());
  }
  Operation operation{.name = "wait for an event"};
  for (Point& point : event.Points()) {
    if (point.progress != queue_ && !point.Done()) operation.after.push_back(std::move(point));
  }
  if (!operation.after.empty()) queue_->Submit(std::move(operation));
  return cuda::kSuccess;
}

std::vector<Point> StreamState::Points() const {
  std::vector<Point> points{LastPoint()};
  if (kind_ == Kind::kLegacy) {
    for (const auto& other : Before()) points.push_back(other->LastPoint());
  }
  return points;
}

void StreamState::Synchronize() const {
  const std::vector<std::uint64_t> covered = Covered();
  const std::vector<Point> points = Points();
  Clock clock;
  std::uint64_t uses = 0;
  Order* order = streams_.order();
  if (order != nullptr) clock = order->Record(covered, &uses);  // what is queued later is not waited for
  for (const Point& point : points) point.Wait();
  if (order != nullptr) order->HostWaits(clock);
}

bool StreamState::Query() const {
  Clock clock;
  std::uint64_t uses = 0;
  Order* order = streams_.order();
  if (order != nullptr) clock = order->Record(Covered(), &uses);
  if (!AllDone(Points())) return false;
  if (order != nullptr) order->HostWaits(clock);
  return true;
}

// --- all streams ---

std::shared_ptr<StreamState> Streams::Create(int device, StreamState::Kind kind, int priority) {
  std::shared_ptr<WorkQueue> queue = make_queue_(device);
  if (kind == StreamState::Kind::kBlocking) ++blocking_;
  const std::lock_guard lock(mutex_);
  auto stream = std::make_shared<StreamState>(*this, device, kind, priority, next_id_++, std::move(queue));
  streams_[Handle(*stream)] = stream;
  return stream;
}

bool Streams::Destroy(Stream handle) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return false;
  ForgetClosed();
  closing_.push_back(std::move(found->second));
  streams_.erase(found);
  return true;
}

void Streams::ForgetClosed() {
  std::erase_if(closing_, [this](const auto& stream) {
    if (!stream->LastPoint().Done()) return false;
    // Check mode: a wait that covers it is still to be known for one.
    if (order_ != nullptr && !order_->HostKnows(stream->id())) return false;
    if (stream->kind() == StreamState::Kind::kBlocking) --blocking_;
    return true;
  });
}

std::shared_ptr<StreamState> Streams::Find(Stream handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

StreamList Streams::Of(int device) const {
  const std::lock_guard lock(mutex_);
  StreamList streams;
  for (const auto& [handle, stream] : streams_) {
    if (stream->device() == device) streams.push_back(stream);
  }
  for (const auto& stream : closing_) {
    if (stream->device() == device) streams.push_back(stream);
  }
  return streams;
}

StreamList Streams::Of(int device, StreamState::Kind kind) const {
  if (kind == StreamState::Kind::kBlocking && blocking_ == 0) return {};
  StreamList streams = Of(device);
  std::erase_if(streams, [&](const auto& stream) { return stream->kind() != kind; });
  return streams;
}

StreamList Streams::All() const {
  const std::lock_guard lock(mutex_);
  StreamList streams = closing_;
  for (const auto& [handle, stream] : streams_) streams.push_back(stream);
  return streams;
}

void Streams::Synchronize(int device) const {
  const StreamList streams = Of(device);
  Clock clock;
  std::uint64_t uses = 0;
  if (order_ != nullptr) clock = order_->Record(Ids(streams), &uses);
  for (const auto& stream : streams) stream->LastPoint().Wait();
  if (order_ != nullptr) order_->HostWaits(clock);
}

// --- events ---

std::vector<Point> EventState::RecordWork(const StreamList& streams,
                                          const std::shared_ptr<std::atomic<std::int64_t>>& reached) {
  std::vector<Point> points;
  if (timed()) {
    const Operation mark{.name = "event record", .action = [reached](std::int64_t now) { *reached = now; }};
    for (const auto& stream : streams) stream->Submit(mark);
  }
  for (const auto& stream : streams) {
    for (Point& point : stream->Points()) points.push_back(std::move(point));
  }
  if (shared_ == nullptr) return points;
  const std::uint64_t number = shared_->BeginRecord();
  streams.front()->Submit(
      Operation{.name = "interprocess event record",
                .action = [shared = shared_, number](std::int64_t) { shared->Reached(number); },
                .seen_by_others = true,
                .after = std::move(points)});
  return {};  // the shared record says it
}

void EventState::Record(const StreamList& streams) {
  std::shared_ptr<Captures::Captured> captured = streams_.captures().Record(*streams.front());
  auto reached = std::make_shared<std::atomic<std::int64_t>>(0);
  Clock clock;
  std::uint64_t covered = 0;
  if (const Order* order = streams_.order()) {
    std::vector<std::uint64_t> ids;
    for (const auto& stream : streams) {
      for (std::uint64_t id : stream->Covered()) ids.push_back(id);
    }
    clock = order->Record(ids, &covered);
  }
  if (shared_ != nullptr) shared_->NoteUses(covered);
  std::vector<Point> points;
  if (captured == nullptr) points = RecordWork(streams, reached);
  const std::lock_guard lock(mutex_);
  points_ = std::move(points);
  reached_ = std::move(reached);
  captured_ = std::move(captured);
  clock_ = std::move(clock);
  recorded_ = true;
}

std::vector<Point> EventState::Points() const {
  if (shared_ != nullptr) return {Point{shared_, shared_->last()}};
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

std::shared_ptr<Captures::Captured> EventState::captured() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

Clock EventState::clock() const {
  const std::lock_guard lock(mutex_);
  return clock_;
}

void EventState::HostKnows() const {
  Order* order = streams_.order();
  if (order == nullptr) return;
  order->HostWaits(clock());
  if (shared_ != nullptr) order->Knows(shared_->recorder(), shared_->last_use());
}

bool EventState::Done() const { return AllDone(Points()); }

void EventState::Synchronize() const {
  for (const Point& point : Points()) point.Wait();
  HostKnows();
}

bool EventState::Query() const {
  if (!Done()) return false;
  HostKnows();
  return true;
}

cuda::Event Events::Add(std::shared_ptr<EventState> event) {
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
