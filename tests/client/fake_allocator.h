// A device's memory as numbers: what the client asks of an allocator, recorded, with every answer settable.
#ifndef HOCKET_TESTS_CLIENT_FAKE_ALLOCATOR_H_
#define HOCKET_TESTS_CLIENT_FAKE_ALLOCATOR_H_

#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"

namespace hocket {

class FakeAllocator : public CachingAllocator {
 public:
  explicit FakeAllocator(Bytes persistent = 100) : persistent_(persistent) {}

  // Settings; the gate is needed by Malloc() only.
  Gate* gate = nullptr;
  std::atomic<bool> idle{true};
  std::atomic<bool> failed{false};  // a kernel has
  std::atomic<bool> capturing{false};
  std::atomic<bool> maps_spilled{true};
  std::atomic<bool> has_stages{false};
  std::atomic<int> unmapped{0};   // calls of MapSpilled() that find something
  std::atomic<int> mapped{0};     // and of UnmapSpilled() that do then
  std::atomic<int> mappings{0};   // calls of MapSpilled() that have found something
  std::atomic<Bytes> missing{0};  // TakeTurn() lacks so much, each time, until it is 0
  std::atomic<Bytes> free_ahead{std::numeric_limits<Bytes>::max()};  // RestoreAhead() finds so much room
  std::atomic<bool> fail_ahead{false};  // RestoreAhead() fails when that is used up
  std::atomic<Bytes> chunk{0};
  std::atomic<bool> taken_for_step{false};  // the last turn
  std::atomic<bool> fail_spill{false};
  std::atomic<bool> fail_spill_after_part{false};
  std::atomic<std::uint64_t> host_taking_ns_a_part{0};
  std::atomic<Bytes> empty{0};  // of each part that moves: nothing is alive there, and nothing is copied
  std::atomic<Bytes> device_free{0};
  std::atomic<Bytes> lacking_headroom{0};
  std::atomic<Bytes> most_held{0};
  std::atomic<Bytes> most_transient{0};
  std::vector<ArenaChunkId> arena = {7, 8};  // not to be changed while the job may be asked for it
  std::atomic<Bytes> lacking{0};             // Malloc() lacks so much room, each time, until it is 0

  // As the real one: asks the gate, and looks again with the lock held.
  absl::StatusOr<DevicePtr> Malloc(Bytes size, Stream stream) override {
    for (;;) {
      if (!gate->HoldsTurn()) {
        const absl::Status turn = gate->AwaitTurn();
        if (!turn.ok()) return turn;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      if (!gate->HoldsTurn()) continue;
      if (lacking > 0) {
        lock.unlock();
        const absl::Status room = gate->AwaitRoom(lacking);
        if (!room.ok()) return room;
        continue;
      }
      if (spilled_ > 0) ++touched_while_spilled_;
      persistent_ += size;
      return DevicePtr{1};
    }
  }

  void BeginStep() override { Record("begin step"); }
  void EndStep() override { Record("end step"); }
  absl::Status Drain() override {
    const absl::Status status = NoCapture();
    Hear("drain");
    Record("drain");
    return status;
  }
  absl::Status DrainLocked() override {
    Hear("drain locked");
    Record("drain");
    return NoCapture();
  }
  bool IsIdle() override { return idle && !capturing; }
  std::string LastingError() const override { return failed ? "CUDA_ERROR_ASSERT (710)" : ""; }
  bool Capturing() const override { return capturing; }
  void Lock() override { mutex_.lock(); }
  void Unlock() override { mutex_.unlock(); }

  absl::Status TakeTurn(bool for_step, Bytes* short_of) override {
    Hear("take turn");
    taken_for_step = for_step;
    std::lock_guard<std::mutex> lock(mutex_);
    *short_of = missing;
    if (missing > 0) return absl::ResourceExhaustedError("full");
    restored_total_ += spilled_;
    persistent_ += std::exchange(spilled_, 0);
    Record("take turn");
    return absl::OkStatus();
  }
  absl::StatusOr<Bytes> RestoreAhead(Bytes at_most) override {
    Hear("restore ahead");
    std::lock_guard<std::mutex> lock(mutex_);
    const Bytes back = std::min({at_most, spilled_, free_ahead.load()});
    spilled_ -= back;
    persistent_ += back;
    restored_total_ += back - std::min<Bytes>(back, empty);
    strays_ += idle ? 0 : 1;
    Record("restore ahead");
    if (fail_ahead) return absl::InternalError("a copy failed");
    return back;
  }
  void PassTurn() override { Record("pass turn"); }
  void SetPace(std::chrono::nanoseconds most_queued) override {
    Record("pace " + std::to_string(most_queued.count()) + " ns");
  }

  bool MapSpilled() override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (unmapped == 0) return false;
    --unmapped;
    ++mapped;
    ++mappings;
    Record("map");
    return true;
  }
  bool UnmapSpilled() override {
    Hear("unmap");
    std::lock_guard<std::mutex> lock(mutex_);
    if (mapped == 0) return false;
    --mapped;
    ++unmapped;
    Record("unmap");
    return true;
  }
  void ExpectStrays(bool expected) override { Record(expected ? "expect strays" : "expect no strays"); }

