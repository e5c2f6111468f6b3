#include "allocator/allocator_impl.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

// A forked child has no part in its parent's memory: the lock may be held by a thread that does not exist
// here, and the driver's state is not inherited.
std::atomic<bool> in_forked_child{false};

void WatchForks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
  (void)registered;
}

absl::Status ForkedChild() {
  return absl::FailedPreconditionError(
      "cannot allocate device memory in a forked child process.\n  Start it with the 'spawn' method "
      "instead.");
}

constexpr Bytes kMoreThanAnyDevice = Bytes{1} << 62;  // can be rounded up
constexpr std::size_t kMostWatched = 16;              // promises beside each other, all asked at each spill

// docs/decisions/0001-chunk-size.md
Bytes ChunkSizeFor(Bytes capacity, Bytes granularity) {
  constexpr Bytes kChunksPerDevice = 2048;
  const Bytes most = capacity < 96_GiB ? 8_MiB : 16_MiB;
  const Bytes size = std::bit_floor(std::max<Bytes>(1, capacity / kChunksPerDevice));
  return std::max(granularity, std::clamp<Bytes>(size, 2_MiB, most));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CachingAllocator>> CachingAllocator::Create(Driver& driver,
                                                                           const AllocatorOptions& options,
                                                                           Gate* gate) {
  return AllocatorImpl::Create(driver, options, gate);
}

absl::StatusOr<std::unique_ptr<CachingAllocator>> AllocatorImpl::Create(Driver& driver,
                                                                        const AllocatorOptions& options,
                                                                        Gate* gate) {
  WatchForks();
  HOCKET_RETURN_IF_ERROR(driver.CheckVirtualMemory(options.device));
  HOCKET_ASSIGN_OR_RETURN(const Bytes capacity, driver.DeviceCapacity(options.device));
  HOCKET_ASSIGN_OR_RETURN(const Bytes granularity, driver.Granularity(options.device));
  if (options.memory_limit > capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory limit of ", FormatBytes(options.memory_limit), ": device ", options.device,
                     " has ", FormatBytes(capacity), ".\n  Give a limit of at most that, or none."));
  }
  AllocatorOptions chosen = options;
  if (chosen.chunk_size == 0) chosen.chunk_size = ChunkSizeFor(capacity, granularity);
  if (!std::has_single_bit(chosen.chunk_size) || chosen.chunk_size % granularity != 0 ||
      chosen.chunk_size > capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk size of ", FormatBytes(chosen.chunk_size),
                     ": it must be a power of two, a multiple of the device's ", FormatBytes(granularity),
                     " and at most its ", FormatBytes(capacity), ".\n  Correct or unset HOCKET_CHUNK_SIZE."));
  }
  if (chosen.memory_limit == 0) chosen.memory_limit = capacity;
  HOCKET_ASSIGN_OR_RETURN(const ContextHandle context, driver.PrimaryContext(options.device));
  const InContext in_context(driver, context);
  HOCKET_RETURN_IF_ERROR(in_context.status());
  auto allocator = std::unique_ptr<AllocatorImpl>(new AllocatorImpl(driver, chosen, gate, context, capacity));
  HOCKET_RETURN_IF_ERROR(allocator->Reserve(options.verify));
  return allocator;
}

AllocatorImpl::AllocatorImpl(Driver& driver, const AllocatorOptions& options, Gate* gate,
                             ContextHandle context, Bytes capacity)
    : driver_(driver),
      gate_(gate),
      context_(context),
      device_(options.device),
      capacity_(capacity),
      shares_arena_(options.shares_arena && gate != nullptr),
      serves_segments_(options.serves_segments),
      shed_cache_(options.shed_cache),
      chunk_size_(options.chunk_size),
      host_(std::make_unique<HostMemory>(driver, options.host_budget)),
      pacer_(driver, context, options.clock),
      verifies_(options.verify),
      pending_(driver),
      headroom_(gate == nullptr ? 0 : options.headroom),
      told_limit_(options.memory_limit),
      own_limit_(capacity),
      limit_(options.memory_limit) {}

