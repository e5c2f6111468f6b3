#include "tests/allocator/model/blocks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "allocator/block_map.h"
#include "csrc/base/check.h"

namespace hocket::testing {
namespace {

// Writes `mark` over and over.
void FillBytes(unsigned char* bytes, Bytes size, std::uint64_t mark) {
  Bytes filled = std::min<Bytes>(size, sizeof mark);
  std::memcpy(bytes, &mark, filled);
  for (; filled < size; filled += std::min(filled, size - filled)) {
    std::memcpy(bytes + filled, bytes, std::min(filled, size - filled));
  }
}

// Where the bytes are something else; `size`: nowhere. One comparison, which is all that a sanitizer watches.
Bytes FirstWrong(const unsigned char* bytes, Bytes size, std::uint64_t mark) {
  const Bytes head = std::min<Bytes>(size, sizeof mark);
  if (std::memcmp(bytes, &mark, head) == 0 && std::memcmp(bytes, bytes + head, size - head) == 0) return size;
  const auto* wanted = reinterpret_cast<const unsigned char*>(&mark);
  Bytes i = 0;
  while (i < size && bytes[i] == wanted[i % sizeof mark]) ++i;
  return i;
}

}  // namespace

Stream StreamOf(StreamNumber number) {
  static const std::array<Stream, kStreams> streams = [] {
    std::array<Stream, kStreams> made = {};
    EmulatedGpu::Get().UseContext();
    for (StreamNumber i = 1; i < kStreams; ++i) made[i] = *EmulatedGpu::Get().driver().CreateStream();
    return made;
  }();
  return streams[number];
}

Slot Blocks::FirstEmpty() const {
  return static_cast<Slot>(std::find(by_slot_.begin(), by_slot_.end(), 0) - by_slot_.begin());
}

absl::Status Blocks::Malloc(Slot slot, Bytes size, StreamNumber stream) {
  const absl::StatusOr<DevicePtr> address = allocator_.Malloc(size, StreamOf(stream));
  if (address.ok()) Add(slot, *address, size, stream);
  return address.status();
}

void Blocks::Add(Slot slot, DevicePtr address, Bytes size, StreamNumber stream) {
  HOCKET_CHECK(!Has(slot)) << "slot " << slot << " is taken";
  const auto next = by_address_.lower_bound(address);
  HOCKET_CHECK(next == by_address_.end() || address + size <= next->first)
      << size << " bytes given out at 0x" << std::hex << address << " overlap the block at 0x" << next->first;
  const auto overlaps = [&](const auto& before) {
    return before.first + before.second.second.size > address;
  };
  HOCKET_CHECK(next == by_address_.begin() || !overlaps(*std::prev(next)))
      << "0x" << std::hex << address << " was given out and lies in the block at 0x"
      << std::prev(next)->first;
  by_slot_[slot] = address;
  Block& block = by_address_.emplace(address, std::pair(slot, Block{address, size})).first->second.second;
  block.writer = stream;
  block.users = 1u << stream;
  rounded_bytes_ += RoundUp(size, kBlockUnit);
  Fill(block, stream);
}

void Blocks::Remove(DevicePtr address) {
  const auto found = by_address_.find(address);
  HOCKET_CHECK(found != by_address_.end()) << "0x" << std::hex << address << " was freed, and nobody has it";
  rounded_bytes_ -= RoundUp(found->second.second.size, kBlockUnit);
  by_slot_[found->second.first] = 0;
  by_address_.erase(found);
}

void Blocks::Use(Block& block, StreamNumber stream) {
  if ((block.users & (1u << stream)) == 0) allocator_.RecordStream(block.address, StreamOf(stream));
  block.users |= 1u << stream;
}

std::uint64_t Blocks::NextMark() {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // two marks differ in all of their bytes, most often
  return ++next_mark_ * kOdd;
}

void Blocks::Fill(Block& block, StreamNumber stream) {
  block.mark = NextMark();
  block.writer = stream;
  EmulatedGpu& gpu = EmulatedGpu::Get();
  gpu.RunKernel("writer", StreamOf(stream), block.address, block.size, /*writes=*/true,
                [&] { FillBytes(gpu.Host(block.address), block.size, block.mark); });
}

bool Blocks::Read(Slot slot, StreamNumber stream) {
  if (!Has(slot)) return false;
  Block& block = At(slot);
  EmulatedGpu& gpu = EmulatedGpu::Get();
  Use(block, stream);
  if (stream != block.writer) gpu.WaitForStream(StreamOf(stream), StreamOf(block.writer));
  gpu.RunKernel("reader", StreamOf(stream), block.address, block.size, /*writes=*/false,
                [&] { Verify(block); });
  return true;
}

bool Blocks::Write(Slot slot, StreamNumber stream) {
  if (!Has(slot)) return false;
  Block& block = At(slot);
  Use(block, stream);
  for (StreamNumber user = 0; user < kStreams; ++user) {
    if (user != stream && (block.users & (1u << user)) != 0) {
      EmulatedGpu::Get().WaitForStream(StreamOf(stream), StreamOf(user));
    }
  }
  EndPromise(block);
  const absl::Status there = allocator_.AwaitStage(block.stage, StreamOf(stream));
  HOCKET_CHECK(there.ok()) << there.message();
  Fill(block, stream);
  return true;
}

bool Blocks::Declare(Slot slot) {
  if (!Has(slot)) return false;
  Block& block = At(slot);
  if (!block.written) block.written = std::make_shared<bool>(false);
  const absl::StatusOr<Bytes> declared = allocator_.DeclareConstant(
      block.address,
      std::make_shared<Promise>(Promise{.name = "weights", .broken = [w = block.written] { return *w; }}));
  HOCKET_CHECK(declared.ok()) << declared.status().message();
  return true;
}

bool Blocks::SetStage(Slot slot, Stage stage) {
  if (!Has(slot)) return false;
  Block& block = At(slot);
  HOCKET_CHECK(allocator_.SetStage(block.address, stage).ok()) << "0x" << std::hex << block.address;
  block.stage = stage;
  return true;
}

void Blocks::EndPromise(Block& block) {
  if (!block.written) return;
  if (next_mark_ % 2 == 0) allocator_.EndConstant(block.address);
  *std::exchange(block.written, nullptr) = true;
}

bool Blocks::Record(Slot slot, StreamNumber stream) {
  if (!Has(slot)) return false;
  Use(At(slot), stream);
  return true;
}

bool Blocks::Free(Slot slot, bool verify) {
  if (!Has(slot)) return false;
  const DevicePtr address = by_slot_[slot];
  if (verify) Verify(At(slot));
  allocator_.Free(address);
  Remove(address);
  return true;
}

bool Blocks::Corrupt(Slot slot) {
  if (!Has(slot)) return false;
  const Block& block = At(slot);
  EmulatedGpu::Get().Host(block.address)[block.size / 2] ^= 1;
  return true;
}

bool Blocks::Stray(Slot slot, bool writes_what_follows) {
  if (!Has(slot)) return false;
  Block& block = At(slot);
  Verify(block);
  if (block.stage > 0 && !writes_what_follows) return true;
  if (block.written) *std::exchange(block.written, nullptr) = true;  // which is noticed
  block.mark = NextMark();
  FillBytes(EmulatedGpu::Get().Host(block.address), block.size, block.mark);
  return true;
}

void Blocks::VerifyAll() const {
  for (const auto& [address, held] : by_address_) Verify(held.second);
}

void Blocks::Verify(const Block& block) {
  const unsigned char* bytes = EmulatedGpu::Get().Host(block.address);
  const Bytes wrong = FirstWrong(bytes, block.size, block.mark);
  HOCKET_CHECK(wrong == block.size) << "of the " << block.size << " bytes at 0x" << std::hex << block.address
                                    << " byte " << std::dec << wrong << " is " << int{bytes[wrong]};
}

}  // namespace hocket::testing
