// Empty chunks of the transient region are gathered where memory is needed (docs/decisions/0038).
//
// A region that has served blocks of many sizes has empty chunks here and there, and no run of them that is
// long enough. Addresses cost nothing, chunks do: so before the region takes further chunks, its empty ones
// are mapped again where they are needed.
//
//   positions   |aaa|   |bb |   |cc |   |...           d needs three chunks: one is created
//                     2       4       6
//               |aaa| - |bb | - |cc | 2 | 4 | new |    -: vacated
//
// Nothing is waited for. What is queued may still use the old addresses, on the stream that the new block is
// for: that is the order in which the memory would have been used again where it was. So a vacated position
// reaches its chunk, too, until the device has passed, and is not used meanwhile.
#include <algorithm>

#include "allocator/allocator_impl.h"

namespace hocket {
namespace {

// Of a region's positions, of which half can be backed at once: then the device is waited for.
constexpr Region::Position kVacatedPart = 4;

// A loop whose steps never come as foreseen would gather in each of them. So moves are paid for: an arena may
// be gathered whole four times at first, and a thirty-second of it in each step from then on.
constexpr std::size_t kOnCredit = 4, kPaidInAStep = 32;
constexpr std::size_t kSmallArena = 64;  // chunks

}  // namespace

std::vector<AllocatorImpl::Position> AllocatorImpl::Gatherable(Stream stream, std::size_t most,
                                                               absl::FunctionRef<bool(Position)> stays) {
  const std::size_t credit = kOnCredit * (arena_.size() + kSmallArena);
  most = std::min(most, credit - std::min(credit, gathered_unpaid_));
  if (most == 0 || Capturing()) return {};
  std::vector<std::pair<Bytes, Position>> found;  // with the size of the free memory that each lies in
  const BlockMap& blocks = transient_->blocks();
  for (const Region::State state : {Region::State::kArena, Region::State::kPrivate}) {
    for (const Position position : transient_->EmptyPositions(state)) {
      if (stays(position) || !blocks.IsFreeFor(position, stream)) continue;
      found.emplace_back(blocks.FreeBlockAt(transient_->region().AddressOf(position)).size, position);
    }
  }
  if (!found.empty() && !MayVacate()) return {};
  // Short runs first: the long ones may serve as they are.
  std::sort(found.begin(), found.end());
  if (found.size() > most) found.resize(most);
  std::vector<Position> positions;
  for (const auto& [size, position] : found) positions.push_back(position);
  return positions;
}

std::vector<AllocatorImpl::Position> AllocatorImpl::GatherableFor(const BlockMap::Growth& growth,
                                                                  Stream stream) {
  const auto [begin, end] = transient_->blocks().Reach(growth, stream, 0);
  const Region& region = transient_->region();
  const auto stays = [&, begin = begin, end = end](Position position) {
    return region.AddressOf(position) < end && begin < region.AddressOf(position + 1);
  };
  const std::size_t free = arena_.free_chunks();
  return Gatherable(stream, growth.count - std::min<std::size_t>(growth.count, free), stays);
}

bool AllocatorImpl::Gather(std::vector<Position>& gathered, Position to, Stream stream) {
  if (gathered.empty()) return false;
  const Position from = gathered.back();
  gathered.pop_back();
  const ArenaChunkId id = transient_->region().arena_id(from);
  if (!transient_->Move(from, to, stream).ok()) return false;
  if (id != 0) arena_.Find(id)->position = to;
  ++gathered_unpaid_;
  totals_.gathered_total += chunk_size_;
  return true;
}

bool AllocatorImpl::MayVacate() {
  if (transient_->vacated().size() < transient_->region().positions() / kVacatedPart) return true;
  if (!WaitForDevice().ok()) return false;
  const InContext in_context(driver_, context_);
  ClearVacated();
  return transient_->vacated().empty();
}

void AllocatorImpl::ClearVacated() {
  vacated_passed_.reset();
  transient_->ClearVacated();
}

void AllocatorImpl::PayForGathering() {
  gathered_unpaid_ -= std::min(gathered_unpaid_, arena_.size() / kPaidInAStep + 1);
}

void AllocatorImpl::PollVacated() {
  if (transient_->vacated().empty() || !HoldsTurn() || Capturing()) return;
  const InContext in_context(driver_, context_);
  if (vacated_passed_ == nullptr) {
    vacated_before_ = transient_->vacated().size();
    vacated_passed_ = std::make_unique<ScopedEvent>(driver_);
    if (!vacated_passed_->RecordOn(context_).ok()) vacated_passed_.reset();
  }
  if (vacated_passed_ == nullptr || !vacated_passed_->DoneWithin({}).value_or(false)) return;
  vacated_passed_.reset();
  transient_->ClearVacated(vacated_before_);
}

}  // namespace hocket