absl::Status AllocatorImpl::Reserve(bool verify) {
  // Twice what can ever lie there, so that holes do not make addresses scarce.
  const auto positions = static_cast<Position>(
      std::min(2 * (capacity_ / chunk_size_ + 1), FreeList::kMostAddresses / chunk_size_));
  HOCKET_ASSIGN_OR_RETURN(persistent_, Space::Reserve(driver_, chunk_size_, positions));
  HOCKET_ASSIGN_OR_RETURN(transient_, Space::Reserve(driver_, chunk_size_, positions));
  host_->MapChunks(device_, chunk_size_);
  host_->WhenShort([this] { return DropKept(); });
  Verifier::ConstantAt constant_at;
  if (verify) {
    constant_at = [this](DevicePtr address) ABSL_NO_THREAD_SAFETY_ANALYSIS { return ConstantAt(address); };
  }
  HOCKET_ASSIGN_OR_RETURN(spiller_, Spiller::Create(driver_, *host_, std::move(constant_at)));
  return absl::OkStatus();
}

AllocatorImpl::~AllocatorImpl() {
  (void)WaitForDevice();
  const InContext in_context(driver_, context_);
  vacated_passed_.reset();
  persistent_.reset();
  transient_.reset();
  spiller_.reset();
  host_.reset();
}

bool AllocatorImpl::InForkedChild() { return in_forked_child; }

absl::StatusOr<DevicePtr> AllocatorImpl::Malloc(Bytes size, Stream stream) {
  if (size == 0) return DevicePtr{0};
  if (in_forked_child) return ForkedChild();
  Request request;
  request.asked = size;
  request.size = RoundUp(std::min(size, kMoreThanAnyDevice), kBlockUnit);
  request.stream = serves_segments_ ? kAnyStream : stream;
  if (pacer_.On() && !serves_segments_ && HoldsTurn() && !Capturing()) {
    pacer_.Pace(request.size, stream, gate_);
  }
  for (;;) {
    if (!HoldsTurn()) HOCKET_RETURN_IF_ERROR(gate_->AwaitTurn());
    bool turn_lost = false;
    absl::StatusOr<DevicePtr> block = Attempt(request, &turn_lost);
    if (turn_lost) continue;
    if (block.ok() || block.status().code() != absl::StatusCode::kResourceExhausted) return block;
    if (gate_ == nullptr || request.over_limit || request.last_resort) {
      return OutOfMemory(request, block.status(), absl::OkStatus());
    }
    if (shed_cache_ && !std::exchange(request.has_shed, true)) {
      shed_cache_();  // no other job is moved for what nothing here uses
      continue;
    }
    const absl::Status room = gate_->AwaitRoom(request.missing);
    if (room.ok()) {
      MutexLock lock(&mutex_);
      headroom_.Renew();
      continue;
    }
    if (room.code() != absl::StatusCode::kResourceExhausted) return room;  // interrupted
    request.last_resort = true;
    block = Attempt(request, &turn_lost);
    if (turn_lost) {
      request.last_resort = false;  // in the next turn there may be room
      continue;
    }
    if (block.ok() || block.status().code() != absl::StatusCode::kResourceExhausted) return block;
    return OutOfMemory(request, block.status(), room);
  }
}

absl::StatusOr<DevicePtr> AllocatorImpl::Attempt(Request& request, bool* turn_lost) {
  MutexLock lock(&mutex_);
  *turn_lost = !HoldsTurn();
  if (*turn_lost) return DevicePtr{0};
  if (Capturing()) ForgetFailedCaptures();
  if (!pending_.empty() && !Capturing()) {
    pending_.Poll([this](DevicePtr block) ABSL_NO_THREAD_SAFETY_ANALYSIS { FreeNow(block); });
  }
  if (request.space == nullptr) Decide(request);
  HOCKET_ASSIGN_OR_RETURN(Block * block, Place(request));
  block->requested = request.asked;
  block->birth = request.birth;
  CountAllocated(*block);
  if (survivors_.InStep() && survivors_.IsOfThisStep(block->birth)) BornBeside(*block) += block->size;
  return block->address;
}

