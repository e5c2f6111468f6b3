// Host memory for spilled bytes.
//
// Taken from the system in pieces (pinned once, when taken: pinning is slow and copies to pinned memory are
// not), given out in blocks, kept over the spill-and-restore cycles of a job that shares its device, and
// given back when no block has used them for a minute.
//
// A piece that the driver refuses to pin (the limit on locked memory, a container) is used as it is:
// copies are slower then, and right.
//
// Without a budget of its own it takes no more than is left free for all others, looked at again before it
// takes more: jobs that grow beside each other come to have equal parts, whoever was first has no more than
// half, and none of them fills the machine, however many they are.
//
// Where the driver can, host memory comes in chunks that can also be mapped at a device's addresses; each is
// kept and given back like a piece. A driver that refuses the first one is one that cannot.
//
// Not thread-safe: the allocator's lock guards it.
#ifndef HOCKET_ALLOCATOR_HOST_MEMORY_H_
#define HOCKET_ALLOCATOR_HOST_MEMORY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "allocator/handles.h"
#include "csrc/base/mutex.h"

namespace hocket {

class HostMemory;

// Owns bytes of a HostMemory, which must outlive it. Move-only.
class HostBlock {
 public:
  HostBlock() = default;
  HostBlock(HostBlock&& other) noexcept { *this = std::move(other); }
  HostBlock& operator=(HostBlock&& other) noexcept;
  ~HostBlock();

  explicit operator bool() const { return owner_ != nullptr; }
  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }

 private:
  friend class HostMemory;
  HostBlock(HostMemory& owner, std::byte* data, Bytes size) : owner_(&owner), data_(data), size_(size) {}

  HostMemory* owner_ = nullptr;
  std::byte* data_ = nullptr;
  Bytes size_ = 0;
};

// As above, a whole chunk, which can lie behind device addresses. Move-only.
class HostChunk {
 public:
  HostChunk() = default;
  HostChunk(HostChunk&& other) noexcept { *this = std::move(other); }
  HostChunk& operator=(HostChunk&& other) noexcept;
  // REQUIRES: it is mapped nowhere.
  ~HostChunk();

  explicit operator bool() const { return owner_ != nullptr; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(memory_.range.address()); }
  Bytes size() const { return memory_.chunk.size(); }

  // To be mapped at other addresses, too.
  const Chunk& chunk() const { return memory_.chunk; }

 private:
  friend class HostMemory;
  // Pinned host memory, and the addresses at which host and device reach it at all times.
  struct Memory {
    Range range;
    Chunk chunk;
  };
  HostChunk(HostMemory& owner, Memory memory) : owner_(&owner), memory_(std::move(memory)) {}

  HostMemory* owner_ = nullptr;
  Memory memory_;
};

class HostMemory {
 public:
  // What the machine and this process's memory group say is free now; kNoLimit: they say nothing.
  static Bytes FreeNow();
  // The same in words, with who says what.
  static std::string FreeNowInWords();

  // At most `budget` bytes are taken; 0: as many as `free_now` says are free besides. `driver` is borrowed
  // and must outlive this.
  HostMemory(const Driver& driver, Bytes budget, std::function<Bytes()> free_now = FreeNow);
  // REQUIRES: no block is left.
  ~HostMemory();

  // From now on asked where memory is short: gives one block back that is only good to have, or says false.
  void WhenShort(std::function<bool()> give_back) { give_back_ = std::move(give_back); }

  // kResourceExhausted: the budget or the machine's memory does not suffice; the message has the numbers.
  // A block of size 0 holds nothing.
  absl::StatusOr<HostBlock> Allocate(Bytes size);

  // From now on maps_chunks() says whether there are chunks of `size` for `device`.
  void MapChunks(int device, Bytes size);
  bool maps_chunks() const { return node_.has_value(); }
  // Errors as above. Where maps_chunks() is false afterwards, the driver could not do it after all. Needs the
  // device's context on the calling thread. REQUIRES: maps_chunks().
  absl::StatusOr<HostChunk> AllocateChunk();

  // To be called now and then. What nothing has used for kIdle is given back: at most one piece, or as much
  // in chunks, a call, because unpinning is slow. Needs the device's context on the calling thread.
  static constexpr Clock::duration kIdle = std::chrono::minutes(1);
  void ReturnIdle(Clock::time_point now);

  Bytes budget() const { return budget_; }  // as it was when more was taken last
  Bytes taken() const { return taken_; }    // from the system
  Bytes used() const { return used_; }      // in blocks and chunks
  Bytes pinned() const;                     // taken and pinned
  // How long taking it from the system, and pinning it, has taken since the start.
  Clock::duration taking() const { return taking_; }

  void CheckInvariants() const;

 private:
  friend class HostBlock;
  friend class HostChunk;
  struct Piece {
    Bytes size = 0;
    bool pinned = false;
    std::optional<Clock::time_point> idle_since;  // seen to be unused first, and not used since
    std::map<std::byte*, Bytes> free;             // by address, coalesced

    bool unused() const { return free.size() == 1 && free.begin()->second == size; }
  };
  using Pieces = std::map<std::byte*, Piece>;
  struct SpareChunk {
    HostChunk::Memory memory;
    std::optional<Clock::time_point> idle_since;
  };

  void Free(std::byte* data, Bytes size);
  void Free(HostChunk::Memory memory);
  void LookAtFree();
  // OK: so much more may be taken, if need be because all that is unused was given back.
  absl::Status MakeRoom(Bytes size);
  absl::Status Take(absl::FunctionRef<absl::Status()> from_system);
  absl::Status TakePiece(Bytes at_least);
  absl::Status TakeChunk();
  absl::StatusOr<HostChunk::Memory> CreateChunk() const;
  Pieces::iterator GiveBack(Pieces::iterator piece);
  // False: it cannot be unmapped now, and is as it was.
  bool GiveBack(SpareChunk& spare);
  // The first of those that `may`, together no more than it takes to come to `most`. What cannot be unmapped
  // stays, to be tried again.
  void GiveBackSpares(Bytes most, absl::FunctionRef<bool(const SpareChunk&)> may);
  void ReturnIdleChunks(Clock::time_point now);
  // The address of `size` bytes in the smallest free part that holds them; nullptr: none.
  std::byte* BestFit(Bytes size);

  const Driver& driver_;
  const bool shares_;  // there is no budget of its own
  const std::function<Bytes()> free_now_;
  Bytes budget_;
  Bytes looked_at_ = 0;  // taken_, when what is free was looked at
  std::function<bool()> give_back_ = [] { return false; };
  Bytes taken_ = 0;
  Bytes used_ = 0;
  Clock::duration taking_{0};
  Pieces pieces_;
  // Chunks: whose, how large, from which node of the host (none: the driver cannot), how many there are.
  int device_ = 0;
  Bytes chunk_size_ = 0;
  std::optional<int> node_;
  bool gave_chunk_ = false;  // it has been seen that the driver can
  Bytes chunks_ = 0;
  std::vector<SpareChunk> spares_;  // in no use; the one used last is last
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_HOST_MEMORY_H_
