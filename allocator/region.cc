#include "allocator/region.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {

absl::StatusOr<Region> Region::Reserve(const Driver& driver, Bytes chunk_size, Position positions) {
  HOCKET_ASSIGN_OR_RETURN(Range range, Range::Reserve(driver, chunk_size * positions, chunk_size));
  return Region(driver, std::move(range), chunk_size, positions);
}

Region::~Region() {
  for (Position position = 0; position < positions(); ++position) {
    if (places_[position].chunk) (void)places_[position].chunk.UnmapFrom(AddressOf(position));
    Arrival& arrival = places_[position].arrival;
    if (arrival.there) (void)arrival.chunk.UnmapFrom(this->arrival(position));
    (void)UnmapCopies(position, 1);
    if (vacated(position)) (void)Clear(position);
  }
}

Region::Place& Region::Require(Position position, State state) {
  HOCKET_CHECK(position < places_.size()) << "position " << position << " of " << places_.size();
  Place& place = places_[position];
  HOCKET_CHECK(place.state == state) << "position " << position << " is in state "
                                     << static_cast<int>(place.state) << ", not " << static_cast<int>(state);
  return place;
}

void Region::RecordChanges(bool on) {
  records_changes_ = on;
  if (!on) changes_.clear();
}

std::vector<SegmentChange> Region::TakeChanges() { return std::exchange(changes_, {}); }

void Region::Remember(const Place& place, bool came) {
  constexpr std::size_t kMost = 16'384;
  const DevicePtr address = AddressOf(static_cast<Position>(&place - places_.data()));
  if (!changes_.empty() && changes_.back().came == came &&
      changes_.back().address + changes_.back().size == address) {
    changes_.back().size += chunk_size_;
    return;
  }
  if (changes_.size() == kMost) changes_.erase(changes_.begin(), changes_.begin() + kMost / 2);
  changes_.push_back({.came = came, .address = address, .size = chunk_size_});
}

void Region::Enter(Place& place, State state) {
  const bool was_empty = place.state == State::kEmpty;
  if (records_changes_ && was_empty != (state == State::kEmpty)) Remember(place, was_empty);
  --counts_[static_cast<int>(place.state)];
  ++counts_[static_cast<int>(state)];
  const auto position = static_cast<Position>(&place - places_.data());
  if (!was_empty) in_[static_cast<int>(place.state)].erase(position);
  if (state != State::kEmpty) in_[static_cast<int>(state)].insert(position);
  place.state = state;
}

absl::Status Region::Map(Position position, Chunk& chunk, ArenaChunkId id) {
  Place& place = Require(position, State::kEmpty);
  HOCKET_CHECK(chunk.size() == chunk_size_) << chunk.size() << " != " << chunk_size_;
  HOCKET_CHECK(!place.vacated) << "position " << position << " reaches another chunk";
  HOCKET_RETURN_IF_ERROR(chunk.MapAt(AddressOf(position)));
  place.chunk = std::move(chunk);
  place.arena_id = id;
  Enter(place, id == 0 ? State::kPrivate : State::kArena);
  return absl::OkStatus();
}

absl::StatusOr<Chunk> Region::TakeChunk(Position position, State next) {
  Place& place = places_[position];
  HOCKET_RETURN_IF_ERROR(place.chunk.UnmapFrom(AddressOf(position)));
  place.arena_id = 0;
  Enter(place, next);
  return std::exchange(place.chunk, Chunk());
}

absl::StatusOr<Chunk> Region::Unmap(Position position) {
  const State state = places_[position].state;
  HOCKET_CHECK(state == State::kPrivate || state == State::kArena) << "state " << static_cast<int>(state);
  return TakeChunk(position, State::kEmpty);
}