void AllocatorImpl::Decide(Request& request) {
  for (auto open = open_pools_.rbegin(); open != open_pools_.rend(); ++open) {
    if (!open->filter(request.stream)) continue;
    request.space = persistent_.get();
    request.pool = open->index;
    return;
  }
  if (serves_segments_) {
    request.space = persistent_.get();
    return;
  }
  request.birth = survivors_.Allocated(request.size, request.stream);
  const Plan::Answer planned = AskPlan(request.size, request.stream);
  bool survives = planned.survives;
  if (planned.known) {
    survivors_.SkipPrediction();
  } else {
    survives = survivors_.Predict(request.size, request.stream);
  }
  if (survivors_.InStep() && survivors_.known_allocations() == 0) {
    request.fit = Fit::kLowest;
    survives |= LooksPersistent(request.size);
  }
  request.planned = planned.block;
  request.deviates = planned.deviates;
  if (planned.at_home) {
    request.planned = TakeHome(request);
    request.deviates = request.planned == nullptr;
    totals_.lodged_allocations += request.planned != nullptr && !survives ? 1 : 0;
  }
  totals_.step_allocations += survivors_.InStep() ? 1 : 0;
  totals_.planned_allocations += request.planned != nullptr ? 1 : 0;
  totals_.deviating_allocations += request.deviates ? 1 : 0;
  request.space = survives ? persistent_.get() : transient_.get();
}

bool AllocatorImpl::LooksPersistent(Bytes size) {
  constexpr int kForEach = 3;  // a gradient, and Adam's two averages
  if (look_alikes_.empty()) {
    for (const auto& [address, block] : persistent_->blocks().blocks()) {
      if (block.state == Block::State::kAllocated) look_alikes_[block.size] += kForEach;
    }
  }
  const auto found = look_alikes_.find(size);
  if (found == look_alikes_.end() || found->second == 0) return false;
  --found->second;
  return true;
}

absl::StatusOr<Block*> AllocatorImpl::Place(Request& request) {
  if (request.planned != nullptr) return std::exchange(request.planned, nullptr);
  absl::StatusOr<Block*> block = PlaceInCache(request);
  if (block.ok() || block.status().code() != absl::StatusCode::kResourceExhausted || Capturing())
    return block;
  ++stats_.num_alloc_retries;
  EndLease();
  block = PlaceInCache(request);
  if (block.ok() || block.status().code() != absl::StatusCode::kResourceExhausted) return block;
  FreeCache();
  return PlaceInCache(request);
}

absl::StatusOr<Block*> AllocatorImpl::PlaceInCache(Request& request) {
  Block* block = request.space->blocks().Allocate(request.size, request.stream, request.pool, request.fit);
  if (block != nullptr) return block;
  if (request.deviates && request.space == transient_.get() && plan_ != nullptr) {
    EndLease();
    return PlaceInCache(request);
  }
  HOCKET_RETURN_IF_ERROR(Grow(request));
  block = request.space->blocks().Allocate(request.size, request.stream, request.pool, request.fit);
  HOCKET_CHECK(block != nullptr) << "no place for " << request.size << " bytes after growing";
  return block;
}

absl::Status AllocatorImpl::Grow(Request& request) {
  const auto growth = request.space->blocks().PlanGrowth(request.size, request.stream, request.pool);
  std::vector<Position> gathered;
  if (growth && request.space == transient_.get()) gathered = GatherableFor(*growth, request.stream);
  const Stream order = gathered.empty() && growth ? growth->stream : request.stream;
  request.over_limit = !growth || Reserved() + (growth->count - gathered.size()) * chunk_size_ > limit_;
  if (request.over_limit) return AtTheLimit();
  const InContext in_context(driver_, context_);
  for (Position i = 0; i < growth->count; ++i) {
    request.missing = (growth->count - i) * chunk_size_;
    const Position position = growth->first + i;
    if (request.space == transient_.get()) {
      HOCKET_RETURN_IF_ERROR(BackTransient(position, order, gathered));
    } else {
      HOCKET_ASSIGN_OR_RETURN(Chunk chunk, NewPrivateChunk(request.last_resort));
      HOCKET_RETURN_IF_ERROR(persistent_->Back(position, chunk, request.pool, order));
    }
    CountReserved();
  }
  if (request.pool != 0) CountPools();
  return absl::OkStatus();
}

absl::Status AllocatorImpl::AtTheLimit() const {
  if (own_limit_ < told_limit_)
    return absl::ResourceExhaustedError(absl::StrCat(
        "the limit that this program has set itself (per_process_memory_fraction) is ", FormatBytes(limit_)));
  if (!limit_together_.empty() && limit_ < capacity_)
    return absl::ResourceExhaustedError(
        absl::StrCat(limit_together_, ": that leaves this one ", FormatBytes(limit_)));
  return absl::ResourceExhaustedError(absl::StrCat(
      limit_ < capacity_ ? "this job's limit is " : "the whole device has ", FormatBytes(limit_)));
}