  absl::StatusOr<Bytes> SpillInParts(Bytes wanted, const SpillParts& parts) override {
    Hear("spill");
    std::lock_guard<std::mutex> lock(mutex_);
    Bytes given_back = 0;
    if (!idle || capturing) {
      strays_ += capturing ? 0 : 1;
      return absl::FailedPreconditionError("the device works for a thread that Hocket has not seen before");
    }
    while (given_back < wanted && persistent_ > 0) {
      if (fail_spill) break;
      Bytes moved = std::min(wanted - given_back, persistent_);
      if (parts.size > 0) moved = std::min(moved, parts.size);
      persistent_ -= moved;
      spilled_ += moved;
      spilled_total_ += moved - std::min<Bytes>(moved, empty);
      host_taking_ns_ += host_taking_ns_a_part;
      given_back += moved;
      if (parts.told) parts.told(given_back, HeldLocked());
      if (fail_spill_after_part) fail_spill = true;
    }
    if (fail_spill) return absl::ResourceExhaustedError("the host budget of 0 B is used up");
    Record("spill");
    return given_back;
  }

  absl::Status AddArenaChunk(ArenaChunkId id, Bytes size, UniqueFd descriptor) override {
    Hear("add");
    Record("add " + std::to_string(id) + (descriptor ? "" : " without a descriptor"));
    return absl::OkStatus();
  }
  void DropArenaChunk(ArenaChunkId id) override { Record("drop " + std::to_string(id)); }
  void DropWholeArena() override {
    Hear("drop all");
    Record("drop all");
  }
  void LeaveArena() override { DropWholeArena(); }
  void ExportArena(absl::Span<const ArenaChunkId> chunks, bool descriptors,
                   absl::FunctionRef<void(ArenaChunkId, Bytes, UniqueFd)> announce) override {
    for (ArenaChunkId id : chunks.empty() ? absl::MakeConstSpan(arena) : chunks)
      announce(id, Bytes{64}, descriptors ? UniqueFd(eventfd(0, EFD_CLOEXEC)) : UniqueFd());
  }

  std::optional<Bytes> DeviceFree() const override { return Bytes{device_free}; }
  Bytes LackingHeadroom() const override { return lacking_headroom; }
  Holdings Held() const override {
    Hear("held");
    std::lock_guard<std::mutex> lock(mutex_);
    return HeldLocked();
  }

  // From now on called at the begin of some calls, on their thread: "drain", "drain locked", "take turn",
  // "restore ahead", "unmap", "spill", "add", "drop all" and "held".
  using Hook = std::function<void(const std::string& call)>;
  void SetHook(Hook hook) {
    std::lock_guard<std::mutex> lock(log_mutex_);
    hook_ = std::move(hook);
  }

  // What was called, in order, without the calls of `Held` and the questions.
  std::vector<std::string> TakeLog() {
    std::lock_guard<std::mutex> lock(log_mutex_);
    return std::exchange(log_, {});
  }
  int touched_while_spilled() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return touched_while_spilled_;
  }