absl::Status Region::Move(Position from, Position to) {
  Place& place = places_[from];
  HOCKET_CHECK(place.state == State::kPrivate || place.state == State::kArena)
      << "position " << from << " is in state " << static_cast<int>(place.state);
  HOCKET_CHECK(!place.copies.constant) << "the host has kept a copy of position " << from;
  HOCKET_RETURN_IF_ERROR(Map(to, place.chunk, place.arena_id));
  Vacate(from);
  return absl::OkStatus();
}

void Region::Vacate(Position from) {
  Place& place = places_[from];
  HOCKET_CHECK(place.state == State::kPrivate || place.state == State::kArena)
      << "position " << from << " is in state " << static_cast<int>(place.state);
  HOCKET_CHECK(!place.copies.constant) << "the host has kept a copy of position " << from;
  place.chunk = Chunk();
  place.arena_id = 0;
  place.vacated = true;
  Enter(place, State::kEmpty);
}

absl::Status Region::Clear(Position position) {
  Place& place = Require(position, State::kEmpty);
  HOCKET_CHECK(place.vacated) << "position " << position << " is not vacated";
  HOCKET_RETURN_IF_ERROR(driver_->Unmap(AddressOf(position), chunk_size_));
  place.vacated = false;
  return absl::OkStatus();
}

void Region::Adopt(Position position) {
  Place& place = Require(position, State::kArena);
  place.arena_id = 0;
  Enter(place, State::kPrivate);
}

template <typename Of, typename Function>
absl::Status Region::ForEachRun(Position first, Position count, Of of, Function f) {
  const Position end = first + count;
  while (first < end) {
    Position behind = first;
    while (behind < end && of(places_[behind])) ++behind;
    if (behind > first) HOCKET_RETURN_IF_ERROR(f(first, behind - first));
    first = behind + 1;
  }
  return absl::OkStatus();
}

absl::Status Region::TryMapCopies(Position first, Position count, bool may_write) {
  const auto can = [](const Place& place) { return place.copies.chunk() != nullptr && !place.copies.mapped; };
  return ForEachRun(first, count, can, [&](Position from, Position many) {
    std::vector<const Chunk*> chunks;
    for (Position i = 0; i < many; ++i) chunks.push_back(&places_[from + i].copies.chunk()->chunk());
    const bool read_only = !may_write && Chunk::MapRun(chunks, AddressOf(from), /*may_write=*/false).ok();
    if (!read_only) HOCKET_RETURN_IF_ERROR(Chunk::MapRun(chunks, AddressOf(from)));
    for (Position i = 0; i < many; ++i) {
      places_[from + i].copies.mapped = true;
      places_[from + i].copies.read_only = read_only;
    }
    to_unmap_ = std::min(to_unmap_, from);
    return absl::OkStatus();
  });
}

absl::Status Region::TryUnmapCopies(Position first, Position count) {
  const auto are = [](const Place& place) { return place.copies.mapped; };
  return ForEachRun(first, count, are, [this](Position from, Position many) {
    const Chunk& chunk = places_[from].copies.chunk()->chunk();
    HOCKET_RETURN_IF_ERROR(chunk.UnmapFrom(AddressOf(from), many * chunk_size_));
    for (Position i = 0; i < many; ++i)
      places_[from + i].copies.mapped = places_[from + i].copies.read_only = false;
    to_map_ = std::min(to_map_, from);
    return absl::OkStatus();
  });
}

absl::Status Region::MapCopies(Position first, Position count, bool may_write) {
  std::vector<Position> unmapped;
  for (Position position = first; position < first + count; ++position) {
    if (!places_[position].copies.mapped) unmapped.push_back(position);
  }
  const absl::Status mapped = TryMapCopies(first, count, may_write);
  for (const Position position : unmapped) {
    if (!mapped.ok()) (void)TryUnmapCopies(position, 1);
  }
  return mapped;
}

absl::Status Region::UnmapCopies(Position first, Position count) {
  const absl::Status unmapped = TryUnmapCopies(first, count);
  if (!unmapped.ok()) (void)TryMapCopies(first, count, /*may_write=*/true);
  return unmapped;
}