absl::Status AllocatorImpl::BackTransient(Position position, Stream stream, std::vector<Position>& gathered) {
  Arena::Member* member = arena_.FirstFree();
  if (member == nullptr) {
    if (Gather(gathered, position, stream)) return absl::OkStatus();
    // Whoever asked whether the limit allows it has counted on what could not be gathered.
    if (Reserved() + chunk_size_ > limit_) return AtTheLimit();
    return BackWithNewArenaChunk(position, stream);
  }
  HOCKET_RETURN_IF_ERROR(transient_->Back(position, member->chunk, 0, stream, member->id));
  arena_.Place(*member, position);
  return absl::OkStatus();
}

absl::Status AllocatorImpl::BackWithNewArenaChunk(Position position, Stream stream) {
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, NewChunk());
  absl::StatusOr<UniqueFd> descriptor = shares_arena_ ? chunk.Export() : UniqueFd();
  // Without a descriptor nobody else can use the chunk: it is this job's own then.
  const ArenaChunkId id = descriptor.ok() ? Arena::NewId() : 0;
  HOCKET_RETURN_IF_ERROR(transient_->Back(position, chunk, 0, stream, id));
  if (id == 0) return absl::OkStatus();
  arena_.Add(id, Chunk(), /*created_here=*/true);
  arena_.Place(*arena_.Find(id), position);
  if (shares_arena_) gate_->ArenaGrew(id, chunk_size_, *std::move(descriptor));
  return absl::OkStatus();
}

absl::StatusOr<Chunk> AllocatorImpl::NewChunk() {
  absl::StatusOr<Chunk> chunk = Chunk::Create(driver_, device_, chunk_size_);
  if (chunk.ok()) AskForHeadroom(chunk_size_);
  return chunk;
}

void AllocatorImpl::AskForHeadroom(Bytes taken) {
  const Bytes lacking = headroom_.LackingAfter(taken, [this] { return DeviceFree(); });
  if (lacking > 0) gate_->LacksHeadroom(lacking);
}

bool AllocatorImpl::ArenaCanSpare() {
  constexpr std::size_t kWorthAWait = 16;  // one part in so many
  if (steps_ended_ >= kFirstSteps || !survivors_.InStep() || plan_ != nullptr) return false;
  if (arena_.LastFree() == nullptr) {
    const std::size_t empty = transient_->EmptyPositions(Region::State::kArena).size();
    if (empty == 0 || empty * kWorthAWait < arena_.size() || Capturing() || !WaitForDevice().ok())
      return false;
    AllStreamsPassed();
  }
  // What others have made they need again.
  return ArenaHasFree() && arena_.LastFree()->created_here;
}

// What is kept from the first steps on, an optimizer's state for the most part, is born when much of the step
// is gone: where its memory comes from the arena, the job never holds both at once.
absl::StatusOr<Chunk> AllocatorImpl::NewPrivateChunk(bool any_of_arena) {
  if (ArenaCanSpare()) return TakeFromArena();
  absl::StatusOr<Chunk> chunk = NewChunk();
  if (chunk.ok() || chunk.status().code() != absl::StatusCode::kResourceExhausted) return chunk;
  const bool may_take = any_of_arena || ArenaSurplus() > 0;
  if (!may_take || arena_.LastFree() == nullptr) return chunk;
  return TakeFromArena();
}

void AllocatorImpl::FreeCache() {
  ++stats_.num_sync_all_streams;
  if (!WaitForDevice().ok()) return;  // the device is lost: nothing can be given back
  const InContext in_context(driver_, context_);
  EndLease();
  AllStreamsPassed();
  ReleaseEmptyPrivate(*persistent_);
  ReleaseEmptyPrivate(*transient_);
  UnplaceEmptyArena();
  CountReserved();
}

void AllocatorImpl::AllStreamsPassed(Clock::duration patience) {
  pending_.Finish([this](DevicePtr block) ABSL_NO_THREAD_SAFETY_ANALYSIS { FreeNow(block); }, patience);
  ClearVacated();
  persistent_->blocks().ForgetStreamOrder();
  transient_->blocks().ForgetStreamOrder();
}

std::vector<AllocatorImpl::Position> AllocatorImpl::Releasable(const Space& space) const {
  std::vector<Position> positions = space.EmptyPositions(Region::State::kPrivate);
  std::erase_if(positions, [&](Position position) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !PoolIsReleased(space.blocks().pool(position));
  });
  return positions;
}

