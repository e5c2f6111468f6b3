// What the core knows: jobs, gangs, devices with their lanes and ledgers, and turns. Plain values; the rules
// that keep them true are in core.h.
#ifndef HOCKET_COORDINATOR_CORE_STATE_H_
#define HOCKET_COORDINATOR_CORE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "coordinator/core/arena.h"
#include "coordinator/core/events.h"
#include "coordinator/core/lack.h"
#include "coordinator/core/link_rate.h"
#include "coordinator/core/link_sense.h"
#include "coordinator/core/move_record.h"
#include "coordinator/core/owner.h"
#include "coordinator/core/slowdown.h"
#include "coordinator/core/step_watch.h"
#include "coordinator/core/time_guarantee.h"
#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

using TurnNumber = std::uint64_t;
using DeviceKey = std::string;  // the driver's UUID, or "cpu"
using OnDevice = std::pair<Owner, DeviceKey>;
struct Device;
// Of State::devices, where they stay as long as a job or a turn has to do with them.
using Devices = absl::InlinedVector<Device*, 1>;

// A Spill sent to a job and not answered yet.
struct SpillOrder {
  std::uint64_t request = 0;
  Bytes bytes = 0;    // that are still to come
  JobId for_job = 0;  // who needs the room
  absl::Time sent;    // or answered last, in part
  Bytes freed = 0;    // by the parts so far
  absl::Time begun;
  absl::Duration host_taking;  // of the time since then, as told
  Bytes copied = 0;            // of what was freed, over the link
  Foretold foretold;
};

// A Restore sent to a job that waits, and not answered yet.
struct RestoreOrder {
  std::uint64_t request = 0;
  Bytes bytes = 0;
  TurnNumber turn = 0;  // the other's, in which it was sent
  absl::Time sent;
  Foretold foretold;
};

// When the job counts as silent.
absl::Time AnswerLimit(const SpillOrder& order);
absl::Time AnswerLimit(const RestoreOrder& order);

// A job's device is full and it waits for others to make room.
struct RoomRequest {
  Bytes bytes = 0;
  bool restoring = false;
  bool asked = false;  // false: foreseen at the grant, nobody waits for an answer
  absl::Time since;
  Bytes freed = 0;                                // given back by others since then
  absl::Time retry_at = absl::InfiniteFuture();   // when to let it try again though nothing was freed
  bool others_first = false;                      // then: it may depend on what they do in a turn
  absl::Time lanes_until = absl::InfinitePast();  // arenas that nobody uses are being given back for it
};

// The host link, while the job uses its turn and others' bytes move (link.cc).
struct LinkUse {
  LinkSense sense;
  absl::Duration time;  // that they took of it, in this part
  absl::Duration owed;  // of that, and of what they took before: it lets them wait until it is made up for
  absl::Time paid_until = absl::InfinitePast();
  absl::Time from = absl::InfinitePast();  // it uses the turn that it has, as far as that is known
};

struct Job {
  JobId id = 0;
  Device* device = nullptr;  // that `info` names
  wire::Join info;           // as it joined; weight and priority as set since
  Priority priority = Priority::kNormal;
  unsigned user = 0;
  absl::Time joined;
  absl::Time first_asked = absl::InfiniteFuture();
  EntityId entity = 0;      // itself, or its complete gang
  bool has_others = false;  // its process has, or has had, jobs on other devices, too
  int lane = 0;

  // Asking and having.
  bool waiting = false;
  Bytes need = 0;    // spilled bytes that must come back first, and
  Bytes lacked = 0;  // what it found no room for in its last turn
  absl::Time asked;
  std::uint64_t wait = 0;     // number of its last Wait; 0: it gives none
  bool heeds_pass = false;    // as it said there: the turn can be promised to it
  bool grant_open = false;    // its Grant may lie unread, and has not been tried to be taken back
  bool taken_back = false;    // its Grant was taken back: it will ask again when it reads that
  int gangs_first = 0;        // turns of gangs that have begun on its device while it waited for one there
  bool after_others = false;  // it found no room in its last turn: others have the next
  bool in_step = false;       // the same, and it has not asked yet, though it will at once
  // Its last turn lasted through its usual gaps and ended in one that was not: that says nothing of them.
  bool gap_was_long = false;
  TurnNumber turn = 0;  // 0: none
  TurnNumber told_turn =
      0;  // the number this job knows it by: turns of a gang's ranks are merged after a restart
  // A turn that it still has though another's lasts on the device (it joined again too late): it has been
  // asked to stop, and tells when it is over. 0: none.
  TurnNumber overstays = 0;
  // It overstays because it was overdue, in the way of a gang, or a rank whose fellow has given its turn up
  // for want of room, or of a gang that began crosswise to another, or waits for the lock of a rank that
  // overstays: alone in its lane.
  bool set_aside = false;
  absl::Time granted;
  bool told_stop = false;                  // in this turn, to stop after its step
  bool told_stand_by = false;              // in this turn: it is to stand still for a request, and
  bool stands_by = false;                  // does so
  absl::Time stands_since;                 // it was told
  absl::Duration stood;                    // in this turn, so far
  bool paced = false;                      // it has been told not to run ahead
  std::uint64_t steps_before = 0;          // completed before this turn
  absl::Duration granted_after;            // since the device was free and this job asked
  absl::Time left = absl::InfinitePast();  // end of its last turn

