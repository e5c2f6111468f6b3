// Turns that their holders pass on, without waiting for us.
//
//   A (holds T)                     core                        B (waits)
//      |<-Yield now, pass p-----------|-Grant turn T+1, pass p----->|   a promise: nothing has changed yet
//      |-TurnOver T, passed p-------->|                             |
//      |=====p, in the lane's page (csrc/client/lane_page.h)=======>|   runs
//      |                              | T+1 is B's
//
// What would be decided at the end of a turn is decided when its holder is asked to stop, where it can be
// known by then: by a policy whose choice does not depend on when it is asked, for a single job that has all
// its bytes, in the holder's lane. It is looked at anew with each event, and withdrawn where it would be
// another now; the holder may have passed the turn on before it hears of that, and then it is so. One promise
// a turn: two jobs never wait for what one holder can pass.
//
// A process with several devices does not pass turns: one of them may be taken from it in the midst of its
// step (UntieProcesses).
//
// A holder that has asked for room, or in whose turn the arena has changed, does not pass it: that is ours to
// think about, and for the next one to hear of first. Its TurnOver says whether it did, and lies in its
// socket before the next job is woken (PasserTo). A job that was promised a turn is not spilled for others.
//
// Where a holder is gone without a word while a promise stands, it may have passed its turn on before: the
// one who was promised it has it.
//
// Nothing depends on the page: where the next job is not seen to use its turn within half a second, it is
// sent the Grant (kSayGrantAfter), which it heeds if it has not seen the page.
#include <algorithm>
#include <utility>

#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {
namespace {

// Rounded up: the timer is the same for all turns of a while, and is seldom set anew.
absl::Time SayGrantAt(absl::Time now) {
  return absl::UnixEpoch() + absl::Ceil(now + kSayGrantAfter - absl::UnixEpoch(), kSayGrantAfter);
}

}  // namespace

JobId Core::PasserTo(JobId job) const {
  if (job == 0) return 0;
  for (const auto& [number, turn] : state_.turns) {
    if (turn.next_is_promised && turn.next_is_promised->to == job) return turn.next_is_promised->by;
  }
  return 0;
}

bool Core::IsPromised(const Job& job) const { return PasserTo(job.id) != 0; }

bool Core::MayPromise(const Turn& turn) const {
  if (!turn.may_promise || turn.devices.size() != 1 || turn.granted.size() != 1 || turn.company ||
      turn.lacks_room || turn.overdue || state_.overdue_go_on || reserved_ != 0 || anybody_serves_ ||
      WindowOpen())
    return false;
  const Job& holder = job(*turn.granted.begin());
  return holder.heeds_pass && !holder.has_others && GangOf(holder) == nullptr &&
         holder.told_turn == turn.number && !holder.room && holder.lacks_headroom == 0 &&
         DeviceOf(holder).policy->ForeseesNext();
}

// As Schedule() would choose if the turn of `device` ended now; none: it may be another when it ends. A
// holder that is asked to stop has had as much as its policy wants for it, unless it is asked because it
// would idle after its step: then it may be expected back first.
std::optional<Core::Next> Core::NextForSure(const Device& device) const {
  const Entities all = Candidates(device);
  if (all.empty() || BehindGangs(all) != 0 || reserved_ != 0) return std::nullopt;
  const Entities fit = Fitting(NotAfterOthers(all));
  if (fit.empty()) return std::nullopt;
  Next next = PickNext(device, fit);
  if (next.by_guarantee || WaitedFor(device, next.entity).second > now_) return std::nullopt;
  const Turn& turn = state_.turns.at(device.turn);
  if (IdlesAfterEachStep(turn)) {
    JobView holder = ViewOf(turn.entity);
    holder.left = now_;
    if (device.policy->KeepFree(holder, ViewOf(next.entity)) > absl::ZeroDuration()) return std::nullopt;
  }
  return next;
}

// What the holder leaves of a memory cap that both share is known when its turn is over, and to be told
// first.
bool Core::CanBePromised(const Job& next, const Job& holder) const {
  const Device& device = DeviceOf(holder);
  const bool keeps_lane = now_ < device.lanes_until || FirstLaneBeside(next.lane) == next.lane;
  const auto lane = device.lanes.find(next.lane);
  const bool alone_there = std::none_of(active_.begin(), active_.end(), [&](JobId id) {
    const Job& other = job(id);
    return other.device == &device && (other.set_aside || other.overstays != 0);
  });
  return next.heeds_pass && GangOf(next) == nullptr && next.lane == holder.lane && keeps_lane &&
         alone_there && next.need == 0 && next.spilled == 0 && !next.spill && !next.ahead &&
         (lane == device.lanes.end() || !lane->second.fresh) && !ShareMemoryCap(next, holder);
}