void AllocatorImpl::ReleaseEmptyPrivate(Space& space) {
  // A chunk that cannot be unmapped now is tried again the next time.
  for (const Position position : Releasable(space)) (void)space.Unback(position);
}

void AllocatorImpl::UnplaceEmptyArena() {
  for (const Position position : transient_->EmptyPositions(Region::State::kArena)) {
    const ArenaChunkId id = transient_->region().arena_id(position);
    absl::StatusOr<Chunk> chunk = transient_->Unback(position);
    if (chunk.ok()) arena_.Return(id, *std::move(chunk));
  }
}

void AllocatorImpl::EmptyCache() {
  if (in_forked_child) return;
  MutexLock lock(&mutex_);
  if (!Capturing()) FreeCache();
}

Space& AllocatorImpl::SpaceOf(DevicePtr address) const {
  return transient_->region().Contains(address) ? *transient_ : *persistent_;
}

Block* AllocatorImpl::FindBlock(DevicePtr address) const {
  if (plan_ != nullptr) {
    if (Block* block = plan_->Find(address)) return block;
  }
  return SpaceOf(address).blocks().Find(address);
}

void AllocatorImpl::Free(DevicePtr address) {
  if (address == 0 || in_forked_child) return;
  MutexLock lock(&mutex_);
  Block* block = FindBlock(address);
  HOCKET_CHECK(block != nullptr && block->address == address && block->state == Block::State::kAllocated)
      << "free of 0x" << std::hex << address
      << ", which is not a block in use; the block around it starts at 0x"
      << (block == nullptr ? 0 : block->address);
  CountFreed(*block);
  if (serves_segments_) return FreeSegment(*block);
  if (survivors_.InStep() && survivors_.IsOfThisStep(block->birth)) BornBeside(*block) -= block->size;
  survivors_.Freed(block->birth, address);
  if (!look_alikes_.empty() && block->birth.step > 0 && !transient_->region().Contains(address)) {
    ++look_alikes_[block->size];
  }
  if (block->used_on.empty() && used_elsewhere_.empty()) return FreeNow(address);
  FreeAfterStreams(*block);
}

// Until the device is done its bytes may be in use.
void AllocatorImpl::FreeSegment(Block& segment) {
  segment.state = Block::State::kPending;
  pending_.Hold(segment.address);
  if (!Capturing()) FreeCache();
}

void AllocatorImpl::FreeNow(DevicePtr address) {
  Block* block = FindBlock(address);
  CountInactive(*block);
  if (plan_ != nullptr && plan_->Owns(block)) return plan_->Free(block);
  SpaceOf(address).Free(block);
  CountReserved();  // the last block of a spilled chunk takes the host copy with it
}

void AllocatorImpl::RecordStream(DevicePtr address, Stream stream) {
  if (address == 0 || in_forked_child) return;
  MutexLock lock(&mutex_);
  Block* block = FindBlock(address);
  HOCKET_CHECK(block != nullptr && block->state == Block::State::kAllocated)
      << "record_stream of 0x" << std::hex << address << ", which is not a block in use";
  if (stream == block->stream) return;
  auto& used_on = block->used_on;
  if (std::find(used_on.begin(), used_on.end(), stream) == used_on.end()) used_on.push_back(stream);
}

// The two ranges are constant: no lock.
bool AllocatorImpl::Owns(DevicePtr address) const {
  return persistent_->region().Contains(address) || transient_->region().Contains(address);
}

absl::StatusOr<std::pair<DevicePtr, Bytes>> AllocatorImpl::BlockOf(DevicePtr address) const {
  if (Owns(address)) {
    MutexLock lock(&mutex_);
    const Block* block = FindBlock(address);
    if (block == nullptr && plan_ != nullptr) block = plan_->Around(address);
    if (block != nullptr) return std::pair(block->address, block->size);
  }
  return absl::NotFoundError(absl::StrCat("no block of ours contains 0x", absl::Hex(address)));
}

absl::StatusOr<BlockSnapshot> AllocatorImpl::LiveBlock(DevicePtr address) const {
  if (Owns(address)) {
    MutexLock lock(&mutex_);
    const Block* const block = FindBlock(address);
    if (block != nullptr && block->state == Block::State::kAllocated && block->address == address)
      return BlockSnapshot{address, block->size, block->requested, /*allocated=*/true, /*active=*/true};
  }
  return absl::NotFoundError(absl::StrCat("no block of ours begins at 0x", absl::Hex(address)));
}