  // Measured.
  Estimator step;    // time in its turn for a step
  Estimator alone;   // the same, from parts in which others waited and nobody ran beside it
  Estimator beside;  // the same, where somebody ran beside it
  Slowdown slowdown;
  absl::Time passed = absl::InfinitePast();    // until then it has been told what was lost
  StepWatch watch;                             // of its steps beside nobody
  absl::Time alone_at = absl::InfinitePast();  // its last sample
  bool accompanied = false;                    // somebody has run beside it in this part
  bool alone_first = false;   // it found no room beside others: not again before a turn alone
  int asides = 0;             // how often it was told to step aside in this part, as a guest
  Estimator gap;              // from the end of its turn until it asks again
  Estimator ready;            // from the grant until it runs
  absl::Duration last_ready;  // of this turn, or of the last one; not yet known: zero
  absl::Duration last_passage;

  // Standing aside.
  bool paused = false;
  bool gone = false;             // no longer takes part; its process lives and its bytes count
  bool hung_up = false;          // and it has not said goodbye, so that it has its lane's arena mapped
  bool hung_up_in_step = false;  // that others may have to end with it: it has the lane's lock, perhaps
  absl::Time gone_since = absl::InfinitePast();
  bool unresponsive = false;  // did not answer a Spill, or take up a Grant, in time
  bool lacks_room = false;    // that others have to give back first
  bool held_out = false;      // it waits, and it or a rank of its gang lacks room: as if it did not ask yet
  bool held_back = false;     // it waits, and has had what its time cap allows: the same

  // The ledger, as last told.
  Bytes persistent = 0;
  Bytes kept_arena = 0;  // of that: chunks of its lane's arena that it has kept when it hung up
  Bytes spilled = 0;
  Bytes transient_peak = 0;
  Bytes host = wire::kNoHostLimit;  // what its host memory takes of it, as told last; max: it has not said
  std::optional<KnownNeed> known;   // from earlier runs of its program
  Bytes most_held = 0;              // persistent and spilled together, in this run
  Bytes most_transient = 0;
  absl::Time lacks_since = absl::InfiniteFuture();  // it gave its turn up for want of room, first of several
  std::optional<Shortage> shortage;                 // then, if nobody can be moved for it
  Bytes guarantee = 0;                              // of these, spilled last
  std::optional<Bytes> told_limit;  // of its memory, by us; none: it knows its own, as it joined
  bool movable = false;
  std::string why_not_movable;
  std::string cannot_spill;  // not empty: it was asked, stood at its doors and gave nothing
  std::optional<SpillOrder> spill;
  std::optional<RoomRequest> room;
  std::optional<RestoreOrder> ahead;
  Bytes piece = 0;  // its bytes come back in pieces of so many; 0: not known
  Bytes reach = 0;  // so much it and its arena held when it had grown in a turn and others had made room
  LinkUse link;
  int quiet_turns = 0;        // since then, in which it did not ask for any
  Bytes restored_ahead = 0;   // for its next turn, or the one that it has
  absl::Duration ahead_time;  // that took so long
  Bytes lacks_headroom = 0;   // in its turn, less what others have given back since it said so
  Bytes unclaimed = 0;  // others have given it back for this job's turn, and nobody waited for an answer
  absl::Time room_since = absl::InfinitePast();  // first of several requests in a row
  absl::Time room_answered = absl::InfinitePast();
  KnownArena arena;

