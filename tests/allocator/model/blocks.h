// What one job holds of an allocator, and what every byte of it must be: the reference of the model-based
// tests.
//
// Blocks lie in numbered slots. Bytes are written by kernels, in a stream's order, and a kernel on another
// stream waits for those before it that it must come behind. So check mode finds memory that is given out
// again too early, whether or not a byte was lost by it.
//
// Not thread-safe: a thread has one of its own.
#ifndef HOCKET_TESTS_ALLOCATOR_MODEL_BLOCKS_H_
#define HOCKET_TESTS_ALLOCATOR_MODEL_BLOCKS_H_

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "tests/allocator/emulated_gpu.h"

namespace hocket::testing {

// A slot of Blocks, and one of the streams.
using Slot = unsigned;
using StreamNumber = unsigned;
inline constexpr StreamNumber kStreams = 3;

// The streams 0 (the default one) to kStreams - 1 of this process's emulated device, each made once.
Stream StreamOf(StreamNumber number);

class Blocks {
 public:
  static constexpr Slot kSlots = 96;

  struct Block {
    DevicePtr address = 0;
    Bytes size = 0;
    std::uint64_t mark = 0;  // what the bytes repeat
    StreamNumber writer = 0;
    unsigned users = 0;  // streams, one bit each
    Stage stage = 0;
    std::shared_ptr<bool> written = nullptr;  // of a constant one: the promise is broken once it is true
  };

  // `allocator` is borrowed. No two that live at the same time may have the same `owner`: their bytes differ.
  Blocks(CachingAllocator& allocator, std::uint64_t owner) : allocator_(allocator), next_mark_(owner << 40) {}

  bool Has(Slot slot) const { return by_slot_[slot] != 0; }
  Slot FirstEmpty() const;  // kSlots: none
  const std::map<DevicePtr, std::pair<Slot, Block>>& by_address() const { return by_address_; }
  // Of all blocks, as the allocator counts.
  Bytes rounded_bytes() const { return rounded_bytes_; }

  // Whatever the allocator answers, with a block in `slot` if it is OK. REQUIRES: the slot is empty.
  absl::Status Malloc(Slot slot, Bytes size, StreamNumber stream);
  // A block that is the allocator's doing. REQUIRES: the slot is empty.
  void Add(Slot slot, DevicePtr address, Bytes size, StreamNumber stream);
  // The same in the other direction. Aborts if nobody has it.
  void Remove(DevicePtr address);

  // Below: do nothing, and say so by false, where the slot is empty.
  // REQUIRES, where bytes are touched: the job has the turn.
  bool Read(Slot slot, StreamNumber stream);
  bool Write(Slot slot, StreamNumber stream);
  bool Record(Slot slot, StreamNumber stream);
  // From now on its bytes do not change; a Write() says that they do, or lets it be noticed.
  bool Declare(Slot slot);
  // From now on it may follow when a turn begins: Write() waits for it, and Read() need not, if the driver
  // maps it for reading.
  bool SetStage(Slot slot, Stage stage);
  // `verify`: looks at the bytes first.
  bool Free(Slot slot, bool verify);
  bool Corrupt(Slot slot);
  // Read and written in no stream's order, while the job does not have the turn. REQUIRES: its bytes are on
  // the device, or its addresses map their copy.
  bool Stray(Slot slot, bool writes_what_follows);

  // Aborts, naming the first byte that is not what it must be.
  void VerifyAll() const;

 private:
  Block& At(Slot slot) { return by_address_.at(by_slot_[slot]).second; }
  void Use(Block& block, StreamNumber stream);
  std::uint64_t NextMark();
  void Fill(Block& block, StreamNumber stream);
  void EndPromise(Block& block);
  static void Verify(const Block& block);

  CachingAllocator& allocator_;
  std::uint64_t next_mark_;
  std::array<DevicePtr, kSlots> by_slot_ = {};
  std::map<DevicePtr, std::pair<Slot, Block>> by_address_;
  Bytes rounded_bytes_ = 0;
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_MODEL_BLOCKS_H_
