// What goes into the core and what comes out of it.
#ifndef HOCKET_COORDINATOR_CORE_EVENTS_H_
#define HOCKET_COORDINATOR_CORE_EVENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/lack.h"
#include "coordinator/core/owner.h"
#include "coordinator/core/time_account.h"
#include "csrc/base/bytes.h"
#include "csrc/wire/messages.h"

namespace hocket::coordinator {

// Given by the server, the same before and after a restart; never used again.
using JobId = std::uint64_t;

// --- events ---------------------------------------------------------------------------------------

// A job wants in. Its values have been checked (server/admission.h) and its name is unique.
struct JobJoins {
  wire::Join join;
  unsigned user = 0;                // uid
  bool paused = false;              // people had paused it when the coordinator was restarted
  std::optional<TimeAccount> time;  // of its time cap, as it stood then; none: it had no cap
  Bytes memory_guarantee = 0;       // as people had set it
  double time_guarantee = 0;        // the same
  std::optional<KnownNeed> known;   // from earlier runs of its program
  std::vector<JobId> replaces;      // what the same process was until now, known to the core: no longer
};
// The process is gone (its pidfd says so), also of one that was expected after a restart. `steps`: those that
// it has done, by its shared page; 0: it says nothing.
struct JobDied {
  std::uint64_t steps = 0;
};
// The process lives, but its connection does not: it broke the protocol, or closed it without Leave.
struct JobHungUp {
  std::uint64_t steps = 0;  // as JobDied's
};
// The time set by the last SetTimer has come.
struct Tick {};
// A job of before a restart.
struct FormerJob {
  std::uint64_t pid = 0;
  std::vector<std::string> locks;  // of lanes, that its process had then
};
// First event after a restart: jobs of the state folder that are alive and have not reported yet. Also with
// nobody left: memory of those that died meanwhile may still come back.
struct Restarted {
  std::map<JobId, FormerJob> expected;
};
// TakeBack has succeeded: the job has not read the Grant that answers its Wait of this number, and will not
// obey it.
struct GrantTakenBack {
  std::uint64_t wait = 0;
};
// By people, through the CLI.
struct SetPaused {
  bool paused = false;
};
struct SetShare {
  double weight = 1;
  std::string priority = "normal";
  std::optional<std::uint64_t> total_steps;  // 0: unknown
};
// The share of its device's time that it may have at most, also when nobody else waits.
struct SetTimeCap {
  double cap = 0;  // up to 1; 0: none
};
// The share of its device's time that it gets at least, while it wants it; above that it has what others
// leave.
struct SetTimeGuarantee {
  double share = 0;  // up to 1; 0: none
};
// Whose jobs it is counted among.
struct SetGroup {
  std::string group;  // empty: none
};
// What a group or a user is allowed and promised, its jobs together; nobody's event. Job 0.
struct SetQuota {
  Owner of;  // no job
  Quota quota;
};
// The most memory that it may hold from now on, resident and spilled.
struct SetMemoryLimit {
  Bytes limit = 0;  // up to the device's capacity; 0: that
};
// Of its resident bytes so many are spilled last, when nothing else makes room.
struct SetMemoryGuarantee {
  Bytes guarantee = 0;
};
struct SetPolicy {
  std::string name;  // a known one
};
struct SetSwitchShare {
  double share = 0;  // 0 < share <= 1
};
// By so much what moves for others may slow a holder's steps down.
struct SetLinkBound {
  double bound = 0;  // 0 < bound <= 1; 1: they are not looked at
};
struct SetProductionBound {
  double bound = 0;  // 0 < bound < 1
};
// Of jobs that run at the same time (policy pack).
struct SetMostTogether {
  int most = 0;  // > 0
};
// Whether a turn whose holder is overdue is set aside, and the others go on in another lane.
struct SetOverdue {
  bool go_on = false;
};
// Answers LookAt: so many steps the job has completed, the last one at `at`. Infinite past: nothing is known.
struct StepsSeen {
  std::uint64_t steps = 0;
  absl::Time at = absl::InfinitePast();
};

// Something happened to `job` (0: to nobody in particular) at `at`. Times never go backwards.
struct Event {
  absl::Time at;
  // Nobody is late yet by what he was to say after this: he may have said it, and has not been heard.
  absl::Time due = absl::InfiniteFuture();
  JobId job = 0;
  std::variant<Tick, JobJoins, JobDied, JobHungUp, Restarted, GrantTakenBack, SetPaused, SetShare, SetTimeCap,
               SetTimeGuarantee, SetGroup, SetQuota, SetMemoryLimit, SetMemoryGuarantee, SetPolicy,
               SetSwitchShare, SetLinkBound, SetProductionBound, SetMostTogether, SetOverdue, StepsSeen,
               wire::Wait, wire::TurnOver, wire::YieldAck, wire::NeedRoom, wire::Spilled, wire::ArenaGrew,
               wire::ArenaLost, wire::ArenaHeard, wire::Gang, wire::Report, wire::Leave, wire::Restored,
               wire::StoodBy, wire::LacksHeadroom>
      what;
};

// --- actions --------------------------------------------------------------------------------------

// `with_descriptor`: together with the descriptor that came with the event.
struct Send {
  JobId to = 0;
  wire::Message message;
  bool with_descriptor = false;
};
// Wake the core with a Tick at `at`; replaces the timer set before.
struct SetTimer {
  absl::Time at;
};
// Try to take the Grant back that answers `job`'s Wait of this number (csrc/wire/grant_word.h). Success is
// told with GrantTakenBack before any other event; otherwise the job has the turn, and nothing is told.
struct TakeBack {
  JobId job = 0;
  std::uint64_t wait = 0;
};
// Look into `job`'s shared page how far it is. Answered by StepsSeen, before any other event.
struct LookAt {
  JobId job = 0;
};
// `job` broke the protocol: end its connection with this reason. Nothing else has changed.
struct Reject {
  JobId job = 0;
  std::string reason;
};
// A sentence for the log.
struct Log {
  std::string text;
  std::string event;  // a word for what has happened, see coordinator/server/log.h
  JobId job = 0;      // 0: of none, or of several
};
// A turn is over; one record for each job that had part in it.
struct TurnEnded {
  std::uint64_t turn = 0;
  JobId job = 0;
  std::uint64_t pid = 0;
  bool rejoined = false;  // it was another coordinator's before, with the same number
  std::string name;
  unsigned user = 0;  // uid
  std::string device;
  absl::Time start;  // of the Grant
  absl::Time end;    // of the TurnOver
  std::uint64_t steps = 0;
  Bytes restored = 0;        // at its begin
  Bytes ahead = 0;           // before it, for it
  Bytes spilled = 0;         // by others, to make room for it
  absl::Duration ready;      // from the grant until it ran
  absl::Duration waited;     // from the Wait to the grant; zero where it was not seen (a restart)
  absl::Duration hand_over;  // from the end of the turn before (or the asking) to its first step
  bool died = false;
  std::string reason;  // the policy's
};

// A job, for a record of what has happened.
struct JobRef {
  JobId id = 0;  // 0: nobody
  std::uint64_t pid = 0;
  bool rejoined = false;
  unsigned user = 0;
  std::string name;
  std::string device;
};
// A job's bytes have been moved to the host: from the order to its last answer. Nobody's order, and no time,
// where it did so by itself.
struct SpillEnded {
  JobRef job;
  JobRef for_job;
  absl::Time start;
  absl::Time end;
  Bytes bytes = 0;
};

using Action = std::variant<Send, SetTimer, TakeBack, LookAt, Reject, Log, TurnEnded, SpillEnded>;

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_EVENTS_H_