  // Counted.
  std::uint64_t steps = 0;
  std::uint64_t turns = 0;
  absl::Duration held;    // with the turn, in all
  absl::Duration waited;  // for it, in all
  std::optional<absl::Duration>
      switch_cost;           // running average of what the begin of a turn costs when bytes move
  bool first_cost = false;   // that is the first of them
  Bytes spilled_total = 0;   // copied, as told; the shared page may know of more
  Bytes restored_total = 0;  // the same
  MoveRecord spills;
  MoveRecord restores;
  Foretold coming;  // what is to come back in the turn that it has
};

struct Gang {
  EntityId id = 0;
  std::string name;
  unsigned user = 0;
  std::uint64_t size = 0;
  bool complete = false;
  bool held_out = false;  // a rank lacks room that others have to give back first: none is given a turn
  // By rank. Where a rank's process has several devices, `size` more for each after the first: they have the
  // gang's turns, too.
  std::map<std::uint64_t, JobId> ranks;
  absl::Time last_came;                 // when the last of them did
  std::map<JobId, std::uint64_t> base;  // steps completed when the ranks last stood at the same step

  // Its ranks that are there.
  std::uint64_t Here() const {
    return static_cast<std::uint64_t>(std::distance(ranks.begin(), ranks.lower_bound(size)));
  }
};

// A lane's number on its device: each user who has jobs there has so many of his own.
inline constexpr int kLanesOfAUser = 8192;
// Among those of its user. The first, 0, is the one for jobs that have their turns one after the other.
constexpr int LaneIndex(int lane) { return lane % kLanesOfAUser; }
constexpr int FirstLaneBeside(int lane) { return lane - LaneIndex(lane); }

// The jobs of a device, all one user's, that pass one arena around.
struct Lane {
  LaneArena arena;
  bool fresh = false;  // the next Grant tells its job to forget the arena
};

// Jobs may name as many bytes as they like: the sum does not wrap.
void Add(Bytes bytes, Bytes& sum);
// On the device, without what the job has kept of its lane's arena when it hung up.
Bytes OwnResident(const Job& job);
// The same and what is spilled: what memory caps count, and what another run of its program will need.
Bytes OwnBytes(const Job& job);
// Device memory that nobody we know holds any more and that may still be on its way back to the driver: a
// dead job's, or (with `bytes` 0) arena chunks that not every job has unmapped yet.
struct Returning {
  Bytes bytes = 0;
  absl::Time until;                          // after it we no longer wait for it
  absl::Time seen = absl::InfiniteFuture();  // since then the driver seems to have it
};

struct Device {
  DeviceKey key;
  std::string name;
  Bytes capacity = 0;
  std::size_t jobs = 0;  // that we know there, also those that are gone
  std::unique_ptr<Policy> policy;
  TurnNumber turn = 0;  // 0: free
  absl::Time free_since;
  std::map<int, Lane> lanes;
  std::vector<Returning> returning;
  std::uint64_t departures = 0;  // of jobs and of their processes: memory has come back
  LinkRate link;                 // to the host
  Bytes beside = 0;              // moved for others while somebody used the device, and
  absl::Duration beside_time;    // that took so long of the link
  Bytes unseen = 0;  // in use besides what the ledger knows, as seen last: the driver's own, other programs'
  absl::Time unseen_at = absl::InfinitePast();      // when that was
  absl::Time counted_until = absl::InfinitePast();  // guarantees know what it has done
  absl::Time kept_until = absl::InfinitePast();     // free until then for `kept_for`, which may be back soon
  EntityId kept_for = 0;
  // The bytes that came for a turn of `stays` remain until then, as long as that turn would have lasted,
  // though its pauses are others': of those whose bytes are there as well (pauses.cc).
  EntityId stays = 0;
  absl::Time stays_until = absl::InfinitePast();
  // Until then jobs keep the lanes that they have; infinite future: some run at the same time.
  absl::Time lanes_until = absl::InfinitePast();
};

// Those who have parts in one turn, as long as nobody comes or goes.
struct Company {
  struct Mark {
    std::uint64_t steps = 0;
    absl::Time at;
  };
  absl::Time since;
  absl::Time look_at;          // when to see how far they are; infinite future: the answers are to come
  std::map<JobId, Mark> from;  // the measurement that lasts
  std::map<JobId, Mark> seen;  // what has been answered
};

// The turn after another, promised to a job that waits: the holder may pass it on without us (passing.cc).
struct Promise {
  std::uint64_t pass = 0;  // its number: none is given twice
  JobId to = 0;
  JobId by = 0;
  TurnNumber turn = 0;
  std::string reason;
  bool contended = false;  // as the job was told
  // Then the holder was told not to; it may have done so before it heard. Infinite future: not.
  absl::Time withdrawn = absl::InfiniteFuture();
};