// REQUIRES: its holder is asked to stop, now or since before.
void Core::PromiseNext(Turn& turn) {
  if (!MayPromise(turn)) return;
  const Job& holder = job(*turn.granted.begin());
  const Device& device = DeviceOf(holder);
  const std::optional<Next> next = NextForSure(device);
  if (!next || !state_.jobs.contains(next->entity)) return;
  Job& to = job(next->entity);
  if (!CanBePromised(to, holder)) return;
  const bool contended = Candidates(device).size() > 1 && SwitchCost(to.entity) == absl::ZeroDuration();
  turn.may_promise = false;
  turn.next_is_promised = Promise{.pass = next_pass_++,
                                  .to = to.id,
                                  .by = holder.id,
                                  .turn = next_turn_++,
                                  .reason = next->reason,
                                  .contended = contended};
  TellLimit(to);
  SendTo(to.id, wire::Grant{.turn = turn.next_is_promised->turn,
                            .contended = contended,
                            .reason = next->reason,
                            .pass = turn.next_is_promised->pass});
}

// Somebody may be next for sure only now that the holder has been asked to stop: his bytes have come back
// ahead of the turn, or he has just begun to wait.
void Core::PromiseLate(Turn& turn) {
  if (!turn.asked_stop || turn.in_order) return;
  PromiseNext(turn);
  if (turn.next_is_promised) SendYield(job(turn.next_is_promised->by), true, 0, turn.next_is_promised->pass);
}

void Core::LookAtPromise(Turn& turn) {
  if (!turn.next_is_promised) return PromiseLate(turn);
  if (turn.next_is_promised->withdrawn != absl::InfiniteFuture()) return;
  const JobId to = turn.next_is_promised->to;
  const Job& holder = job(turn.next_is_promised->by);
  const std::optional<Next> next = NextForSure(DeviceOf(holder));
  const bool stands =
      next && next->entity == to && CanBePromised(job(to), holder) && !turn.overdue && !holder.has_others;
  if (stands) return;
  turn.next_is_promised->withdrawn = now_;
  SendYield(holder, true, 0);
}

// As it has told us. Whoever waits for it has a Grant like any other.
void Core::WillNotPass(const Job& holder) {
  if (holder.turn == 0) return;
  Turn& turn = state_.turns.at(holder.turn);
  turn.may_promise = false;
  turn.next_is_promised.reset();
}

// From then on the holder has heard that it is not to, or its process stands. Infinite past: nothing was
// promised. Until then nobody else is given a turn beside it.
absl::Time Core::PassesUntil(const Turn& turn) const {
  return turn.next_is_promised ? turn.next_is_promised->withdrawn + kAnswerLimit : absl::InfinitePast();
}

// The job runs, whatever has been decided since. In a gang, or where the device is another's meanwhile, as
// one that joins again with its turn. Not `told`: the holder is gone and may have passed its turn on or not,
// so this job has it in either case.
void Core::TakePassed(const Promise& promise, bool told) {
  const auto found = state_.jobs.find(promise.to);
  if (found == state_.jobs.end() || found->second.gone || !found->second.waiting) return;
  Job& job = found->second;
  Device& device = DeviceOf(job);
  if (device.turn != 0 || GangOf(job) != nullptr) {
    job.waiting = job.held_back = job.held_out = job.lacks_room = job.told_stop = job.movable = false;
    SendTo(job.id, wire::Grant{.turn = promise.turn, .pass = promise.pass, .passed = true});
    return KeepTurn(job, promise.turn, /*has_lock=*/true);
  }
  for (EntityId entity : NotAfterOthers(Candidates(device))) passed_over_[entity] += entity != job.id;
  GrantTurn({.entity = job.id, .reason = promise.reason}, promise.turn, &promise);
  Turn& turn = state_.turns.at(promise.turn);
  const bool stood = told && promise.withdrawn == absl::InfiniteFuture();
  turn.say_grant_at = stood ? SayGrantAt(now_) : now_;
}

// Its job may not have been told: whoever passed the turn on was killed, or stopped, before he could.
void Core::SayGrant(Turn& turn) {
  if (now_ < turn.say_grant_at) return;
  turn.say_grant_at = absl::InfiniteFuture();
  turn.grant_said = now_;
  for (JobId id : turn.granted) {
    Job& holder = job(id);
    SendTo(id, wire::Grant{.turn = turn.number,
                           .fresh_arena = std::exchange(DeviceOf(holder).lanes[holder.lane].fresh, false),
                           .contended = turn.asked_idle,
                           .reason = turn.reason,
                           .pass = turn.passed,
                           .passed = true});
  }
}

}  // namespace hocket::coordinator
