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
// received the n-th one it asks ReceivedAt(n), answered from a short log of the pieces it was served in.
//
// Death. Every change is a transaction on a second copy of the numbers, made valid by one store, under a
// robust lock: a process killed at any instruction leaves the state as it was before or after. Drop() ends
// the work of those that are dead; somebody who waits calls it now and then.
//
// Thread-safe and process-safe through the transactions. Lock order: a process's own locks, then this one.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_TIMELINE_H_
#define HOCKET_CSRC_EMULATOR_TIMING_TIMELINE_H_

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "csrc/emulator/timing/round_robin.h"

namespace hocket::emulator::timing {

enum class Engine { kCompute, kToDevice, kToHost };
inline constexpr int kEngines = 3;

struct Schedule {
  std::int32_t end;  // no process's share lies at or behind it
  RoundRobin engines[kEngines];
};

// Who has joined. `pid` is written last and cleared last.
struct Member {
  std::int64_t start_time;  // tells a pid from its next owner
  std::atomic<std::int32_t> pid;
};

// Lies in memory that all processes share, zero at first. Valid in every one of them once Initialize()d.
struct TimelineState {
  pthread_mutex_t mutex;
  std::atomic<std::uint32_t> valid;  // which of the two schedules holds
  std::int64_t slice;
  std::int64_t dropped_at;  // when the dead were looked for last
  Schedule schedules[2];
  Member members[kMaxShares];
  ServiceLog logs[kEngines][kMaxShares];
};

// One process's place on a device's timeline.
class DeviceTimeline {
 public:
  // True while that process lives.
  using Lives = bool (*)(pid_t pid, std::int64_t start_time);

  // Once, before anybody else sees `state`. REQUIRES: it is zeroed; slice > 0.
  static void Initialize(TimelineState& state, Nanos slice = kDefaultSlice);

  // Enters the process. `state` is borrowed and must outlive the timeline. Aborts where kMaxShares
  // living processes have joined already.
  DeviceTimeline(TimelineState& state, pid_t pid, std::int64_t start_time, Lives lives);
  // Leaves; work not yet received is dropped.
  ~DeviceTimeline();
  DeviceTimeline(const DeviceTimeline&) = delete;
  DeviceTimeline& operator=(const DeviceTimeline&) = delete;

  // True while some other process has joined. A hint: it may change at once.
  bool Shared() const;

  // Ends the work of members that are dead. Does nothing where somebody did so less than `interval` ago.
  void Drop(Nanos now, Nanos interval);

  // In a forked child: the destructor leaves the state alone.
  void Abandon() { self_ = -1; }

  // The lock and a working copy of the schedule. Nothing has happened until Commit().
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
    Nanos submitted(Engine engine) const;
    Nanos received(Engine engine) const;
    // When this process had received `received` in all. kNever: not by now(engine).
    Nanos ReceivedAt(Engine engine, Nanos received) const;
    // When it will have, should nobody submit more. kNever: not with what it has submitted.
    Nanos WillReceiveAt(Engine engine, Nanos received) const;
    // True while other processes have work for the engine.
    bool Contended(Engine engine) const;

    void Commit();

   private:
    RoundRobin& robin(Engine engine) const;
    ServiceLog* logs(Engine engine) const;

    DeviceTimeline& timeline_;
    TimelineState& state_;
    Schedule* working_;
  };

 private:
  friend class Transaction;
  class Guard;
  void Join(pid_t pid, std::int64_t start_time);

  TimelineState& state_;
  const Lives lives_;
  int self_ = -1;
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_TIMELINE_H_