  // Of no interest to the client.
  void Free(DevicePtr) override {}
  absl::Status RecordStreamOf(int, DevicePtr, Stream) override { return absl::OkStatus(); }
  void RecordStream(DevicePtr, Stream) override {}
  void EmptyCache() override {}
  void RecordSegments(bool) override {}
  std::vector<SegmentChange> TakeSegmentChanges() override { return {}; }
  bool Owns(DevicePtr) const override { return false; }
  absl::StatusOr<BlockSnapshot> LiveBlock(DevicePtr) const override { return absl::NotFoundError("none"); }
  absl::StatusOr<std::pair<DevicePtr, Bytes>> BlockOf(DevicePtr) const override {
    return absl::NotFoundError("none");
  }
  bool IsSpilled(DevicePtr, Bytes) const override { return false; }
  absl::StatusOr<Bytes> DeclareConstant(DevicePtr, std::shared_ptr<const Promise>) override {
    return absl::NotFoundError("none");
  }
  void EndConstant(DevicePtr) override {}
  absl::StatusOr<Bytes> SetStage(DevicePtr, Stage) override { return absl::NotFoundError("none"); }
  bool HasStages() const override { return has_stages; }
  absl::Status AwaitStage(Stage, Stream) override { return absl::OkStatus(); }
  void BeginAllocateToPool(PoolId, std::function<bool(Stream)>, bool, Stream) override {}
  void EndAllocateToPool(PoolId) override {}
  void ReleasePool(PoolId) override {}
  PoolId PoolOf(DevicePtr) const override { return {}; }
  absl::StatusOr<PoolCheckpoint> CheckpointPool(PoolId) const override { return absl::NotFoundError("none"); }
  absl::StatusOr<PoolDelta> ReturnToCheckpoint(const PoolCheckpoint&) override {
    return absl::NotFoundError("none");
  }
  DeviceStats Stats() const override { return {}; }
  void ResetPeakStats() override {}
  void ResetAccumulatedStats() override {}
  Usage InUse() const override { return {}; }
  std::vector<SegmentSnapshot> Snapshot() const override { return {}; }
  void SetMemoryLimit(Bytes limit, const std::string& together) override {
    Record("limit " + std::to_string(limit) + (together.empty() ? "" : ": " + together));
  }
  void SetOwnLimit(Bytes) override {}
  Bytes MemoryLimit() const override { return 0; }
  Bytes LargestFree() const override { return 0; }
  void CheckInvariants() const override {}

 private:
  Holdings HeldLocked() const {
    return {.persistent = persistent_,
            .spilled = spilled_,
            .chunk = chunk,
            .most_held = most_held,
            .most_transient = most_transient,
            .spilled_total = spilled_total_,
            .restored_total = restored_total_,
            .host_taking_ns = host_taking_ns_,
            .strays = strays_,
            .maps_spilled = maps_spilled};
  }
  absl::Status NoCapture() const {
    return capturing ? absl::FailedPreconditionError("a CUDA graph is being captured") : absl::OkStatus();
  }
  void Hear(const std::string& call) const {
    Hook hook;
    {
      std::lock_guard<std::mutex> lock(log_mutex_);
      hook = hook_;
    }
    if (hook) hook(call);
  }
  void Record(std::string what) {
    std::lock_guard<std::mutex> lock(log_mutex_);
    log_.push_back(std::move(what));
  }

  mutable std::mutex log_mutex_;
  Hook hook_;
  std::vector<std::string> log_;
  mutable std::mutex mutex_;  // what Lock() locks
  Bytes persistent_;
  Bytes spilled_ = 0;
  Bytes spilled_total_ = 0;
  std::uint64_t host_taking_ns_ = 0;
  Bytes restored_total_ = 0;
  std::uint64_t strays_ = 0;
  int touched_while_spilled_ = 0;
};

}  // namespace hocket

#endif  // HOCKET_TESTS_CLIENT_FAKE_ALLOCATOR_H_
