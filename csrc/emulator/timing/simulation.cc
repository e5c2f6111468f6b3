#include "csrc/emulator/timing/simulation.h"

#include <algorithm>
#include <bit>

#include "csrc/base/check.h"

namespace hocket::emulator::timing {
namespace {

// So many items may have ended unnoticed before a submission looks.
constexpr std::size_t kMostUnnoticed = 1024;

template <typename Function>
void ForEachBit(std::uint64_t bits, Function function) {
  for (; bits != 0; bits &= bits - 1) function(std::countr_zero(bits));
}

const std::vector<Point>& None() {
  static const std::vector<Point>& none = *new std::vector<Point>;
  return none;
}

bool AllEnded(const std::vector<Point>& points) {
  return std::all_of(points.begin(), points.end(), [](const Point& point) { return point.Ended(); });
}

}  // namespace

Devices::Devices(const Timelines& timelines, Set used) : used_(used) {
  ForEachBit(used_, [&](int device) { transactions_[device].emplace(*timelines[device]); });
}

Devices::~Devices() {
  ForEachBit(changed_, [this](int device) { transactions_[device]->Commit(); });
}

Transaction& Devices::Change(int device) {
  changed_ |= Set{1} << device;
  return *transactions_[device];
}

bool Devices::Contended() const {
  bool contended = false;
  ForEachBit(used_, [&](int device) {
    for (int engine = 0; engine < kEngines; ++engine) {
      contended |= transactions_[device]->Contended(static_cast<Engine>(engine));
    }
  });
  return contended;
}

bool Simulation::Simple(const Stream& stream, const Work& work) const {
  return ungranted_ == 0 && work.kind == Work::Kind::kTimed && work.after.empty() && !work.prompt &&
         stream.items_.size() < kMostUnnoticed && (stream.empty() || stream.engine_ == work.engine);
}

std::uint64_t Simulation::Submit(Devices& devices, const std::shared_ptr<Stream>& stream, Work work,
                                 Nanos now) {
  Push(stream, std::move(work), now);
  Settle(devices, *stream, now);
  return stream->last();
}

void Simulation::Push(const std::shared_ptr<Stream>& stream, Work work, Nanos now) {
  if (stream->empty()) Activate(stream);
  const std::uint64_t number = stream->last() + 1;
  stream->last_.store(number, std::memory_order_release);
  Stream::Item item{std::max<Nanos>(work.duration, work.kind == Work::Kind::kTimed),
                    now,
                    ++submitted_,
                    work.kind,
                    work.engine,
                    work.prompt,
                    nullptr};
  HOCKET_CHECK(work.kind != Work::Kind::kHost || work.action) << "a host function is missing";
  for (const Point& point : work.after) {
    HOCKET_CHECK(point.number <= point.stream->last())
        << "waits for item " << point.number << " of a stream that has " << point.stream->last();
    if (!point.Ended()) point.stream->waiting_.emplace_back(point.number, stream.get());
  }
  if (work.action || !work.after.empty()) {
    item.extra =
        std::make_unique<Stream::Extra>(Stream::Extra{std::move(work.action), std::move(work.after)});
  }
  if (work.prompt) stream->prompt_.push_back(number);
  if (work.prompt || work.kind == Work::Kind::kHost) ++duties_;
  stream->items_.push_back(std::move(item));
  ++ungranted_;
}

void Simulation::Activate(const std::shared_ptr<Stream>& stream) {
  stream->place_ = active_.size();
  active_.push_back(stream);
}

void Simulation::Deactivate(Stream& stream) {
  const std::size_t place = stream.place_;
  active_.back()->place_ = place;
  std::swap(active_[place], active_.back());
  spent_.push_back(std::move(active_.back()));
  active_.pop_back();
}

void Simulation::Settle(Devices& devices, Stream& stream, Nanos at) {
  unsettled_.push_back(&stream);
  while (!unsettled_.empty()) {
    Stream& next = *unsettled_.back();
    unsettled_.pop_back();
    do {
      Grant(devices, next, at);
    } while (StartFirst(next, at));
  }
  spent_.clear();
}

void Simulation::Grant(Devices& devices, Stream& stream, Nanos at) {
  const std::size_t before = stream.granted_;
  while (const std::optional<Engine> engine = GrantableOn(stream)) {
    const Stream::Item& item = stream.items_[stream.granted_];
    stream.engine_ = *engine;
    ++stream.granted_;
    --ungranted_;
    if (item.kind != Work::Kind::kTimed) continue;
    devices.Change(stream.device()).Submit(*engine, std::max(at, item.submitted_at), item.duration);
  }
  if (stream.granted_ > before) NotifyGranted(stream);
}

std::optional<Engine> Simulation::GrantableOn(const Stream& stream) const {
  if (stream.granted_ == stream.items_.size()) return std::nullopt;
  const Stream::Item& item = stream.items_[stream.granted_];
  if (item.kind == Work::Kind::kHost) return std::nullopt;
  std::optional<Engine> engine;
  if (item.kind == Work::Kind::kTimed) engine = item.engine;
  const auto agrees = [&engine](Engine other) { return *(engine = engine.value_or(other)) == other; };
  if (stream.granted_ > 0 && !agrees(stream.engine_)) return std::nullopt;
  for (const Point& point : item.extra == nullptr ? None() : item.extra->after) {
    if (point.Ended()) continue;
    const Stream& other = *point.stream;
    if (point.number > other.granted_until() || other.device() != stream.device()) return std::nullopt;
    if (!agrees(other.engine_)) return std::nullopt;
  }
  return engine;
}

// Those who wait for items granted just now may be grantable themselves.
void Simulation::NotifyGranted(Stream& stream) {
  for (const auto& [number, waiting] : stream.waiting_) {
    if (number <= stream.granted_until() && waiting != &stream) unsettled_.push_back(waiting);
  }
}

bool Simulation::StartFirst(Stream& stream, Nanos at) {
  if (stream.empty() || stream.started_) return false;
  Stream::Item& item = stream.items_.front();
  if (item.extra != nullptr && !AllEnded(item.extra->after)) return false;
  const Nanos start = std::max(at, item.submitted_at);
  if (item.kind == Work::Kind::kMark) {
    const bool more = stream.items_.size() > 1;
    EndFirst(stream, start);
    return more;
  }
  stream.started_ = true;
  if (item.kind == Work::Kind::kTimed) {
    MakeReady(stream, start);
  } else {
    hosts_.push_back(&stream);
  }
  return false;
}

// Mostly the latest to be ready; an item submitted without advancing may have to go before others.
void Simulation::MakeReady(Stream& stream, Nanos at) {
  const Stream::Item& item = stream.items_.front();
  std::deque<Ready>& ready = LaneOf(stream.device(), item.engine).ready;
  auto place = ready.end();
  while (place != ready.begin()) {
    const Ready& before = *std::prev(place);
    if (std::pair(before.since, before.order) < std::pair(at, item.order)) break;
    --place;
  }
  ready.insert(place, {at, item.order, &stream});
  MarkServing(stream.device(), item.engine);
}

void Simulation::EndFirst(Stream& stream, Nanos at) {
  Stream::Item item = std::move(stream.items_.front());
  stream.items_.pop_front();
  stream.started_ = false;
  if (stream.granted_ > 0) {
    --stream.granted_;
  } else {
    --ungranted_;
  }
  if (item.prompt) stream.prompt_.pop_front();
  if (item.prompt || item.kind == Work::Kind::kHost) --duties_;
  if (item.kind != Work::Kind::kHost && item.extra != nullptr && item.extra->action) item.extra->action(at);
  item.extra.reset();  // what it held is freed before it counts as ended
  const std::uint64_t number = stream.completed() + 1;
  stream.completed_.store(number, std::memory_order_release);
  std::erase_if(stream.waiting_, [&](const auto& waiting) {
    if (waiting.first > number) return false;
    unsettled_.push_back(waiting.second);
    return true;
  });
  if (stream.empty()) Deactivate(stream);
}

void Simulation::MarkServing(int device, Engine engine) {
  const std::uint64_t bit = std::uint64_t{1} << (device * kEngines + static_cast<int>(engine));
  serving_ = LaneOf(device, engine).ready.empty() ? serving_ & ~bit : serving_ | bit;
}

Simulation::NextEnd Simulation::FindNextEnd(const Devices& devices) const {
  NextEnd next;
  ForEachBit(serving_, [&](int bit) {
    const int device = bit / kEngines;
    const auto engine = static_cast<Engine>(bit % kEngines);
    const Lane& lane = LaneOf(device, engine);
    const Ready& first = lane.ready.front();
    const Nanos received = lane.finished + first.stream->items_.front().duration;
    const Nanos at = std::max(first.since, devices[device].ReceivedAt(engine, received));
    if (at < next.at) next = {device, engine, at};
  });
  return next;
}

void Simulation::Advance(Devices& devices, Nanos now) {
  for (NextEnd next = FindNextEnd(devices); next.at <= now; next = FindNextEnd(devices)) {
    Lane& lane = LaneOf(next.device, next.engine);
    Stream& stream = *lane.ready.front().stream;
    lane.ready.pop_front();
    MarkServing(next.device, next.engine);
    lane.finished += stream.items_.front().duration;
    devices.Change(next.device).Advance(next.engine, next.at, lane.finished);
    EndFirst(stream, next.at);
    Settle(devices, stream, next.at);
  }
}

std::optional<Simulation::HostCall> Simulation::TakeHost() {
  if (hosts_.empty()) return std::nullopt;
  Stream& stream = *hosts_.front();
  hosts_.pop_front();
  return HostCall{active_[stream.place_], std::move(stream.items_.front().extra->action)};
}

void Simulation::EndHost(Devices& devices, Stream& stream, Nanos now) {
  if (stream.empty()) return;  // cleared meanwhile
  EndFirst(stream, now);
  Settle(devices, stream, now);
}

Nanos Simulation::GrantedEnd(const Devices& devices, const Stream& stream, std::uint64_t number) const {
  Nanos work = 0;
  for (std::uint64_t i = 0; i < number - stream.completed(); ++i) work += stream.items_[i].duration;
  const Lane& lane = LaneOf(stream.device(), stream.engine_);
  const Stream& served = *lane.ready.front().stream;
  if (&served != &stream) work += served.items_.front().duration;
  return devices[stream.device()].ReceivedAt(stream.engine_, lane.finished + work);
}

Nanos Simulation::EarliestStart(const Devices& devices, const Stream& stream, Nanos now) const {
  Nanos at = EarliestEnd(devices, stream, stream.granted_until(), now);
  const Stream::Item& item = stream.items_[stream.granted_];
  for (const Point& point : item.extra == nullptr ? None() : item.extra->after) {
    at = std::max(at, EarliestEnd(devices, *point.stream, point.number, now));
  }
  return at;
}

Nanos Simulation::EarliestEnd(const Devices& devices, const Stream& stream, std::uint64_t number,
                              Nanos now) const {
  if (number <= stream.completed()) return now;
  if (number <= stream.granted_until()) return std::max(now, GrantedEnd(devices, stream, number));
  const Stream::Item& first = stream.items_[stream.granted_];
  if (first.kind == Work::Kind::kHost && stream.granted_ == 0 && stream.started_) return kNever;
  Nanos at = EarliestStart(devices, stream, now);
  for (std::uint64_t i = stream.granted_; at != kNever && i < number - stream.completed(); ++i) {
    at += stream.items_[i].duration;
  }
  return at;
}

Nanos Simulation::NextByItself(const Devices& devices, Nanos now) const {
  Nanos next = kNever;
  for (const std::shared_ptr<Stream>& stream : active_) {
    const bool waits =
        stream->granted_ < stream->items_.size() && !(stream->granted_ == 0 && stream->started_);
    if (waits) next = std::min(next, EarliestStart(devices, *stream, now));
    if (!stream->prompt_.empty() && stream->prompt_.front() <= stream->granted_until()) {
      next = std::min(next, EarliestEnd(devices, *stream, stream->prompt_.front(), now));
    }
  }
  return next;
}

void Simulation::Clear() {
  for (const std::shared_ptr<Stream>& stream : active_) {
    stream->items_.clear();
    stream->waiting_.clear();
    stream->prompt_.clear();
    stream->granted_ = 0;
    stream->started_ = false;
    stream->completed_ = stream->last();
  }
  active_.clear();
  hosts_.clear();
  for (auto& device : lanes_) {
    for (Lane& lane : device) lane.ready.clear();
  }
  serving_ = 0;
  ungranted_ = 0;
  duties_ = 0;
}

void Simulation::CheckInvariants(const Devices& devices) const {
  std::size_t ungranted = 0;
  std::array<std::array<Nanos, kEngines>, kMaxDevices> granted = {};
  for (const std::shared_ptr<Stream>& stream : active_) {
    HOCKET_CHECK(!stream->empty()) << "an active stream has no items";
    HOCKET_CHECK(stream->last() == stream->completed() + stream->items_.size())
        << stream->last() << " submitted, " << stream->completed() << " ended, " << stream->items_.size()
        << " queued";
    ungranted += stream->items_.size() - stream->granted_;
    for (std::size_t i = 0; i < stream->granted_; ++i) {
      granted[stream->device()][static_cast<int>(stream->engine_)] += stream->items_[i].duration;
    }
  }
  HOCKET_CHECK(ungranted == ungranted_) << ungranted << " items are not granted, counted " << ungranted_;
  for (int device = 0; device < kMaxDevices; ++device) {
    for (int engine = 0; engine < kEngines; ++engine) {
      const Lane& lane = lanes_[device][engine];
      const Nanos work = granted[device][engine];
      HOCKET_CHECK(work == 0 || !lane.ready.empty())
          << work << " ns are granted on engine " << engine << ", nothing runs";
      if (lane.finished + work == 0) continue;
      const Nanos submitted = devices[device].submitted(static_cast<Engine>(engine));
      HOCKET_CHECK(lane.finished + work == submitted)
          << lane.finished << " ns ended and " << work << " ns granted, but " << submitted << " ns submitted";
    }
  }
}

}  // namespace hocket::emulator::timing
