#include "csrc/emulator/driver/order.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/emulator/emulator_api.h"

namespace hocket::emulator {
namespace {

void Join(const Clock& more, Clock& clock) {
  if (clock.size() < more.size()) clock.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) clock[i] = std::max(clock[i], more[i]);
}

std::uint64_t At(const Clock& clock, std::uint64_t stream) {
  return stream < clock.size() ? clock[stream] : 0;
}

std::string Where(std::uint64_t stream) {
  return stream == Order::kHost ? "the host" : absl::StrCat("stream ", stream);
}

}  // namespace

Clock& Order::ClockOf(std::uint64_t stream) {
  if (clocks_.size() <= stream) clocks_.resize(stream + 1);
  Clock& clock = clocks_[stream];
  if (clock.size() <= stream) clock.resize(stream + 1);
  return clock;
}

Ticket Order::Queue(std::uint64_t stream, const std::vector<std::uint64_t>& behind, const char* name,
                    const std::vector<Use>& uses) {
  const std::lock_guard lock(mutex_);
  Clock joined = ClockOf(kHost);
  for (std::uint64_t other : behind) Join(ClockOf(other), joined);
  Clock& clock = ClockOf(stream);
  Join(joined, clock);
  const Ticket ticket{stream, ++last_number_, name};
  const Access now{stream, ticket.number, name};
  CheckAll(now, clock, uses);
  clock[stream] = ticket.number;
  return ticket;
}

void Order::Uses(const Ticket& ticket, const std::vector<Use>& uses) {
  const std::lock_guard lock(mutex_);
  const Access now{ticket.stream, ticket.number, ticket.name};
  CheckAll(now, ClockOf(ticket.stream), uses);
}

Clock Order::Record(const std::vector<std::uint64_t>& streams, std::uint64_t* covered) const {
  const std::lock_guard lock(mutex_);
  Clock clock;
  for (std::uint64_t stream : streams) {
    if (stream < clocks_.size()) Join(clocks_[stream], clock);
  }
  // What is known to be done once the event is: all streams' operations up to here.
  *covered = last_number_;
  for (std::uint64_t s = 1; s < clocks_.size(); ++s) {
    const std::uint64_t last = At(clocks_[s], s);
    if (last > At(clock, s)) *covered = std::min(*covered, At(clock, s));
  }
  return clock;
}

void Order::StreamWaits(std::uint64_t stream, const Clock& clock) {
  const std::lock_guard lock(mutex_);
  Join(clock, ClockOf(stream));
}

void Order::HostWaits(const Clock& clock) {
  const std::lock_guard lock(mutex_);
  Join(clock, ClockOf(kHost));
  PublishFinished();
}

// Tells the other processes up to which number everything is known to be done.
void Order::PublishFinished() {
  const Clock& host = ClockOf(kHost);
  std::uint64_t finished = last_number_;
  for (std::uint64_t s = 1; s < clocks_.size(); ++s) {
    if (At(clocks_[s], s) > At(host, s)) finished = std::min(finished, At(host, s));
  }
  // The number of one that is not known to be done says less than what was found out before: what was once
  // done stays done.
  finished_ = std::max(finished_, finished);
  state_.FinishedUses(finished_);
}

bool Order::HostKnows(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  return At(ClockOf(stream), stream) <= At(ClockOf(kHost), stream);
}

void Order::AllIsOver() {
  const std::lock_guard lock(mutex_);
  Clock all;
  for (const Clock& clock : clocks_) Join(clock, all);
  Join(all, ClockOf(kHost));
  PublishFinished();
}

void Order::Goes(const char* name, std::uint64_t address, Bytes size) {
  const std::lock_guard lock(mutex_);
  Clock& host = ClockOf(kHost);
  const Access now{kHost, ++last_number_, name};
  const Use use{address, size, /*writes=*/true};
  Check(now, host, use);
  Note(now, use);
  host[kHost] = now.number;
}

void Order::Forget(std::uint64_t address, Bytes size) {
  const std::lock_guard lock(mutex_);
  SplitAt(address);
  SplitAt(address + size);
  segments_.erase(segments_.lower_bound(address), segments_.lower_bound(address + size));
}

void Order::Knows(int process, std::uint64_t use) {
  const std::lock_guard lock(mutex_);
  known_[process] = std::max(known_[process], use);
}

void Order::CheckAll(const Access& now, const Clock& clock, const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    if (use.bytes == 0) continue;
    CheckSharedChunk(now, use);
    CheckElsewhere(now, clock, use);
    Check(now, clock, use);
    Note(now, use);
  }
}

