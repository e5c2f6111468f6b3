#include "csrc/emulator/timing/timeline.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "csrc/base/check.h"
#include "csrc/emulator/timing/system.h"

namespace hocket::emulator::timing {
namespace {

// A dead owner leaves nothing to repair: what it had not committed does not count.
void Lock(TimelineState& state) {
  const int result = pthread_mutex_lock(&state.mutex);
  HOCKET_CHECK(result == 0 || result == EOWNERDEAD) << std::strerror(result);
  if (result == EOWNERDEAD) pthread_mutex_consistent(&state.mutex);
}

class Guard {
 public:
  explicit Guard(TimelineState& state) : state_(state) { Lock(state_); }
  ~Guard() { pthread_mutex_unlock(&state_.mutex); }

 private:
  TimelineState& state_;
};

// REQUIRES: the lock, for all below.

RoundRobin* Begin(TimelineState& state) {
  const std::uint32_t valid = state.valid;
  for (int engine = 0; engine < kEngines; ++engine) {
    Copy(state.schedules[valid][engine], state.schedules[1 - valid][engine]);
  }
  return state.schedules[1 - valid];
}

void CommitOther(TimelineState& state) { state.valid = 1 - state.valid; }

bool HasWork(const TimelineState& state, int place) {
  for (const RoundRobin& robin : state.schedules[state.valid]) {
    if (place < robin.end && robin.shares[place].busy()) return true;
  }
  return false;
}

// Places are freed last: one that is still taken is looked at again.
void Free(TimelineState& state, int place) {
  RoundRobin* working = Begin(state);
  for (int engine = 0; engine < kEngines; ++engine) {
    Share& share = working[engine].shares[place];
    share.submitted = share.received;
  }
  CommitOther(state);
  state.members[place].pid = 0;
}

void Take(TimelineState& state, int place, const Identity& who) {
  RoundRobin* working = Begin(state);
  for (int engine = 0; engine < kEngines; ++engine) {
    for (int i = working[engine].end; i <= place; ++i) working[engine].shares[i] = {};
    working[engine].shares[place] = {};
    working[engine].end = std::max(working[engine].end, place + 1);
  }
  CommitOther(state);
  state.members[place].start_time = who.start_time;
  state.members[place].pid = who.pid;
}

// So is what the asker was before exec().
bool IsDead(const Member& member, const Identity& asker) {
  return member.pid != 0 && (member.pid == asker.pid || !asker.lives(member.pid, member.start_time));
}

int FindPlace(TimelineState& state, const Identity& who) {
  for (int place = 0; place < kMaxShares; ++place) {
    if (IsDead(state.members[place], who)) Free(state, place);
    if (state.members[place].pid == 0) return place;
  }
  return -1;
}

}  // namespace

void Initialize(TimelineState& state, Nanos slice) {
  HOCKET_CHECK(slice > 0) << "slice " << slice;
  InitializeShared(state.mutex);
  state.slice = slice;
}

void SetSlice(TimelineState& state, Nanos slice) {
  HOCKET_CHECK(slice > 0) << "slice " << slice;
  const Guard guard(state);
  RoundRobin* working = Begin(state);
  for (int engine = 0; engine < kEngines; ++engine) working[engine].slice_left = 0;
  CommitOther(state);
  state.slice = slice;
}

absl::StatusOr<std::unique_ptr<DeviceTimeline>> DeviceTimeline::Join(TimelineState& state,
                                                                     const Identity& who) {
  const Guard guard(state);
  const int place = FindPlace(state, who);
  if (place < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot join the emulated device's timeline: ", kMaxShares,
                     " living processes use it already. End some of them."));
  }
  Take(state, place, who);
  return std::unique_ptr<DeviceTimeline>(new DeviceTimeline(state, who, place));
}

DeviceTimeline::~DeviceTimeline() {
  if (self_ < 0) return;
  const Guard guard(state_);
  Free(state_, self_);
}

bool DeviceTimeline::Shared() const {
  for (int place = 0; place < kMaxShares; ++place) {
    if (place != self_ && state_.members[place].pid.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

void DeviceTimeline::DropDead(Nanos now, Nanos interval) {
  if (now - state_.looked_for_dead < interval) return;
  const Guard guard(state_);
  state_.looked_for_dead = now;
  for (int place = 0; place < kMaxShares; ++place) {
    if (place == self_ || !HasWork(state_, place)) continue;
    const Member& member = state_.members[place];
    if (member.pid == 0 || !lives_(member.pid, member.start_time)) Free(state_, place);
  }
}

Transaction::Transaction(DeviceTimeline& timeline) : timeline_(timeline) {
  Lock(timeline_.state_);
  working_ = Begin(timeline_.state_);
}

Transaction::~Transaction() { pthread_mutex_unlock(&timeline_.state_.mutex); }

void Transaction::Submit(Engine engine, Nanos at, Nanos work) {
  Advance(engine, at);
  share(engine).submitted += work;
}

void Transaction::Advance(Engine engine, Nanos until, Nanos received) {
  timing::Advance(robin(engine), timeline_.state_.slice, until, {timeline_.self_, received}, logs(engine));
}

Nanos Transaction::ReceivedAt(Engine engine, Nanos received) const {
  const Share& mine = share(engine);
  if (received <= mine.received) return timing::ReceivedAt(mine, logs(engine)[timeline_.self_], received);
  if (received > mine.submitted) return kNever;
  if (!Contended(engine)) return now(engine) + (received - mine.received);
  RoundRobin ahead;
  Copy(robin(engine), ahead);
  timing::Advance(ahead, timeline_.state_.slice, kNever, {timeline_.self_, received}, nullptr);
  return ahead.now;
}

Nanos Transaction::BusyUntil(Engine engine) const {
  const RoundRobin& shared = robin(engine);
  Nanos left = 0;
  for (int place = 0; place < shared.end; ++place)
    left += shared.shares[place].submitted - shared.shares[place].received;
  return shared.now + left;
}

void Transaction::Commit() { CommitOther(timeline_.state_); }

}  // namespace hocket::emulator::timing
