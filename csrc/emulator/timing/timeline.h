// One device's time, shared by all processes that use it.
//
// A device has engines that work side by side: compute, copies to it, copies from it. Each hands its time
// out in slices among the processes that have work for it (round_robin.h). Nobody runs anything: who looks
// computes what everybody has received by now. So a process that sleeps costs nothing, and a process that
// is alone gets all of it.
//
//   process A: Submit(compute, at, 5 ms) --+
//   process B: Submit(compute, at, 9 ms) --+--> TimelineState (shared memory) --> received(A), received(B)
//
// Work is a number: nanoseconds submitted so far and nanoseconds received so far, per process and engine.
// What a nanosecond of it belongs to is the process's own affair (stream_engine.h); to find out when it
// received the n-th one it asks ReceivedAt(n).
//
// Death. Every change is a transaction on a second copy of the numbers, made valid by one store, under a
// robust lock: a process killed at any instruction leaves the state as it was before or after. DropDead()
// ends the work of those that are dead; somebody who waits calls it now and then.
//
// Thread-safe and process-safe through the transactions. Lock order: a process's own locks, then this one,
// of several devices in the order of their numbers.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_TIMELINE_H_
#define HOCKET_CSRC_EMULATOR_TIMING_TIMELINE_H_

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "csrc/emulator/timing/round_robin.h"

namespace hocket::emulator::timing {

enum class Engine { kCompute, kToDevice, kToHost };
inline constexpr int kEngines = 3;

// Who has joined. `pid` is written last and cleared last; 0: the place is free.
struct Member {
  std::int64_t start_time;  // tells a pid from its next owner
  std::atomic<std::int32_t> pid;
};

// Lies in memory that all processes share, zero at first. Valid in every one of them once initialized.
struct TimelineState {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> valid;  // which of the two schedules holds
  Nanos slice;
  std::atomic<Nanos> looked_for_dead;  // when somebody did so last
  RoundRobin schedules[2][kEngines];
  Member members[kMaxShares];
  ServiceLog logs[kEngines][kMaxShares];
};

// Once, before anybody else sees `state`. REQUIRES: it is zeroed; slice > 0.
void Initialize(TimelineState& state, Nanos slice = kDefaultSlice);
// Another length for those who join from now on. REQUIRES: no living process has joined; slice > 0.
void SetSlice(TimelineState& state, Nanos slice);

// A process, and how to find out whether it lives.
struct Identity {
  pid_t pid = 0;
  std::int64_t start_time = 0;
  bool (*lives)(pid_t pid, std::int64_t start_time) = nullptr;
};

// One process's place on a device's timeline.
class DeviceTimeline {
 public:
  // `state` is borrowed and must outlive the timeline. kResourceExhausted where kMaxShares living
  // processes have joined already.
  static absl::StatusOr<std::unique_ptr<DeviceTimeline>> Join(TimelineState& state, const Identity& who);
  // Leaves; work not yet received is dropped.
  ~DeviceTimeline();
  DeviceTimeline(const DeviceTimeline&) = delete;
  DeviceTimeline& operator=(const DeviceTimeline&) = delete;

  // True while another process has joined (or died and was not missed yet). It may change at once.
  bool Shared() const;

  // Ends the work of members that are dead, unless somebody looked for them less than `interval` ago.
  void DropDead(Nanos now, Nanos interval);

  // In a forked child, which has no place here: from now on the destructor leaves the state alone.
  void Abandon() { self_ = -1; }

 private:
  friend class Transaction;

  DeviceTimeline(TimelineState& state, const Identity& who, int self)
      : state_(state), lives_(who.lives), self_(self) {}

  TimelineState& state_;
  bool (*const lives_)(pid_t, std::int64_t);
  int self_;
};

// The lock and a working copy of the numbers. Nothing has happened until Commit(), which is the last call.
class Transaction {
 public:
  explicit Transaction(DeviceTimeline& timeline);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Adds work that is ready at `at`: it counts from then on, or from where the engine already is.
  void Submit(Engine engine, Nanos at, Nanos work);
  // Hands out time up to `until`, or until this process has received `received` in all.
  void Advance(Engine engine, Nanos until, Nanos received = kNever);

  Nanos now(Engine engine) const { return robin(engine).now; }
  Nanos submitted(Engine engine) const { return share(engine).submitted; }
  Nanos received(Engine engine) const { return share(engine).received; }
  // When this process has, or will have if nobody submits more, received `received` in all. Exact up to
  // now(engine) and, while the transaction lasts, beyond. kNever: not with what it has submitted.
  Nanos ReceivedAt(Engine engine, Nanos received) const;
  // When the engine will have done all that anybody has submitted; not after now(engine): it is idle.
  Nanos BusyUntil(Engine engine) const;
  // True while other processes have work for the engine.
  bool Contended(Engine engine) const { return OthersBusy(robin(engine), timeline_.self_); }

  void Commit();

 private:
  RoundRobin& robin(Engine engine) const { return working_[static_cast<int>(engine)]; }
  Share& share(Engine engine) const { return robin(engine).shares[timeline_.self_]; }
  ServiceLog* logs(Engine engine) const { return timeline_.state_.logs[static_cast<int>(engine)]; }

  DeviceTimeline& timeline_;
  RoundRobin* working_;
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_TIMELINE_H_
