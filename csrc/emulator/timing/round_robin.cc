#include "csrc/emulator/timing/round_robin.h"

#include <algorithm>

namespace hocket::emulator::timing {
namespace {

void Log(Share& share, ServiceLog* log, Served entry) {
  entry.number = ++share.logged;
  if (log == nullptr) return;
  // The number is cleared first and written last: a writer that is killed leaves no entry that looks whole.
  Served& place = log->entries[entry.number % kLogEntries];
  volatile std::uint64_t& number = place.number;
  const std::uint64_t valid = entry.number;
  number = 0;
  entry.number = 0;
  place = entry;
  number = valid;
}

// Ends the run under way: it becomes a log entry.
void EndRun(Share& share, ServiceLog* log) {
  const Nanos length = share.received - share.run_received;
  if (length > 0) Log(share, log, {0, share.run_start, share.run_received, length, length, 1});
  share.run_received = share.received;
}

void Serve(Share& share, ServiceLog* log, Nanos start, Nanos length) {
  const bool goes_on = share.run_start + (share.received - share.run_received) == start;
  if (!goes_on) EndRun(share, log);
  if (share.received == share.run_received) share.run_start = start;
  share.received += length;
}

void ServeRounds(Share& share, ServiceLog* log, const Served& rounds) {
  EndRun(share, log);
  Log(share, log, rounds);
  share.received += rounds.count * rounds.length;
  share.run_received = share.received;
}

int NextBusy(const RoundRobin& robin) {
  for (int i = 1; i <= robin.end; ++i) {
    const int candidate = (robin.current + i) % robin.end;
    if (robin.shares[candidate].busy()) return candidate;
  }
  return -1;
}

int CountBusy(const RoundRobin& robin) {
  int busy = 0;
  for (int i = 0; i < robin.end; ++i) busy += robin.shares[i].busy() ? 1 : 0;
  return busy;
}

// Whole rounds that can be handed out before `until` without anybody's work ending within one.
std::int64_t WholeRounds(const RoundRobin& robin, Nanos slice, int busy, Nanos until, StopAt stop) {
  std::int64_t rounds = (until - robin.now) / slice / busy;
  for (int i = 0; i < robin.end; ++i) {
    const Share& share = robin.shares[i];
    if (!share.busy()) continue;
    rounds = std::min(rounds, (share.submitted - share.received) / slice);
    if (i == stop.share) rounds = std::min(rounds, (stop.received - share.received - 1) / slice);
  }
  return rounds;
}

// REQUIRES: the current one's slice begins now.
void HandOutRounds(RoundRobin& robin, Nanos slice, int busy, std::int64_t rounds, ServiceLog* logs) {
  const int first = robin.current;
  Nanos start = robin.now;
  for (int i = 0; i < robin.end; ++i) {
    const int index = (first + i) % robin.end;
    Share& share = robin.shares[index];
    if (!share.busy()) continue;
    ServeRounds(share, logs == nullptr ? nullptr : &logs[index],
                {0, start, share.received, slice, busy * slice, rounds});
    start += slice;
    robin.current = index;
  }
  robin.now += rounds * busy * slice;
  robin.slice_left = 0;
}

// What is left of the slice of one that is alone, whose slices follow each other, after `length`.
Nanos LeftAfter(Nanos left, Nanos slice, Nanos length) {
  if (length <= left) return left - length;
  const Nanos into = (length - left) % slice;
  return into == 0 ? 0 : slice - into;
}

}  // namespace

void Advance(RoundRobin& robin, Nanos slice, Nanos until, StopAt stop, ServiceLog* logs) {
  while (robin.now < until) {
    if (stop.share >= 0 && robin.shares[stop.share].received >= stop.received) return;
    if (robin.slice_left == 0 || !robin.shares[robin.current].busy()) {
      const int next = NextBusy(robin);
      robin.slice_left = next < 0 ? 0 : slice;
      if (next < 0) {
        robin.now = until;
        return;
      }
      robin.current = next;
    }
    const int busy = CountBusy(robin);
    if (busy > 1 && robin.slice_left == slice) {
      const std::int64_t rounds = WholeRounds(robin, slice, busy, until, stop);
      if (rounds > 0) {
        HandOutRounds(robin, slice, busy, rounds, logs);
        continue;
      }
    }
    Share& share = robin.shares[robin.current];
    Nanos length = std::min(share.submitted - share.received, until - robin.now);
    if (robin.current == stop.share) length = std::min(length, stop.received - share.received);
    if (busy > 1) length = std::min(length, robin.slice_left);
    Serve(share, logs == nullptr ? nullptr : &logs[robin.current], robin.now, length);
    robin.slice_left = LeftAfter(robin.slice_left, slice, length);
    robin.now += length;
  }
}

Nanos ReceivedAt(const Share& share, const ServiceLog& log, Nanos received) {
  Nanos at = share.run_start;  // where the log has forgotten
  if (received > share.run_received) return share.run_start + (received - share.run_received);
  for (std::uint64_t number = share.logged; number > 0 && number + kLogEntries > share.logged; --number) {
    const Served& entry = log.entries[number % kLogEntries];
    if (entry.number != number) break;
    at = entry.start;
    if (received <= entry.received) continue;
    const Nanos offset = received - entry.received;
    const std::int64_t whole = (offset - 1) / entry.length;
    return entry.start + whole * entry.period + (offset - whole * entry.length);
  }
  return at;
}

bool OthersBusy(const RoundRobin& robin, int self) {
  for (int i = 0; i < robin.end; ++i) {
    if (i != self && robin.shares[i].busy()) return true;
  }
  return false;
}

void Copy(const RoundRobin& from, RoundRobin& to) {
  to.now = from.now;
  to.slice_left = from.slice_left;
  to.current = from.current;
  to.end = from.end;
  std::copy_n(from.shares, from.end, to.shares);
}

}  // namespace hocket::emulator::timing