template <typename Of>
std::pair<Region::Position, Region::Position> Region::FindRun(Position first, Position at_most, Of of) const {
  const std::set<Position>& spilled = in_[static_cast<int>(State::kSpilled)];
  auto next = std::find_if(spilled.lower_bound(first), spilled.end(), of);
  const Position begin = next == spilled.end() ? positions() : *next;
  Position count = 0;
  while (count < at_most && next != spilled.end() && *next == begin + count && of(*next)) ++next, ++count;
  return {begin, count};
}

bool Region::MapSome(Position at_most, absl::FunctionRef<bool(Position)> may_write) {
  std::optional<bool> writable;  // as the first
  const auto waits = [&](Position position) {
    const Place& place = places_[position];
    if (place.copies.chunk() == nullptr || place.copies.mapped || place.arrival.chunk) return false;
    if (!writable) writable = may_write(position);
    return may_write(position) == *writable;
  };
  const auto [first, count] = FindRun(to_map_, at_most, waits);
  if (count > 0) (void)MapCopies(first, count, *writable);
  to_map_ = first + count;
  return count > 0;
}

bool Region::UnmapSome(Position at_most, absl::FunctionRef<bool(Position)> may) {
  const auto [first, count] = FindRun(to_unmap_, at_most, [&](Position position) {
    return places_[position].copies.mapped && !places_[position].arrival.chunk && may(position);
  });
  if (count > 0) (void)TryUnmapCopies(first, count);
  to_unmap_ = first + count;
  return count > 0;
}

absl::Status Region::FinishSpill(Position first, absl::Span<HostCopies> copies) {
  const auto count = static_cast<Position>(copies.size());
  for (Position i = 0; i < count; ++i) Require(first + i, State::kPrivate);
  HOCKET_RETURN_IF_ERROR(places_[first].chunk.UnmapFrom(AddressOf(first), count * chunk_size_));
  for (Position i = 0; i < count; ++i) {
    Place& place = places_[first + i];
    std::swap(place.copies, copies[i]);
    place.chunk = Chunk();
    Enter(place, State::kSpilled);
  }
  to_map_ = std::min(to_map_, first);
  return absl::OkStatus();
}

absl::Status Region::ForbidWrites(Position first, Position count) {
  const auto writable = [](const Place& place) { return place.copies.mapped && !place.copies.read_only; };
  return ForEachRun(first, count, writable, [this](Position from, Position many) {
    const Chunk& chunk = places_[from].copies.chunk()->chunk();
    if (!chunk.LetWriteAt(AddressOf(from), many * chunk_size_, false).ok()) return TryUnmapCopies(from, many);
    for (Position i = 0; i < many; ++i) places_[from + i].copies.read_only = true;
    return absl::OkStatus();
  });
}

absl::Status Region::StartArrival(Position first, absl::Span<Chunk> chunks) {
  const auto count = static_cast<Position>(chunks.size());
  std::vector<const Chunk*> arriving;
  for (Position i = 0; i < count; ++i) {
    Require(first + i, State::kSpilled);
    HOCKET_CHECK(arrival(first + i) == 0) << "position " << first + i << " has an arrival";
    arriving.push_back(&chunks[i]);
  }
  if (aliases_.size() == 0) {
    HOCKET_ASSIGN_OR_RETURN(aliases_, Range::Reserve(chunks[0].driver(), range_.size(), chunk_size_));
  }
  HOCKET_RETURN_IF_ERROR(Chunk::MapRun(arriving, aliases_.address() + first * chunk_size_));
  for (Position i = 0; i < count; ++i)
    places_[first + i].arrival = {.chunk = std::move(chunks[i]), .there = true};
  arrivals_ += count;
  (void)MapCopies(first, count, /*may_write=*/false);  // the program's own work may come too early
  const absl::Status forbidden = ForbidWrites(first, count);
  if (forbidden.ok()) return forbidden;
  for (Position i = 0; i < count; ++i) (void)AbandonArrival(first + i);
  return forbidden;
}

