// Processes with jobs on several devices.
//
// Such a process has turns one by one, and its step needs all of them: it keeps the first while it waits for
// the second. Each takes them in the same order, so that no two wait for each other, but for a device that it
// has not used before (UntieProcesses). One that finds no room breaks the order, too: it gives up the turn
// there, keeps the others and asks again. Until it has that turn back nobody has it whose own step may wait
// for another device (IsKeptFromProcesses), and it does not give up a turn in which one has part who waits,
// or will (MayStepAside). Where that leaves nobody who could make room for it, it is told no.
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"

namespace hocket::coordinator {
namespace {

// Its process may only have lost the connection.
bool MayComeAgain(const Job& job) { return !job.gone || job.hung_up; }

}  // namespace

// One that was expected may join as a new one: it had not heard yet that it was taken in. Then it is one of
// those that are expected of its process, whichever.
void Core::Reported(const Job& job) {
  if (state_.expected.erase(job.id) > 0) return;
  const auto other =
      absl::c_find_if(state_.expected, [&](const auto& entry) { return entry.second.pid == job.info.pid; });
  if (other != state_.expected.end()) state_.expected.erase(other);
}

void Core::NoteOthersOfProcess(Job& job) {
  for (auto& [id, other] : state_.jobs) {
    if (other.info.pid == job.info.pid && other.device != job.device)
      other.has_others = job.has_others = true;
  }
  several_of_process_ |= job.has_others;
}

// For a fellow of its gang, or for the turn of its process's other device.
bool Core::StepMayWait(const Job& job) const {
  if (GangOf(job) != nullptr || IsExpectedElsewhere(job)) return true;
  return job.has_others && absl::c_any_of(state_.jobs, [&](const auto& entry) {
           const Job& other = entry.second;
           return other.info.pid == job.info.pid && other.id != job.id && MayComeAgain(other);
         });
}

// After a restart another job of its process has not reported yet, and may have a turn.
bool Core::IsExpectedElsewhere(const Job& job) const {
  return absl::c_any_of(state_.expected, [&](const auto& entry) { return entry.second.pid == job.info.pid; });
}

bool Core::HasPartElsewhere(const Job& job) const {
  if (IsExpectedElsewhere(job)) return true;
  return job.has_others && absl::c_any_of(state_.jobs, [&](const auto& entry) {
           const Job& other = entry.second;
           return other.info.pid == job.info.pid && other.id != job.id &&
                  (HasPart(other) || other.hung_up_in_step);
         });
}

bool Core::IsKeptFromProcesses(const Device& device) const {
  return several_of_process_ && absl::c_any_of(active_, [&](JobId id) {
           const Job& job = this->job(id);
           return (job.in_step || job.waiting) && job.device == &device && HasPartElsewhere(job);
         });
}

// It waits for a fellow, or has not the turns of all its process's devices.
bool Core::NeedsAnotherTurn(const Job& job) const {
  if (GangOf(job) != nullptr || IsExpectedElsewhere(job)) return true;
  return job.has_others && absl::c_any_of(state_.jobs, [&](const auto& entry) {
           const Job& other = entry.second;
           return other.info.pid == job.info.pid && MayComeAgain(other) && !HasPart(other);
         });
}

bool Core::MayStepAside(const Job& job) const {
  const auto turn = state_.turns.find(DeviceOf(job).turn);
  if (turn == state_.turns.end() || !HasPartElsewhere(job)) return true;
  return absl::c_none_of(turn->second.granted,
                         [&](JobId id) { return id != job.id && NeedsAnotherTurn(this->job(id)); });
}

// The process of `other` waits in its step for a device that the process of `job` has, or for somebody who
// does.
bool Core::AwaitsProcessOf(const Job& other, const Job& job) const {
  const auto is_of_process = [&](JobId id) { return this->job(id).info.pid == job.info.pid; };
  return absl::c_any_of(AllAwaited(AwaitedBy(other)), [&](TurnNumber number) {
    return absl::c_any_of(state_.turns.at(number).granted, is_of_process);
  });
}

// Nobody who has part in its device goes on before its own process does.
bool Core::AwaitedOnItsDevice(const Job& job) const {
  return HasPartElsewhere(job) && absl::c_any_of(state_.jobs, [&](const auto& entry) {
           const Job& other = entry.second;
           return other.device == job.device && HasPart(other) && other.info.pid != job.info.pid &&
                  AwaitsProcessOf(other, job);
         });
}

// --- that wait for each other ---------------------------------------------------------------------

// Of processes that wait for each other's devices, each in its step: a device that a process uses for the
// first time it takes in the midst of a step, whatever it has by then. One of them loses that turn, and goes
// on with the device when it has the other one; meanwhile it keeps what it holds there, alone in its lane.
void Core::UntieProcesses() {
  if (!several_of_process_) return;
  for (JobId id : active_) LendOtherTurns(job(id));
  while (Job* const last = LastTied()) {
    Say(absl::StrCat(
            last->info.name, " (pid ", last->info.pid, ") has ", DeviceOf(*last).name,
            " in a step in which it waits for another device, whose holder waits for this one: it goes "
            "to that one first"),
        "tied", last->id);
    SetAside(*last);
  }
}

// From then on it waits in its step for ever, if at all. (A thread that has a turn outside of steps gives it
// soon.) Infinite future: it does not.
absl::Time Core::TiedAt(const Job& job) const {
  return job.waiting && HasPartElsewhere(job) ? job.asked + kTiedFor : absl::InfiniteFuture();
}

// The last to begin; if there is a choice, one in whose place another that waits there finds its room.
Job* Core::LastTied() {
  Job* last = nullptr;
  std::pair<bool, TurnNumber> latest;
  for (JobId id : active_) {
    const auto turn = state_.turns.find(job(id).turn);
    if (turn == state_.turns.end() || state_.gangs.contains(turn->second.entity)) continue;
    const bool tied = absl::c_any_of(active_, [&](JobId other) {
      return job(other).info.pid == job(id).info.pid && now_ >= TiedAt(job(other));
    });
    if (!tied || now_ < PassesUntil(turn->second) || !AwaitsItself(turn->second)) continue;
    const auto order = std::make_pair(SomebodyFits(turn->second), turn->first);
    if (last != nullptr && order < latest) continue;
    last = &job(id);
    latest = order;
  }
  return last;
}

// One that lacks room on a device, where everybody who has bytes that stay waits for another device that its
// process has: they go on with that one first.
void Core::LendOtherTurns(const Job& lacks) {
  if (!lacks.room || !lacks.room->asked || now_ < lacks.room->since + kTiedFor) return;
  if (!AwaitedOnItsDevice(lacks)) return;
  std::vector<JobId> others;
  for (JobId id : active_) {
    const Job& other = job(id);
    const bool has_turn = other.info.pid == lacks.info.pid && id != lacks.id && other.turn != 0;
    if (has_turn && GangOf(other) == nullptr && now_ >= PassesUntil(state_.turns.at(other.turn)))
      others.push_back(id);
  }
  for (JobId id : others) {
    Say(absl::StrCat(job(id).info.name, " (pid ", job(id).info.pid, ") keeps its lane of ",
                     DeviceOf(job(id)).name, ", and others go on beside it: it lacks room on ",
                     DeviceOf(lacks).name, ", which those have who wait for that device"),
        "tied", id);
    SetAside(job(id));
  }
}

}  // namespace hocket::coordinator
