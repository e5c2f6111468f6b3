#include "allocator/region.h"

#include <utility>

#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {

absl::StatusOr<Region> Region::Reserve(const Driver& driver, Bytes chunk_size, Position positions) {
  HOCKET_ASSIGN_OR_RETURN(Range range, Range::Reserve(driver, chunk_size * positions, chunk_size));
  return Region(std::move(range), chunk_size, positions);
}

Region::~Region() {
  for (Position position = 0; position < positions(); ++position) {
    if (places_[position].chunk) (void)places_[position].chunk.UnmapFrom(AddressOf(position));
    Arrival& arrival = places_[position].arrival;
    if (arrival.there) (void)arrival.chunk.UnmapFrom(this->arrival(position));
    (void)UnmapCopy(position);
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
  place.state = state;
}

absl::Status Region::Map(Position position, Chunk& chunk, ArenaChunkId id) {
  Place& place = Require(position, State::kEmpty);
  HOCKET_CHECK(chunk.size() == chunk_size_) << chunk.size() << " != " << chunk_size_;
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

void Region::Adopt(Position position) {
  Place& place = Require(position, State::kArena);
  place.arena_id = 0;
  Enter(place, State::kPrivate);
}

absl::Status Region::MapCopy(Position position) {
  HostCopies& copies = places_[position].copies;
  const HostChunk* const chunk = copies.chunk();
  if (chunk == nullptr) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(chunk->MapAt(AddressOf(position)));
  copies.mapped = true;
  return absl::OkStatus();
}

absl::Status Region::UnmapCopy(Position position) {
  HostCopies& copies = places_[position].copies;
  if (!copies.mapped) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(copies.chunk()->UnmapFrom(AddressOf(position)));
  copies.mapped = false;
  return absl::OkStatus();
}

// Where the copies cannot be mapped the chunk goes back behind its addresses. Where that fails too, they are
// left with nothing behind them: the bytes are safe, and only a stray access is not.
absl::Status Region::FinishSpill(Position position, HostCopies& copies) {
  Place& place = Require(position, State::kPrivate);
  HOCKET_RETURN_IF_ERROR(place.chunk.UnmapFrom(AddressOf(position)));
  std::swap(place.copies, copies);
  const absl::Status mapped = MapCopy(position);
  if (!mapped.ok() && place.chunk.MapAt(AddressOf(position)).ok()) {
    std::swap(place.copies, copies);
    return mapped;
  }
  place.chunk = Chunk();
  Enter(place, State::kSpilled);
  return absl::OkStatus();
}

absl::Status Region::ForbidWrites(Position position) {
  const HostCopies& copies = places_[position].copies;
  if (!copies.mapped || copies.chunk()->LetWriteAt(AddressOf(position), false).ok()) return absl::OkStatus();
  return UnmapCopy(position);
}

absl::Status Region::StartArrival(Position position, Chunk chunk) {
  Place& place = Require(position, State::kSpilled);
  HOCKET_CHECK(arrival(position) == 0) << "position " << position << " has an arrival";
  if (aliases_.size() == 0) {
    HOCKET_ASSIGN_OR_RETURN(aliases_, Range::Reserve(chunk.driver(), range_.size(), chunk_size_));
  }
  HOCKET_RETURN_IF_ERROR(chunk.MapAt(aliases_.address() + position * chunk_size_));
  place.arrival = {.chunk = std::move(chunk), .there = true};
  ++arrivals_;
  const absl::Status forbidden = ForbidWrites(position);
  if (!forbidden.ok()) (void)AbandonArrival(position);
  return forbidden;
}

absl::Status Region::FinishArrival(Position position, const std::vector<Extent>& constant) {
  Place& place = Require(position, State::kSpilled);
  Arrival& arrival = place.arrival;
  HOCKET_CHECK(arrival.there) << "position " << position << " has no arrival";
  HOCKET_RETURN_IF_ERROR(arrival.chunk.UnmapFrom(this->arrival(position)));
  arrival.there = false;
  HOCKET_RETURN_IF_ERROR(UnmapCopy(position));
  HOCKET_RETURN_IF_ERROR(arrival.chunk.MapAt(AddressOf(position)));
  place.chunk = std::move(arrival.chunk);
  DropArrival(place);
  KeepConstant(place, constant);
  Enter(place, State::kPrivate);
  return absl::OkStatus();
}

absl::Status Region::AbandonArrival(Position position) {
  Place& place = Require(position, State::kSpilled);
  Arrival& arrival = place.arrival;
  if (arrival.there) HOCKET_RETURN_IF_ERROR(arrival.chunk.UnmapFrom(this->arrival(position)));
  arrival.there = false;
  if (place.copies.mapped)
    HOCKET_RETURN_IF_ERROR(place.copies.chunk()->LetWriteAt(AddressOf(position), true));
  if (!place.copies.mapped) (void)MapCopy(position);
  DropArrival(place);
  return absl::OkStatus();
}

void Region::DropArrival(Place& place) {
  place.arrival = Arrival();
  --arrivals_;
}

absl::Status Region::StartRestore(Position position, Chunk& chunk) {
  Place& place = Require(position, State::kSpilled);
  HOCKET_RETURN_IF_ERROR(UnmapCopy(position));
  const absl::Status mapped = chunk.MapAt(AddressOf(position));
  if (!mapped.ok()) (void)MapCopy(position);
  HOCKET_RETURN_IF_ERROR(mapped);
  place.chunk = std::move(chunk);
  Enter(place, State::kRestoring);
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
  (void)MapCopy(position);
  return chunk;
}

absl::Status Region::Forget(Position position) {
  Place& place = Require(position, State::kSpilled);
  HOCKET_RETURN_IF_ERROR(UnmapCopy(position));
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
    const bool mapped = state != State::kEmpty && state != State::kSpilled;
    const bool copied = state == State::kSpilled || state == State::kRestoring;
    HOCKET_CHECK(static_cast<bool>(place.chunk) == mapped)
        << "position " << position << ": chunk and state disagree";
    HOCKET_CHECK((place.arena_id != 0) == (state == State::kArena)) << "position " << position;
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
    const Arrival& arrival = place.arrival;
    HOCKET_CHECK(arrival.chunk || !arrival.there) << "position " << position << ": an arrival without memory";
    HOCKET_CHECK(!arrival.chunk || state == State::kSpilled)
        << "position " << position << " has an arrival in state " << static_cast<int>(state);
    arrivals += arrival.chunk ? 1 : 0;
    ++position;
  }
  HOCKET_CHECK(arrivals == arrivals_) << arrivals << " arrivals, counted " << arrivals_;
  for (int i = 0; i < 5; ++i) HOCKET_CHECK(counts[i] == counts_[i]) << "state " << i;
}

}  // namespace hocket