absl::Status Region::FinishArrival(Position first, absl::Span<const std::vector<Extent>> constant) {
  const auto count = static_cast<Position>(constant.size());
  std::vector<const Chunk*> chunks;
  for (Position i = 0; i < count; ++i) {
    const Arrival& arrival = Require(first + i, State::kSpilled).arrival;
    if (arrival.abandoned) return absl::InternalError("this arrival has been abandoned");
    HOCKET_CHECK(arrival.there) << "position " << first + i << " has no arrival";
    chunks.push_back(&arrival.chunk);
  }
  HOCKET_RETURN_IF_ERROR(chunks[0]->UnmapFrom(arrival(first), count * chunk_size_));
  for (Position i = 0; i < count; ++i) places_[first + i].arrival.there = false;
  HOCKET_RETURN_IF_ERROR(UnmapCopies(first, count));
  HOCKET_RETURN_IF_ERROR(Chunk::MapRun(chunks, AddressOf(first)));
  for (Position i = 0; i < count; ++i) {
    Place& place = places_[first + i];
    place.chunk = std::move(place.arrival.chunk);
    DropArrival(place);
    KeepConstant(place, constant[i]);
    Enter(place, State::kPrivate);
  }
  return absl::OkStatus();
}

absl::Status Region::AbandonArrival(Position position) {
  Place& place = Require(position, State::kSpilled);
  Arrival& arrival = place.arrival;
  arrival.abandoned = true;
  if (arrival.there) HOCKET_RETURN_IF_ERROR(arrival.chunk.UnmapFrom(this->arrival(position)));
  arrival.there = false;
  if (place.copies.read_only) {
    HOCKET_RETURN_IF_ERROR(place.copies.chunk()->chunk().LetWriteAt(AddressOf(position), chunk_size_, true));
    place.copies.read_only = false;
  }
  (void)MapCopies(position, 1);
  DropArrival(place);
  return absl::OkStatus();
}

void Region::DropArrival(Place& place) {
  place.arrival = Arrival();
  --arrivals_;
}

absl::Status Region::StartRestore(Position first, absl::Span<Chunk> chunks) {
  const auto count = static_cast<Position>(chunks.size());
  std::vector<const Chunk*> coming;
  for (Position i = 0; i < count; ++i) {
    Require(first + i, State::kSpilled);
    coming.push_back(&chunks[i]);
  }
  HOCKET_RETURN_IF_ERROR(UnmapCopies(first, count));
  const absl::Status mapped = Chunk::MapRun(coming, AddressOf(first));
  if (!mapped.ok()) (void)MapCopies(first, count);
  HOCKET_RETURN_IF_ERROR(mapped);
  for (Position i = 0; i < count; ++i) {
    places_[first + i].chunk = std::move(chunks[i]);
    Enter(places_[first + i], State::kRestoring);
  }
  return absl::OkStatus();
}

void Region::FinishRestore(Position position, const std::vector<Extent>& constant) {
  Place& place = Require(position, State::kRestoring);
  KeepConstant(place, constant);
  Enter(place, State::kPrivate);
}

void Region::KeepConstant(Place& place, const std::vector<Extent>& constant) {
  place.copies.changing = HostCopy();
  if (place.copies.constant.extents != constant) place.copies.constant = HostCopy();
}

absl::StatusOr<Chunk> Region::AbandonRestore(Position position) {
  Require(position, State::kRestoring);
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, TakeChunk(position, State::kSpilled));
  (void)MapCopies(position, 1);
  return chunk;
}

absl::Status Region::AbandonRestores() {
  while (!Positions(State::kRestoring).empty())
    HOCKET_RETURN_IF_ERROR(AbandonRestore(*Positions(State::kRestoring).begin()).status());
  return absl::OkStatus();
}