// Mapping by mapping: what lies behind each may lie elsewhere again.
void Order::CheckElsewhere(const Access& now, const Clock& clock, const Use& use) const {
  if (!memory_.HasDoubles() || !memory_.window().HasDeviceAddress(use.address)) return;
  const std::uint64_t end = use.address + use.bytes;
  for (std::uint64_t at = use.address; at < end;) {
    const auto mapped = memory_.At(at);
    if (!mapped) return;
    const std::uint64_t stop = std::min(end, mapped->address + mapped->mapping.size);
    for (const DevicePtr other : memory_.Elsewhere(at, stop - at)) {
      Check(now, clock, Use{other, stop - at, use.writes});
    }
    at = stop;
  }
}

void Order::Check(const Access& now, const Clock& clock, const Use& use) const {
  auto segment = segments_.upper_bound(use.address);
  if (segment != segments_.begin() && std::prev(segment)->second.end > use.address) --segment;
  for (; segment != segments_.end() && segment->first < use.address + use.bytes; ++segment) {
    CheckOne(segment->second.write, now, clock, use, true);
    if (!use.writes) continue;
    for (const Access& read : segment->second.reads) CheckOne(read, now, clock, use, false);
  }
}

void Order::CheckOne(const Access& before, const Access& now, const Clock& clock, const Use& use,
                     bool before_writes) {
  const bool ordered =
      before.number == 0 || before.stream == now.stream || before.number <= At(clock, before.stream);
  if (!ordered) Report(before, before_writes, now, use);
}

void Order::Report(const Access& before, bool before_wrote, const Access& now, const Use& use) {
  hocket_emulator_fatal(
      absl::StrFormat(
          "uses without order: \"%s\" on %s %s %s at 0x%x, which \"%s\" on %s %s before; no event, stream or "
          "context wait lies between. Make %s wait for %s first.",
          now.name, Where(now.stream), use.writes ? "writes" : "reads", FormatBytes(use.bytes), use.address,
          before.name, Where(before.stream), before_wrote ? "wrote" : "read", Where(now.stream),
          Where(before.stream))
          .c_str());
  std::abort();
}

void Order::SplitAt(std::uint64_t address) {
  auto segment = segments_.upper_bound(address);
  if (segment == segments_.begin()) return;
  --segment;
  if (segment->first == address || segment->second.end <= address) return;
  Segment upper = segment->second;
  segment->second.end = address;
  segments_.emplace(address, std::move(upper));
}

void Order::Note(const Access& now, const Use& use) {
  const std::uint64_t end = use.address + use.bytes;
  SplitAt(use.address);
  SplitAt(end);
  if (use.writes) {
    segments_.erase(segments_.lower_bound(use.address), segments_.lower_bound(end));
    segments_.emplace(use.address, Segment{end, now, {}});
    return;
  }
  std::uint64_t at = use.address;
  for (auto segment = segments_.lower_bound(at); at < end; ++segment) {
    if (segment == segments_.end() || segment->first > at) {  // never used so far
      const std::uint64_t gap_end = segment == segments_.end() ? end : std::min(end, segment->first);
      segment = segments_.emplace(at, Segment{gap_end, {}, {}}).first;
    }
    std::vector<Access>& reads = segment->second.reads;
    const auto same =
        std::find_if(reads.begin(), reads.end(), [&](const Access& r) { return r.stream == now.stream; });
    same == reads.end() ? reads.push_back(now) : void(*same = now);
    at = segment->second.end;
  }
}

void Order::CheckSharedChunk(const Access& now, const Use& use) {
  if (!memory_.window().HasDeviceAddress(use.address)) return;
  const auto mapped = memory_.At(use.address);
  if (!mapped || !mapped->mapping.chunk->shared()) return;
  const int other = state_.UseChunk(mapped->mapping.chunk->id(), now.number, known_.data());
  if (other < 0) return;
  hocket_emulator_fatal(
      absl::StrFormat("uses without order: \"%s\" on %s %s %s at 0x%x, memory that process %d used last; it "
                      "has not waited for that use to end. Let it synchronise before it hands "
                      "the memory on, or wait for an interprocess event that it recorded.",
                      now.name, Where(now.stream), use.writes ? "writes" : "reads", FormatBytes(use.bytes),
                      use.address, state_.PidOf(other))
          .c_str());
}

}  // namespace hocket::emulator
