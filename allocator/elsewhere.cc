// Streams of other devices that blocks are recorded on (record_stream): a program may copy between its
// devices on either one's stream. Nothing that waits for this device waits for them.
#include <algorithm>

#include "allocator/allocator_impl.h"
#include "csrc/base/check.h"
#include "csrc/base/status_macros.h"

namespace hocket {

absl::Status AllocatorImpl::RecordStreamOf(int device, DevicePtr address, Stream stream) {
  if (InForkedChild()) return absl::OkStatus();
  if (device == device_ || address == 0) {
    RecordStream(address, stream);
    return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  const Block* const block = FindBlock(address);
  HOCKET_CHECK(block != nullptr && block->state == Block::State::kAllocated)
      << "record_stream of 0x" << std::hex << address << ", which is not a block in use";
  ContextHandle& context = other_contexts_[device];
  if (context == nullptr) {
    HOCKET_ASSIGN_OR_RETURN(context, driver_.PrimaryContext(device));
  }
  std::vector<StreamElsewhere>& streams = used_elsewhere_[block->address];
  const StreamElsewhere used{context, stream};
  if (std::find(streams.begin(), streams.end(), used) == streams.end()) streams.push_back(used);
  return absl::OkStatus();
}

void AllocatorImpl::FreeAfterStreams(Block& block) {
  const DevicePtr address = block.address;
  std::vector<StreamElsewhere> elsewhere;
  if (const auto found = used_elsewhere_.find(address); found != used_elsewhere_.end()) {
    elsewhere = std::move(found->second);
    used_elsewhere_.erase(found);
  }
  if (block.used_on.empty() && elsewhere.empty()) return FreeNow(address);
  block.state = Block::State::kPending;
  const InContext in_context(driver_, context_);
  pending_.AddElsewhere(address, elsewhere, /*now=*/!Capturing());
  if (block.used_on.empty()) return;
  if (Capturing()) return pending_.Hold(address);
  pending_.Add(address, block.used_on);
}

absl::Status AllocatorImpl::AwaitElsewhere(Clock::duration patience) {
  const Clock::time_point begin = Clock::now();
  for (const auto& [address, streams] : used_elsewhere_) {
    for (const StreamElsewhere& used : streams) {
      HOCKET_ASSIGN_OR_RETURN(const bool done,
                              hocket::AwaitElsewhere(driver_, used, LeftOf(patience, begin)));
      if (!done) return UsedElsewhere();
    }
  }
  return absl::OkStatus();
}

absl::Status AllocatorImpl::UsedElsewhere() {
  return absl::FailedPreconditionError("work of another device uses memory of this one");
}

}  // namespace hocket