bool AllocatorImpl::IsSpilled(DevicePtr address, Bytes size) const {
  if (size == 0 || !Owns(address) || !Owns(address + size - 1)) return false;
  MutexLock lock(&mutex_);
  const Region& region = SpaceOf(address).region();
  const Position last = region.PositionOf(address + size - 1);
  for (Position position = region.PositionOf(address); position <= last; ++position) {
    if (region.state(position) == Region::State::kSpilled) return true;
  }
  return false;
}

// --- constant memory (promise.h) ------------------------------------------------------------------------

absl::StatusOr<Bytes> AllocatorImpl::DeclareConstant(DevicePtr address,
                                                     std::shared_ptr<const Promise> promise) {
  if (serves_segments_) {
    return absl::UnimplementedError(
        "memory cannot be declared constant under PyTorch's own allocator, which gives freed memory of a "
        "segment to other tensors without telling Hocket: all of it is copied to the host at each spill.\n"
        "  Use Hocket's allocator: unset HOCKET_ALLOCATOR, and import hocket before the first use of the "
        "GPU.");
  }
  MutexLock lock(&mutex_);
  Block* const block = FindInSpace(address);
  if (block == nullptr)
    return absl::NotFoundError(absl::StrCat("no block of ours is at 0x", absl::Hex(address)));
  const bool all_of_it = address == block->address && promise->size == block->requested;
  if (promise->size != 0 && !all_of_it) {
    return absl::InvalidArgumentError(absl::StrCat(
        promise->name, " has ", FormatBytes(promise->size), " of memory that was allocated as ",
        FormatBytes(block->requested), ": what is in the rest of it was not promised to stay what it is.\n",
        "  Declare the tensor that it was made from, or a copy: tensor.clone()"));
  }
  if (block->promise == nullptr || block->promise->Broken()) {
    SpaceOf(address).BeginConstant(*block, std::move(promise));
    return block->size;
  }
  std::size_t watchers = 1;
  for (const Promise* given = block->promise.get(); given != nullptr; given = given->besides.get()) {
    if (promise->watched == nullptr || given->watched == promise->watched) return block->size;
    ++watchers;
  }
  if (watchers > kMostWatched) {
    SpaceOf(address).EndConstant(*block);
    return absl::FailedPreconditionError(
        absl::StrCat(promise->name, " was declared constant through ", watchers,
                     " tensors whose writes are counted apart (each `.data` makes one), and ", kMostWatched,
                     " can be watched: it is copied to the host at each spill again.\n",
                     "  Declare the tensor itself, once."));
  }
  const auto both = std::make_shared<Promise>(*promise);
  both->besides = block->promise;
  SpaceOf(address).BeginConstant(*block, both);  // who has the other tensor may have written until now
  return block->size;
}

void AllocatorImpl::EndConstant(DevicePtr address) {
  MutexLock lock(&mutex_);
  if (Block* const block = FindInSpace(address)) SpaceOf(address).EndConstant(*block);
}

Block* AllocatorImpl::FindInSpace(DevicePtr address) {
  if (!Owns(address)) return nullptr;
  if (plan_ != nullptr && plan_->Around(address) != nullptr) EndLease();
  return SpaceOf(address).blocks().Find(address);
}

std::string AllocatorImpl::ConstantAt(DevicePtr address) const {
  const Block* const block = FindBlock(address);
  if (block == nullptr || block->promise == nullptr) return "memory that is not so declared any more";
  return absl::StrCat(block->promise->name, ", ", block->size, " bytes from 0x", absl::Hex(block->address),
                      " on");
}

bool AllocatorImpl::DropKept() {
  return persistent_->region().DropLastKept() || transient_->region().DropLastKept();
}

void AllocatorImpl::SetMemoryLimit(Bytes limit, const std::string& together) {
  MutexLock lock(&mutex_);
  limit_together_ = together;
  told_limit_ = std::min(limit, capacity_);
  limit_ = std::min(told_limit_, own_limit_);
}

void AllocatorImpl::SetOwnLimit(Bytes limit) {
  MutexLock lock(&mutex_);
  own_limit_ = std::min(limit, capacity_);
  limit_ = std::min(told_limit_, own_limit_);
}

Bytes AllocatorImpl::MemoryLimit() const {
  MutexLock lock(&mutex_);
  return limit_;
}

}  // namespace hocket
