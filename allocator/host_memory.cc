#include "allocator/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "allocator/memory_group.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {
namespace {

constexpr Bytes kAlignment = 512;
constexpr Bytes kPage = 4096;
constexpr Bytes kPiece = Bytes{256} << 20;
constexpr Bytes kUnknown = Bytes{4} << 30;  // the budget where nobody says what is free

// In bytes; kNoLimit: the kernel does not say.
Bytes MachineFree() {
  const std::optional<Bytes> kib = NumberAfter("/proc/meminfo", "MemAvailable:");
  return kib ? *kib << 10 : kNoLimit;
}

}  // namespace

HostBlock& HostBlock::operator=(HostBlock&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostBlock::~HostBlock() {
  if (owner_ != nullptr) owner_->Free(data_, size_);
}

HostChunk& HostChunk::operator=(HostChunk&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(memory_, other.memory_);
  return *this;
}

HostChunk::~HostChunk() {
  if (owner_ != nullptr) owner_->Free(std::move(memory_));
}

HostMemory::HostMemory(const Driver& driver, Bytes budget, std::function<Bytes()> free_now)
    : driver_(driver), shares_(budget == 0), free_now_(std::move(free_now)), budget_(budget) {
  if (shares_) LookAtFree();
}

HostMemory::~HostMemory() {
  HOCKET_CHECK(used_ == 0) << used_ << " bytes of spilled memory are left";
  for (auto piece = pieces_.begin(); piece != pieces_.end();) piece = GiveBack(piece);
  for (SpareChunk& spare : spares_) (void)GiveBack(spare);
}

Bytes HostMemory::FreeNow() { return std::min(MachineFree(), FreeInMemoryGroup()); }

std::string HostMemory::FreeNowInWords() {
  const auto said = [](Bytes free) {
    return free == kNoLimit ? std::string("does not say") : absl::StrCat("has ", FormatBytes(free), " free");
  };
  return absl::StrCat("this machine (/proc/meminfo) ", said(MachineFree()),
                      ", this process's memory group (cgroup) ", said(FreeInMemoryGroup()));
}

void HostMemory::LookAtFree() {
  looked_at_ = taken_;
  const Bytes free = free_now_();
  budget_ =
      free == kNoLimit ? std::max(taken_, kUnknown) : taken_ + (free > taken_ ? (free - taken_) / 2 : 0);
}

absl::Status HostMemory::Take(absl::FunctionRef<absl::Status()> from_system) {
  const Clock::time_point begin = Clock::now();
  absl::Status taken = from_system();
  taking_ += Clock::now() - begin;
  return taken;
}

absl::StatusOr<HostBlock> HostMemory::Allocate(Bytes size) {
  size = RoundUp(size, kAlignment);
  if (size == 0) return HostBlock();
  std::byte* data = BestFit(size);
  while (data == nullptr) {
    const absl::Status taken = Take([&] { return TakePiece(size); });
    if (!taken.ok() && !give_back_()) return taken;
    data = BestFit(size);
    HOCKET_CHECK(data != nullptr || !taken.ok()) << "a fresh piece does not hold " << size;
  }
  used_ += size;
  return HostBlock(*this, data, size);
}

std::byte* HostMemory::BestFit(Bytes size) {
  Piece* best = nullptr;
  std::map<std::byte*, Bytes>::iterator fit;
  for (auto& [start, piece] : pieces_) {
    for (auto part = piece.free.begin(); part != piece.free.end(); ++part) {
      if (part->second < size || (best != nullptr && part->second >= fit->second)) continue;
      best = &piece;
      fit = part;
    }
  }
  if (best == nullptr) return nullptr;
  const auto [data, length] = *fit;
  best->free.erase(fit);
  if (length > size) best->free.emplace(data + size, length - size);
  best->idle_since.reset();
  return data;
}

absl::Status HostMemory::MakeRoom(Bytes size) {
  if (shares_ && (size > budget_ - taken_ || taken_ >= looked_at_ + kPiece)) LookAtFree();
  if (size <= budget_ - taken_) return absl::OkStatus();
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    piece = piece->second.unused() ? GiveBack(piece) : std::next(piece);
  }
  GiveBackSpares(kNoLimit, [](const SpareChunk&) { return true; });
  if (size <= budget_ - taken_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot spill ", FormatBytes(size), " to host memory: ", FormatBytes(used_),
                   " of this job's ", FormatBytes(budget_),
                   shares_ ? " (as many as are left free for others)" : "", " for spilled data are in use, ",
                   FormatBytes(taken_), " are taken", shares_ ? absl::StrCat("; ", FreeNowInWords()) : "",
                   ".\n  Raise HOCKET_HOST_BUDGET, or let fewer jobs share the device."));
}

absl::Status HostMemory::TakePiece(Bytes at_least) {
  at_least = RoundUp(at_least, kPage);
  HOCKET_RETURN_IF_ERROR(MakeRoom(at_least));
  const Bytes size = std::min(RoundDown(budget_ - taken_, kPage), std::max(at_least, kPiece));
  void* start =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot take ", FormatBytes(size), " of host memory for spilled data: ", std::strerror(errno), "; ",
        FormatBytes(taken_), " of this job's ", FormatBytes(budget_), " are taken.\n",
        "  Raise the limit on this process's addresses (ulimit -v), or let fewer jobs share the device."));
  }
  // A forked child must not copy pages that the device writes.
  madvise(start, size, MADV_DONTFORK);
  madvise(start, size, MADV_HUGEPAGE);
  auto* data = static_cast<std::byte*>(start);
  Piece piece;
  piece.size = size;
  piece.pinned = driver_.RegisterHost(start, size).ok();
  piece.free.emplace(data, size);
  pieces_.emplace(data, std::move(piece));
  taken_ += size;
  return absl::OkStatus();
}

