// One engine of a device and how its time is handed out: in slices, in turn, to the processes that have work.
//
// Pure arithmetic on plain structs, so it can live in shared memory and a test can replay a second of it.
//
//   now                       every process's share:   submitted  --- work it has asked for, in all
//    |   A  |  B  |  A  | B|                           received   --- work it has got, in all
//   -+------+-----+-----+--+--> time
//     slice  slice          B's work ends before its slice does: the next one's slice begins
//
// A process with nothing left is skipped, one that is alone goes on, so the engine never rests while work
// is there. The turn goes by place in the table, as a channel's does by its place in a GPU's runlist.
//
// When a share was served is kept in its log: runs and whole rounds of equal slices, newest last. A log
// that is full forgets its oldest entry.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_ROUND_ROBIN_H_
#define HOCKET_CSRC_EMULATOR_TIMING_ROUND_ROBIN_H_

#include <cstdint>
#include <limits>

namespace hocket::emulator::timing {

using Nanos = std::int64_t;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

// What a context may use of a GPU before the next one's turn, where nobody has chosen another length.
// 2 ms is what nvidia-smi's `compute-policy --set-timeslice=1` (short) stands for, the longest that
// NVIDIA's DRIVE OS guide recommends for an application that shares with others ("Setting the Timeslice"),
// and the default of NVIDIA's vGPU scheduler for up to eight guests. The default of plain contexts is
// not published.
inline constexpr Nanos kDefaultSlice = 2'000'000;

inline constexpr int kMaxShares = 256;
inline constexpr int kLogEntries = 64;

// `count` slices of `length` each, one every `period`, from `start` on.
struct Served {
  std::uint64_t number;  // 1, 2, ...; 0: being written
  Nanos start;
  Nanos received;  // before the first of them
  Nanos length;
  Nanos period;
  std::int64_t count;
};

// The entry numbered n lies at n % kLogEntries.
struct ServiceLog {
  Served entries[kLogEntries];
};

// What one process has asked for and got. Its latest uninterrupted service is [run_start, run_start +
// (received - run_received)); older ones are in the log.
struct Share {
  Nanos submitted;
  Nanos received;
  Nanos run_start;
  Nanos run_received;
  std::uint64_t logged;  // number of the newest log entry

  bool busy() const { return submitted > received; }
};

struct RoundRobin {
  Nanos now;             // time is handed out up to here
  Nanos slice_left;      // of the current one's
  std::int32_t current;  // whose slice it is
  std::int32_t end;      // no share lies at or behind it
  Share shares[kMaxShares];
};

// Where to stop early: when share `share` has received `received` in all.
struct StopAt {
  int share = -1;
  Nanos received = kNever;
};

// Hands out time up to `until`, or until `stop` holds. Any sequence of calls that ends at the same time gives
// the same service. `logs`, one per share, may be nullptr: nothing is logged. REQUIRES: slice > 0; without
// work for ever, until < kNever.
void Advance(RoundRobin& robin, Nanos slice, Nanos until, StopAt stop, ServiceLog* logs);

// When the share had received `received` in all. REQUIRES: 0 < received <= share.received. What the log
// has forgotten counts as received when the oldest entry left began.
Nanos ReceivedAt(const Share& share, const ServiceLog& log, Nanos received);

// True where another share than `self` is busy.
bool OthersBusy(const RoundRobin& robin, int self);

// Copies what is in use.
void Copy(const RoundRobin& from, RoundRobin& to);

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_ROUND_ROBIN_H_