absl::Status Region::Forget(Position position) {
  if (state(position) == State::kRestoring)
    HOCKET_RETURN_IF_ERROR(TakeChunk(position, State::kSpilled).status());
  Place& place = Require(position, State::kSpilled);
  HOCKET_RETURN_IF_ERROR(UnmapCopies(position, 1));
  place.copies = HostCopies();
  Enter(place, State::kEmpty);
  return absl::OkStatus();
}

HostCopy Region::TakeKept(Position position, const std::vector<Extent>& constant) {
  Place& place = Require(position, State::kPrivate);
  HostCopy kept = std::exchange(place.copies.constant, HostCopy());
  return kept.extents == constant ? std::move(kept) : HostCopy();
}

void Region::DropKept(Position position) {
  if (places_[position].state == State::kPrivate) places_[position].copies = HostCopies();
}

bool Region::DropLastKept() {
  for (auto place = places_.rbegin(); place != places_.rend(); ++place) {
    if (place->state != State::kPrivate || !place->copies.constant) continue;
    place->copies = HostCopies();
    return true;
  }
  return false;
}

void Region::CheckInvariants() const {
  Bytes counts[5] = {}, arrivals = 0;
  Position position = 0;
  for (const Place& place : places_) {
    const State state = place.state;
    ++counts[static_cast<int>(state)];
    HOCKET_CHECK(state == State::kEmpty || Positions(state).contains(position))
        << "position " << position << " is not listed";
    const bool mapped = state != State::kEmpty && state != State::kSpilled;
    const bool copied = state == State::kSpilled || state == State::kRestoring;
    HOCKET_CHECK(static_cast<bool>(place.chunk) == mapped)
        << "position " << position << ": chunk and state disagree";
    HOCKET_CHECK((place.arena_id != 0) == (state == State::kArena)) << "position " << position;
    HOCKET_CHECK(!place.vacated || state == State::kEmpty)
        << "position " << position << " is vacated and in use";
    const HostCopies& copies = place.copies;
    HOCKET_CHECK(copied || !copies.changing) << "position " << position << " has a host copy";
    HOCKET_CHECK(copied || state == State::kPrivate || !copies.constant)
        << "position " << position << " has kept a host copy";
    for (const HostCopy* copy : {&copies.changing, &copies.constant}) {
      HOCKET_CHECK(static_cast<bool>(*copy) == !copy->extents.empty())
          << "position " << position << ": a host copy and its extents disagree";
    }
    HOCKET_CHECK(!copies.changing || !copies.constant || copies.changing.chunk == copies.constant.chunk)
        << "position " << position << ": its host copies lie in different chunks";
    HOCKET_CHECK(!copies.mapped || (copies.chunk() != nullptr && state == State::kSpilled))
        << "position " << position << ": its copies are mapped in state " << static_cast<int>(state);
    HOCKET_CHECK(copies.mapped || !copies.read_only)
        << "position " << position << ": nothing is mapped to be read";
    const Arrival& arrival = place.arrival;
    HOCKET_CHECK(!arrival.there || !copies.mapped || copies.read_only)
        << "position " << position << ": what is written there now is lost";
    HOCKET_CHECK(arrival.chunk || !arrival.there) << "position " << position << ": an arrival without memory";
    HOCKET_CHECK(!arrival.chunk || state == State::kSpilled)
        << "position " << position << " has an arrival in state " << static_cast<int>(state);
    arrivals += arrival.chunk ? 1 : 0;
    ++position;
  }
  HOCKET_CHECK(arrivals == arrivals_) << arrivals << " arrivals, counted " << arrivals_;
  for (int i = 0; i < 5; ++i) {
    HOCKET_CHECK(counts[i] == counts_[i]) << "state " << i;
    HOCKET_CHECK(in_[i].size() == (i == static_cast<int>(State::kEmpty) ? 0 : counts[i])) << "state " << i;
  }
}

}  // namespace hocket