HostMemory::Pieces::iterator HostMemory::GiveBack(Pieces::iterator piece) {
  if (piece->second.pinned) (void)driver_.UnregisterHost(piece->first);
  munmap(piece->first, piece->second.size);
  taken_ -= piece->second.size;
  return pieces_.erase(piece);
}

void HostMemory::Free(std::byte* data, Bytes size) {
  used_ -= size;
  auto& free = std::prev(pieces_.upper_bound(data))->second.free;
  auto [part, inserted] = free.emplace(data, size);
  HOCKET_CHECK(inserted) << "host memory freed twice";
  if (auto next = std::next(part); next != free.end() && data + size == next->first) {
    part->second += next->second;
    free.erase(next);
  }
  if (part == free.begin()) return;
  if (auto before = std::prev(part); before->first + before->second == data) {
    before->second += part->second;
    free.erase(part);
  }
}

// --- chunks ---------------------------------------------------------------------------------------------

void HostMemory::MapChunks(int device, Bytes size) {
  const absl::StatusOr<int> node = driver_.NodeToMap(device, size);
  device_ = device;
  chunk_size_ = size;
  if (node.ok()) node_ = *node;
}

absl::StatusOr<HostChunk> HostMemory::AllocateChunk() {
  while (spares_.empty()) {
    const absl::Status taken = Take([&] { return TakeChunk(); });
    if (!taken.ok() && !give_back_()) return taken;
  }
  HostChunk::Memory memory = std::move(spares_.back().memory);
  spares_.pop_back();
  used_ += chunk_size_;
  return HostChunk(*this, std::move(memory));
}

absl::Status HostMemory::TakeChunk() {
  HOCKET_RETURN_IF_ERROR(MakeRoom(chunk_size_));
  absl::StatusOr<HostChunk::Memory> memory = CreateChunk();
  if (!memory.ok() && !gave_chunk_) node_.reset();
  HOCKET_RETURN_IF_ERROR(memory.status());
  gave_chunk_ = true;
  spares_.push_back({*std::move(memory), std::nullopt});
  ++chunks_;
  taken_ += chunk_size_;
  return absl::OkStatus();
}

absl::StatusOr<HostChunk::Memory> HostMemory::CreateChunk() const {
  HOCKET_ASSIGN_OR_RETURN(Range range, Range::Reserve(driver_, chunk_size_, chunk_size_));
  HOCKET_ASSIGN_OR_RETURN(Chunk chunk, Chunk::CreateOnHost(driver_, device_, *node_, chunk_size_));
  HOCKET_RETURN_IF_ERROR(chunk.MapAt(range.address()));
  const absl::Status reached = driver_.LetHostAccess(range.address(), chunk_size_, *node_);
  if (!reached.ok()) (void)chunk.UnmapFrom(range.address());
  HOCKET_RETURN_IF_ERROR(reached);
  return HostChunk::Memory{std::move(range), std::move(chunk)};
}

void HostMemory::Free(HostChunk::Memory memory) {
  used_ -= chunk_size_;
  spares_.push_back({std::move(memory), std::nullopt});
}

bool HostMemory::GiveBack(SpareChunk& spare) {
  if (!spare.memory.chunk.UnmapFrom(spare.memory.range.address()).ok()) return false;
  spare.memory = HostChunk::Memory();
  taken_ -= chunk_size_;
  --chunks_;
  return true;
}

void HostMemory::GiveBackSpares(Bytes most, absl::FunctionRef<bool(const SpareChunk&)> may) {
  std::vector<SpareChunk> stay;
  Bytes bytes = 0;
  for (SpareChunk& spare : spares_) {
    if (bytes < most && may(spare) && GiveBack(spare)) {
      bytes += chunk_size_;
    } else {
      stay.push_back(std::move(spare));
    }
  }
  spares_ = std::move(stay);
}

void HostMemory::ReturnIdleChunks(Clock::time_point now) {
  for (SpareChunk& spare : spares_) {
    if (!spare.idle_since) spare.idle_since = now;
  }
  // Those that were not used for the longest stand first.
  GiveBackSpares(kPiece, [&](const SpareChunk& spare) { return now - *spare.idle_since >= kIdle; });
}

void HostMemory::ReturnIdle(Clock::time_point now) {
  ReturnIdleChunks(now);
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
    Piece& p = piece->second;
    if (!p.unused()) {
      p.idle_since.reset();
    } else if (!p.idle_since) {
      p.idle_since = now;
    } else if (now - *p.idle_since >= kIdle) {
      GiveBack(piece);
      return;
    }
  }
}

Bytes HostMemory::pinned() const {
  Bytes sum = 0;
  for (const auto& [start, piece] : pieces_) sum += piece.pinned ? piece.size : 0;
  return sum + chunks_ * chunk_size_;
}

void HostMemory::CheckInvariants() const {
  HOCKET_CHECK(spares_.size() <= chunks_) << spares_.size() << " spare chunks of " << chunks_;
  Bytes taken = chunks_ * chunk_size_;
  Bytes free = spares_.size() * chunk_size_;
  for (const auto& [start, piece] : pieces_) {
    taken += piece.size;
    const std::byte* end = nullptr;
    for (const auto& [data, size] : piece.free) {
      HOCKET_CHECK(data >= start && data + size <= start + piece.size)
          << "a free part lies outside its piece";
      HOCKET_CHECK(end == nullptr || data > end) << "free parts touch or overlap";
      end = data + size;
      free += size;
    }
  }
  HOCKET_CHECK(taken == taken_ && taken_ <= budget_) << taken << ", " << taken_ << ", " << budget_;
  HOCKET_CHECK(taken - free == used_) << taken << " - " << free << " != " << used_;
}

}  // namespace hocket
