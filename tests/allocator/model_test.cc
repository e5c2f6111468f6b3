// Three jobs of one lane on a small device, driven at random for a long time and compared with a model that
// knows what every block must hold. Some of what they do is random, some are steps of a loop that repeats
// itself with a deviation now and then, so that plans are made, followed and left. What is checked after each
// operation: the invariants of the allocator, and that live blocks do not overlap; at each free and each turn
// taken: the bytes; at each hand-over: that the device holds what the jobs say they hold, the arena counted
// once.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "csrc/base/check.h"
#include "tests/allocator/emulated_gpu.h"

namespace hocket {
namespace {

using testing::EmulatedGpu;
using testing::ScriptedGate;

// A device in small: what is tried is the order of things, and bytes that move only take time, most of all
// under a sanitizer.
constexpr Bytes kChunk = 256_KiB;
constexpr Bytes kStride = 8_KiB;  // a block is marked at its start, its end and at every multiple of it
[[maybe_unused]] const bool small_device = [] {
  setenv("HOCKET_EMULATOR_MEMORY", "32MiB", /*overwrite=*/1);
  setenv("HOCKET_EMULATOR_GRANULARITY", "256KiB", /*overwrite=*/1);
  return true;
}();

struct Live {
  Bytes size = 0;
  std::uint64_t mark = 0;
  std::shared_ptr<bool> written = nullptr;  // of a constant block: the promise is broken once it is true
};

// One line of a loop's body. Frees what its slot holds, if anything, and allocates into it if `size` > 0.
struct Instruction {
  unsigned slot = 0;
  Bytes size = 0;
  unsigned stream = 0;
};

struct Job {
  ScriptedGate gate;
  std::unique_ptr<CachingAllocator> allocator;
  std::map<DevicePtr, Live> blocks;
  bool in_step = false;
  bool pool_open = false;
  int pools = 0;
  std::optional<PoolCheckpoint> checkpoint;
  std::array<std::vector<Instruction>, 2> loops;         // training, evaluation
  std::map<unsigned, std::pair<DevicePtr, Live>> slots;  // what a loop holds
};

// size == 0: the chunk has left the arena.
struct Message {
  const Job* from;
  ArenaChunkId id;
  Bytes size;
  UniqueFd descriptor;
};

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    for (Stream& stream : streams_) stream = *gpu_.driver().CreateStream();
    streams_[0] = nullptr;
    for (Job& job : jobs_) {
      Start(job);
      for (auto& loop : job.loops) loop = DrawLoop();
    }
    holder_ = &jobs_[0];
    holder_->gate.holds_turn = true;
  }

  ~World() {
    for (Job& job : jobs_) job.allocator.reset();
  }

  void Operate() {
    const unsigned draw = Draw(1000);
    if (draw < 8) return HandOver();
    if (draw < 12) return (void)SpillSomebody(Draw(60) * 128_KiB);
    if (draw < 15) return holder_->allocator->EmptyCache();
    if (draw < 35) return ToggleStep();
    if (draw < 43) return TogglePool();
    if (draw < 50) return CheckpointOrReturn();
    if (draw < 54) return DeclareOrWrite();
    if (draw < 56) return MoveAgainAndAgain();
    if (draw < 65) return FreeSomething(jobs_[Draw(3)]);  // a thread out of turn frees too
    if (draw < 80) return RunLoop();
    if (holder_->blocks.size() < 80 && draw % 100 < 55) return Allocate();
    FreeSomething(*holder_);
  }

  void Check() {
    holder_->allocator->CheckInvariants();
    DevicePtr end = 0;
    for (const auto& [address, live] : holder_->blocks) {
      ASSERT_GE(address, end) << "blocks overlap";
      end = address + live.size;
    }
  }

  // How often a pool went back to a checkpoint.
  int Returns() const { return returns_; }

  // Bytes that were not copied because they are constant.
  Bytes Spared() const {
    Bytes spared = 0;
    for (const Job& job : jobs_) spared += job.allocator->Held().spared_total;
    return spared;
  }

  // Of all allocations in steps, those that plans placed.
  double PlannedShare() const {
    double all = 0, planned = 0;
    for (const Job& job : jobs_) {
      all += static_cast<double>(job.allocator->Held().step_allocations);
      planned += static_cast<double>(job.allocator->Held().planned_allocations);
    }
    return planned / all;
  }

 private:
  unsigned Draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