// The right to use one or more devices, held by an entity. On one device a single job may have *guests*: jobs
// that have part in its turn, each in a lane of its own (guests.cc).
struct Turn {
  TurnNumber number = 0;
  EntityId entity = 0;
  Devices devices;
  std::set<JobId> granted;                             // who has part in it now
  std::map<JobId, std::string> guests;                 // of these, who are not the entity's, and why they may
  std::optional<Company> company;                      // while there are guests
  bool no_guests = false;                              // room is lacking: no more of them
  absl::Time place_kept_until = absl::InfinitePast();  // for a guest who is about to ask (guests.cc)
  absl::Time first_wanted = absl::InfiniteFuture();    // somebody began to wait for it
  absl::Time start;
  absl::Time ready;    // when it could run; the start as long as nobody has said
  absl::Time charged;  // until when the policy has been told of its device time
  std::string reason;
  bool within_stay = false;                          // it was given while a stay lasted, and
  std::optional<absl::Time> stays_until;             // to its job: it ends with it
  bool by_guarantee = false;                         // not by the policy, which is not charged for it
  bool used = false;                                 // a part of it has ended that was not taken back
  bool contended = false;                            // somebody has waited for it
  bool asked_long_idle = false;                      // Yield{now=false} for a long pause is out
  bool asked_idle = false;                           // Yield{now=false} is out
  bool asked_stop = false;                           // Yield{now=true} is out
  absl::Time stop_asked;                             // since when; the last who was told
  bool in_order = false;                             // and not all have been told (guests.cc)
  absl::Time stops_by;                               // then: when the one who was should have stopped
  absl::Time wanted_since = absl::InfiniteFuture();  // somebody waits for it
  bool overdue = false;  // has not stopped within its limit while others wait, and has been named
  std::optional<Promise> next_is_promised;
  bool may_promise = true;   // nobody has been promised the next one yet, and its holder would pass it on
  std::uint64_t passed = 0;  // it has come by a promise of this number; 0: by a Grant
  // Then: when its job is sent the Grant all the same. Infinite future: it was.
  absl::Time say_grant_at = absl::InfiniteFuture();
  absl::Time grant_said = absl::InfinitePast();
  std::uint64_t stop = 0;      // gangs: the step after which all stop, counted from Gang::base
  int renamed = 0;             // how often a later one had to be named
  Bytes spilled = 0;           // by others, for it
  absl::Duration host_taking;  // of its time, that they took and pinned host memory for these
  absl::Time host_taken_until = absl::InfinitePast();  // as told last
  bool said_near = false;                              // to the one who is next, since it was asked to stop
  JobId next = 0;             // whose bytes are brought back while it lasts; 0: nobody's
  std::vector<JobId> behind;  // who can be spilled for him, as the policy said last, when there were
  std::vector<std::pair<JobId, bool>> candidates_behind;  // these to choose from, and whether each was paused
  bool lacks_room = false;  // somebody has asked for room in it: what is free is his
  absl::Time interrupted;   // since when somebody is to stand by
  bool serves_beside =
      false;                 // nobody stands by (any longer) for those who serve in it, until they have gone
  Bytes reach = 0;           // as Job::reach, of this turn
  bool link_paused = false;  // what moves ahead waits, so that it does not slow the holder down too much
  Bytes no_use = 0;          // that should be free, and a job that was to restore into it could not
};

struct State {
  std::map<JobId, Job> jobs;
  std::map<EntityId, Gang> gangs;
  std::map<DeviceKey, Device> devices;
  std::map<TurnNumber, Turn> turns;  // those that last now
  // Of groups and users, as people have set them: also of those that have no job now.
  std::map<Owner, Quota> quotas;
  // Where somebody takes part who has a time cap, or a guarantee.
  std::map<OnDevice, TimeAccount> accounts;
  std::map<OnDevice, TimeGuarantee> guarantees;
  std::string policy;
  double switch_share = 0.02;
  double link_bound = 0.02;  // by so much others' bytes may slow a holder down; 1: they may move
  PolicySettings policy_settings;
  bool overdue_go_on = false;           // others go on in another lane
  std::map<JobId, FormerJob> expected;  // after a restart: those that have not reported yet
  absl::Time window_ends = absl::InfinitePast();
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_STATE_H_
