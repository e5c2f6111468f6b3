// A job as the allocator's tests play it: every call is followed by a check of the invariants.
#ifndef HOCKET_TESTS_ALLOCATOR_JOB_H_
#define HOCKET_TESTS_ALLOCATOR_JOB_H_

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "csrc/base/check.h"
#include "tests/allocator/emulated_gpu.h"

namespace hocket::testing {

inline constexpr Bytes kChunk = 2_MiB;
inline constexpr Bytes kEverything = ~Bytes{0};

// One job on the emulated device. Checks the allocator's invariants after every call.
class Job {
 public:
  explicit Job(AllocatorOptions options = {}) {
    if (options.chunk_size == 0) options.chunk_size = kChunk;
    if (options.host_budget == 0) options.host_budget = 1_GiB;
    auto made = CachingAllocator::Create(EmulatedGpu::Get().driver(), options, &gate);
    HOCKET_CHECK(made.ok()) << made.status().message();
    allocator = *std::move(made);
  }

  absl::StatusOr<DevicePtr> TryMalloc(Bytes size, Stream stream = nullptr) {
    auto block = allocator->Malloc(size, stream);
    allocator->CheckInvariants();
    return block;
  }
  DevicePtr Malloc(Bytes size, Stream stream = nullptr) {
    const auto block = TryMalloc(size, stream);
    HOCKET_CHECK(block.ok()) << block.status().message();
    return *block;
  }
  void Free(DevicePtr block) {
    allocator->Free(block);
    allocator->CheckInvariants();
  }
  void PassTurn() {
    HOCKET_CHECK(allocator->Drain().ok()) << "no drain";
    allocator->Lock();
    allocator->PassTurn();
    gate.holds_turn = false;
    allocator->Unlock();
    allocator->CheckInvariants();
  }
  absl::Status TakeTurn(bool for_step, Bytes* missing) {
    const absl::Status status = allocator->TakeTurn(for_step, missing);
    allocator->CheckInvariants();
    if (status.ok()) gate.holds_turn = true;
    return status;
  }
  void TakeTurn(bool for_step = false) {
    Bytes missing = 0;
    const absl::Status status = TakeTurn(for_step, &missing);
    HOCKET_CHECK(status.ok()) << status.message();
    HOCKET_CHECK(missing == 0) << missing;
  }
  // And what follows a spill.
  absl::StatusOr<Bytes> Spill(Bytes wanted, const SpillParts& parts = {}) {
    auto freed = allocator->SpillInParts(wanted, parts);
    allocator->CheckInvariants();
    while (allocator->MapSpilled()) allocator->CheckInvariants();
    return freed;
  }
  Holdings Held() const { return allocator->Held(); }

  ScriptedGate gate;
  std::unique_ptr<CachingAllocator> allocator;
};

// What a job says of its lane's arena, kept until it is delivered, as the coordinator would: allocators of
// one process stand for processes.
class Announced {
 public:
  explicit Announced(Job& job) : job_(job) {
    job.gate.grew = [this](ArenaChunkId id, Bytes size, UniqueFd fd) {
      grew.emplace_back(id, size, std::move(fd));
    };
    job.gate.lost = [this](ArenaChunkId id) { lost.push_back(id); };
  }
  ~Announced() {
    job_.gate.grew = [](ArenaChunkId, Bytes, UniqueFd) {};
    job_.gate.lost = [](ArenaChunkId) {};
  }
  Announced(const Announced&) = delete;
  Announced& operator=(const Announced&) = delete;

  // All of it, also on an error, which is that of the last chunk that was not added.
  absl::Status TryDeliverTo(Job& job) {
    absl::Status delivered;
    for (auto& [id, size, fd] : grew) {
      const absl::Status added = job.allocator->AddArenaChunk(id, size, std::move(fd));
      if (!added.ok()) delivered = added;
    }
    for (const ArenaChunkId id : lost) job.allocator->DropArenaChunk(id);
    job.allocator->CheckInvariants();
    grew.clear();
    lost.clear();
    return delivered;
  }
  void DeliverTo(Job& job) {
    const absl::Status delivered = TryDeliverTo(job);
    HOCKET_CHECK(delivered.ok()) << delivered.message();
  }

  std::vector<std::tuple<ArenaChunkId, Bytes, UniqueFd>> grew;
  std::vector<ArenaChunkId> lost;

 private:
  Job& job_;
};

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_ALLOCATOR_JOB_H_