  void Start(Job& job) {
    job.gate.holds_turn = false;
    job.gate.await_room = [this](Bytes bytes) {
      return SpillSomebody(bytes) > 0 ? absl::OkStatus()
                                      : absl::ResourceExhaustedError("nobody can be moved");
    };
    job.gate.grew = [this, &job](ArenaChunkId id, Bytes size, UniqueFd descriptor) {
      messages_.push_back({&job, id, size, std::move(descriptor)});
    };
    job.gate.lost = [this, &job](ArenaChunkId id) { messages_.push_back({&job, id, 0, {}}); };
    auto made =
        CachingAllocator::Create(gpu_.driver(), {.chunk_size = kChunk, .host_budget = 1_GiB}, &job.gate);
    HOCKET_CHECK(made.ok()) << made.status().message();
    job.allocator = *std::move(made);
  }

  // What the coordinator passes on between the jobs, in order.
  void Deliver() {
    for (const Message& message : messages_) {
      for (Job& job : jobs_) {
        if (&job == message.from) continue;
        if (message.size == 0) {
          job.allocator->DropArenaChunk(message.id);
        } else {
          const absl::Status added =
              job.allocator->AddArenaChunk(message.id, message.size, message.descriptor.Duplicate());
          // A chunk that has left the arena meanwhile may find the device full; its loss is the next message.
          HOCKET_CHECK(added.ok() || absl::IsResourceExhausted(added)) << added.message();
        }
      }
    }
    messages_.clear();
  }

  template <typename Function>
  void ForEachMark(DevicePtr address, Bytes size, Function f) {
    for (Bytes offset = 0; offset + 8 <= size; offset += kStride) f(address + offset);
    if (size >= 8 && (size - 8) % kStride >= 8) f(address + size - 8);
  }
  void Write(DevicePtr address, const Live& live) {
    ForEachMark(address, live.size, [&](DevicePtr at) { std::memcpy(gpu_.Host(at), &live.mark, 8); });
  }
  void Verify(DevicePtr address, const Live& live) {
    ForEachMark(address, live.size, [&](DevicePtr at) {
      std::uint64_t found = 0;
      std::memcpy(&found, gpu_.Host(at), 8);
      HOCKET_CHECK(found == live.mark)
          << "the block at 0x" << std::hex << address << " holds " << found << ", not " << live.mark;
    });
  }

  Bytes DrawSize() {
    switch (Draw(10)) {
      case 0:
        return 1 + Draw(12) * 128_KiB;
      case 1:
        return 1 + Draw(512 << 10);
      default:
        return 1 + Draw(12'500);
    }
  }

  using Blocks = std::map<DevicePtr, Live>;

  void Allocate() { TryAllocate(DrawSize(), streams_[Draw(3)]); }

  Blocks::iterator TryAllocate(Bytes size, Stream stream) {
    const auto block = holder_->allocator->Malloc(size, stream);
    if (!block.ok()) {
      EXPECT_EQ(block.status().code(), absl::StatusCode::kResourceExhausted) << block.status();
      for (int i = 0; i < 10; ++i) FreeSomething(*holder_);
      return holder_->blocks.end();
    }
    const Live live{size, random_()};
    const auto [made, is_new] = holder_->blocks.emplace(*block, live);
    HOCKET_CHECK(is_new) << "given out twice";
    Write(*block, live);
    return made;
  }

  void FreeSomething(Job& job) {
    if (job.blocks.empty()) return;
    Free(job, std::next(job.blocks.begin(), Draw(static_cast<unsigned>(job.blocks.size()))), Draw(4) == 0);
  }
  void Free(Job& job, Blocks::iterator block, bool recorded) {
    if (&job == holder_) {
      Verify(block->first, block->second);
      if (recorded) job.allocator->RecordStream(block->first, streams_[Draw(3)]);
    }
    job.allocator->Free(block->first);
    job.blocks.erase(block);
    job.allocator->CheckInvariants();
  }

  // A few blocks become constant, or are written to: announced, if they were constant, or seen.
  void DeclareOrWrite() {
    Job& job = *holder_;
    for (unsigned count = Draw(8); count > 0 && !job.blocks.empty(); --count) {
      const auto block = std::next(job.blocks.begin(), Draw(static_cast<unsigned>(job.blocks.size())));
      Live& live = block->second;
      if (Draw(3) > 0) {
        if (!live.written || *live.written) live.written = std::make_shared<bool>(false);
        const auto broken = [written = live.written] { return *written; };
        const auto declared = job.allocator->DeclareConstant(
            block->first, std::make_shared<Promise>(Promise{.name = "weights", .broken = broken}));
        HOCKET_CHECK(declared.ok()) << declared.status().message();
      } else {
        if (live.written && Draw(2) == 0) *live.written = true;
        if (!live.written || !*live.written) job.allocator->EndConstant(block->first);
        live.written.reset();
        live.mark = random_();
        Write(block->first, live);
      }
      job.allocator->CheckInvariants();
    }
  }

  // Some 40 allocations, most of which die in the loop's body; what is left in a slot at its end survives.
  // Half of them are of a few sizes, as in a program: one may be taken for another.
  std::vector<Instruction> DrawLoop() {
    std::vector<Instruction> loop;
    for (unsigned i = 0; i < 40; ++i) {
      const unsigned slot = Draw(24);
      const Bytes odd = Draw(8) == 0 ? 1 + Draw(512 << 10) : 1 + Draw(25'000);
      const Bytes size = Draw(2) == 0 ? Bytes{512} << Draw(5) : odd;
      loop.push_back({.slot = slot, .size = size, .stream = Draw(12) == 0 ? 1u : 0u});
      if (Draw(2) == 0) loop.push_back({.slot = Draw(24)});
    }
    for (unsigned slot = 4; slot < 24; ++slot) loop.push_back({.slot = slot});
    return loop;
  }

  // A few passes of a loop; one line in 300, at times in 25, is left out, or something else happens before
  // it.
  void RunLoop() {
    Job& job = *holder_;
    if (job.in_step) ToggleStep();
    const auto& loop = job.loops[Draw(4) == 0];
    const unsigned order = Draw(4) == 0 ? 25 : 300;
    for (unsigned passes = 1 + Draw(4); passes > 0; --passes) {
      ToggleStep();
      for (const Instruction& line : loop) {
        const unsigned draw = Draw(order);
        if (draw == 0) continue;
        if (draw == 1) Allocate();
        if (draw == 2) FreeSomething(job);
        if (draw == 3 && Draw(10) == 0) job.allocator->EmptyCache();
        if (draw == 4 && Draw(10) == 0) return HandOver();  // in mid-step
        if (draw < 5) job.allocator->CheckInvariants();
        Run(job, line);
      }
      ToggleStep();
    }
  }
  // The invariants are checked after each thing it does.
  void Run(Job& job, const Instruction& line) {
    const auto held = job.slots.find(line.slot);
    if (held != job.slots.end()) {
      const auto [address, live] = held->second;
      const auto block = job.blocks.find(address);
      // A random free may have been there before, and the address may be another's by now.
      if (block != job.blocks.end() && block->second.mark == live.mark) Free(job, block, Draw(100) == 0);
      job.slots.erase(held);
    }
    if (line.size == 0) return;
    const auto made = TryAllocate(line.size, streams_[line.stream]);
    if (made != job.blocks.end()) job.slots[line.slot] = *made;
    job.allocator->CheckInvariants();
  }

  void ToggleStep() {
    holder_->in_step ? holder_->allocator->EndStep() : holder_->allocator->BeginStep();
    holder_->in_step = !holder_->in_step;
    holder_->allocator->CheckInvariants();
  }

  void TogglePool() {
    Job& job = *holder_;
    if (!job.pool_open && Draw(3) == 0) {
      job.pool_open = true;
      job.allocator->BeginAllocateToPool(
          {0, 1 + Draw(2)}, [this](Stream stream) { return stream == streams_[1]; },
          /*captures=*/Draw(2) == 0);
      ++job.pools;
    } else {
      ClosePools(job);
    }
  }
  void ClosePools(Job& job) {
    for (std::uint64_t id : {1, 2}) {
      if (job.pool_open) job.allocator->EndAllocateToPool({0, id});
    }
    for (; job.pools > 0 && Draw(2) == 0; --job.pools) job.allocator->ReleasePool({0, 1 + Draw(2)});
    job.pool_open = false;
  }

  // Remembers what is in use of a pool, or goes back to what was.
  void CheckpointOrReturn() {
    Job& job = *holder_;
    if (!job.checkpoint || Draw(4) == 0) {
      const auto made = job.allocator->CheckpointPool({0, 1 + Draw(2)});
      if (made.ok()) job.checkpoint = *made;
      return;
    }
    for (const auto& [address, live] : job.blocks) Verify(address, live);
    const auto delta = job.allocator->ReturnToCheckpoint(*job.checkpoint);
    job.allocator->CheckInvariants();
    if (!delta.ok()) return;  // released meanwhile, or one is open: nothing has changed
    ++returns_;
    for (const DevicePtr freed : delta->freed) {
      HOCKET_CHECK(job.blocks.erase(freed) == 1) << "freed what nobody had";
    }
    for (const PoolCheckpoint::Block& block : job.checkpoint->blocks) {
      const Live live{block.requested, random_()};
      HOCKET_CHECK(job.blocks.emplace(block.address, live).second) << "given out twice";
      Write(block.address, live);
    }
  }

  // Bytes that other jobs gave back.
  Bytes SpillSomebody(Bytes wanted) {
    Deliver();
    Bytes freed = 0;
    for (Job& job : jobs_) {
      if (&job == holder_ || freed > wanted) continue;
      const auto result = job.allocator->SpillInParts(wanted - freed + 1, {.size = Draw(4) * kChunk});
      HOCKET_CHECK(result.ok()) << result.status().message();
      freed += *result;
      job.allocator->CheckInvariants();
    }
    return freed;
  }

  // As if each other job's turn needed all of the device.
  void MoveAgainAndAgain() {
    for (unsigned times = 1 + Draw(4); times > 0; --times) {
      if (Draw(2) == 0) DeclareOrWrite();
      HandOver(holder_);
    }
  }

  // `back_to`: everything is moved to the host and back to it.
  void HandOver(Job* back_to = nullptr) {
    Job& from = *holder_;
    if (from.allocator->Capturing() || Draw(2) == 0) ClosePools(from);
    if (from.in_step && Draw(2) == 0) ToggleStep();
    HOCKET_CHECK(from.allocator->Drain().ok()) << "no drain";
    from.allocator->Lock();
    from.allocator->PassTurn();
    from.gate.holds_turn = false;
    from.allocator->Unlock();
    from.allocator->CheckInvariants();
    if (back_to != nullptr || Draw(4) == 0) (void)from.allocator->Spill(~Bytes{0});
    Deliver();
    CheckLedger();

    holder_ = back_to != nullptr ? back_to : &jobs_[Draw(3)];
    for (int tries = 0;; ++tries) {
      Bytes missing = 0;
      const absl::Status taken = holder_->allocator->TakeTurn(&missing);
      holder_->allocator->CheckInvariants();
      if (taken.ok()) break;
      HOCKET_CHECK(tries < 3) << taken.message();
      SpillSomebody(missing);
    }
    Deliver();
    holder_->gate.holds_turn = true;
    for (const auto& [address, live] : holder_->blocks) Verify(address, live);
  }

  // The arena is empty of blocks now and known to all.
  void CheckLedger() {
    Bytes sum = jobs_[0].allocator->Held().arena;
    for (Job& job : jobs_) {
      EXPECT_EQ(job.allocator->Held().arena, jobs_[0].allocator->Held().arena);
      sum += job.allocator->Held().persistent;
    }
    EXPECT_EQ(gpu_.used(), sum);
  }

  EmulatedGpu& gpu_ = EmulatedGpu::Get();
  std::mt19937_64 random_;
  std::array<Stream, 3> streams_;
  std::array<Job, 3> jobs_;
  Job* holder_ = nullptr;
  std::vector<Message> messages_;
  int returns_ = 0;
};

// HOCKET_MODEL_OPERATIONS: how many for each seed.
int Operations() {
  const char* wanted = std::getenv("HOCKET_MODEL_OPERATIONS");
  return wanted == nullptr ? 12'000 : std::atoi(wanted);
}

class ModelTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(ModelTest, ThreeJobsKeepTheirBytes) {
  const Bytes before = EmulatedGpu::Get().used();
  {
    World world(GetParam());
    for (int i = 0; i < Operations() && !HasFatalFailure(); ++i) {
      SCOPED_TRACE("operation " + std::to_string(i));
      world.Operate();
      world.Check();
    }
    EXPECT_GT(world.PlannedShare(), 0.1) << "plans are hardly tested";
    EXPECT_GT(world.Spared(), 1_MiB) << "constant memory is hardly tested";
    EXPECT_GE(world.Returns(), 5) << "checkpoints are hardly tested";
  }
  EXPECT_EQ(EmulatedGpu::Get().used(), before);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace hocket
