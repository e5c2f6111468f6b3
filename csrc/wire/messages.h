// What jobs, the coordinator and the CLI say to each other; PROTOCOL.md draws the conversations.
//
// A message is a struct with a list of numbered fields. The number is the field's name on the wire: it is
// never reused, unknown ones are skipped, missing ones keep the default written here. So two versions of
// Hocket talk to each other as long as the major version of the frame is the same.
//
//   job -> coordinator   Join, Gang, Wait, TurnOver, YieldAck, NeedRoom, Spilled, ArenaGrew, ArenaLost,
//                        Report, Leave, Restored, StoodBy, ArenaHeard, LacksHeadroom
//   coordinator -> job   Joined, Refused, Grant, Yield, Spill, Room, ArenaAdd, ArenaDrop, ArenaExport, Limit,
//                        Restore, StandBy, GoOn, Pace, Near,
//                        HeadroomMade
//   CLI <-> coordinator  Command, CommandResult
#ifndef HOCKET_CSRC_WIRE_MESSAGES_H_
#define HOCKET_CSRC_WIRE_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>

namespace hocket::wire {

// HOCKET_FIELDS(F(1, name) F(2, weight)) gives a struct the visitor that the codec (codec.h) uses both
// ways. Field types: uint64_t, int64_t, double, bool (as uint64_t), std::string.
#define HOCKET_FIELDS(...)       \
  template <typename Visitor>    \
  void VisitFields(Visitor& v) { \
    __VA_ARGS__                  \
  }
#define F(number, field) v(number, field);

// Of host memory for spilled bytes, from a job that does not say what it has.
inline constexpr uint64_t kNoHostLimit = UINT64_MAX;
// Of bytes that were copied, from a job that does not say how many: all of those that changed sides.
inline constexpr uint64_t kAllCopied = UINT64_MAX;

// First message of a job's connection. Carries one descriptor: the job's shared page (shared_page.h).
// Sent again, with `rejoin`, to a coordinator that was restarted.
struct Join {
  static constexpr uint16_t kType = 1;
  static constexpr const char* kName = "Join";
  std::string name;  // empty: the coordinator gives one, from `program`
  uint64_t pid = 0;
  std::string program;  // for people: argv[0] and the script
  std::string device;   // the driver's UUID, or "cpu"
  std::string device_name;
  uint64_t capacity = 0;            // bytes
  double weight = 1;                // > 0
  std::string priority = "normal";  // "high" | "normal" | "low"
  uint64_t memory_limit = 0;        // bytes; 0: none
  uint64_t total_steps = 0;         // 0: unknown
  std::string hocket_version;
  std::string torch_version;
  bool rejoin = false;
  uint64_t job = 0;         // rejoin: the id given by the coordinator before
  bool holds_turn = false;  // rejoin: this process holds the lane lock
  uint64_t persistent = 0;  // rejoin: as in Report
  uint64_t spilled = 0;
  uint64_t steps = 0;
  std::string gang;  // rejoin: as in Gang
  uint64_t gang_rank = 0;
  uint64_t gang_size = 0;
  uint64_t turn = 0;           // rejoin: of the turn held, or granted and still without the lane lock
  std::string lane_lock;       // rejoin: as told last by Joined or Grant
  bool heeds_limit = false;    // it understands Limit
  bool heeds_restore = false;  // and Restore
  std::string group;           // whose quotas hold for it, too; empty: none
  bool serves = false;         // its steps are requests that somebody waits for: others stand by for them
  bool stands_by = false;      // it understands StandBy, GoOn and Pace
  bool counts_arena = false;   // it says by ArenaHeard what it has heard of the arena
  bool heeds_idle = false;     // it understands Yield::idle_ns
  // Retired, never to be used again: 3, 19.
  HOCKET_FIELDS(F(1, name) F(2, pid) F(4, program) F(5, device) F(6, device_name) F(7, capacity) F(8, weight)
                    F(9, priority) F(10, memory_limit) F(11, total_steps) F(12, hocket_version)
                        F(13, torch_version) F(14, rejoin) F(15, job) F(16, holds_turn) F(17, persistent)
                            F(18, spilled) F(20, steps) F(21, gang) F(22, gang_rank) F(23, gang_size)
                                F(24, turn) F(25, lane_lock) F(26, heeds_limit) F(27, heeds_restore)
                                    F(28, group) F(29, serves) F(30, stands_by) F(31, counts_arena)
                                        F(32, heeds_idle))
};

struct Joined {
  static constexpr uint16_t kType = 2;
  static constexpr const char* kName = "Joined";
  uint64_t job = 0;             // this job's id, unique in the coordinator's life and after a restart
  std::string name;             // as given, or made unique
  std::string lane_lock;        // path of the lane's lock file
  std::string sharing_with;     // names of the other jobs on the device, comma separated
  bool hears_movable = false;   // the coordinator heeds Wait::movable; an older one has to be told by Spilled
  bool hears_parts = false;     // and Spilled::more; an older one takes the first part for all
  bool fills_arena = false;     // and ArenaGrew::bare; an older one passes nothing on then
  bool hears_headroom = false;  // and LacksHeadroom; an older one is not told
  // Retired, never to be used again: 5.
  HOCKET_FIELDS(F(1, job) F(2, name) F(3, lane_lock) F(4, sharing_with) F(6, hears_movable) F(7, hears_parts)
                    F(8, fills_arena) F(9, hears_headroom))
};

// The connection ends after it. `reason` is a full sentence for the user. Readable across major versions: its
// type, its field and the frame's layout never change.
struct Refused {
  static constexpr uint16_t kType = 3;
  static constexpr const char* kName = "Refused";
  std::string reason;
  HOCKET_FIELDS(F(1, reason))
};

// "I stand at a door and want the turn." Answered by Grant, in the end. One outstanding per job; sent again
// when the Grant that answered it was taken back.
struct Wait {
  static constexpr uint16_t kType = 4;
  static constexpr const char* kName = "Wait";
  uint64_t need =
      0;  // spilled bytes that must come back first, and room that it lacked when it stepped aside
  uint64_t gang_step = 0;  // steps completed
  uint64_t number = 0;   // of the job's Waits, each its own: grant_word.h. 0: its Grant cannot be taken back
  bool movable = false;  // "all my threads stand at doors now, I can be moved": as an unasked Spilled
  uint64_t persistent = 0;  // where movable: bytes, as in Report
  uint64_t spilled = 0;
  uint64_t host_left = kNoHostLimit;  // as in Spilled
  bool heeds_pass = false;            // it can be told that it is next: Grant::pass
  // Retired, never to be used again: 1.
  HOCKET_FIELDS(F(2, need) F(3, gang_step) F(4, number) F(5, movable) F(6, persistent) F(7, spilled)
                    F(8, host_left) F(9, heeds_pass))
};

// The turn is yours, unless this Grant was taken back meanwhile (grant_word.h): then only `fresh_arena` and
// `lane_lock` hold, and the job sends its Wait again. Take the lane lock, restore, go. A thread that waits in
// a begin step then runs one step at least, whatever Yield says meanwhile.
//
// With `pass` it is a promise: the turn is yours as soon as the lane's page says that this number was passed
// (csrc/client/lane_page.h), which the present holder may do or not. Until then nothing has changed, and a
// Grant without `pass` is obeyed as ever, and ends the promise. `passed`: the holder has said that it passed
// it; obeyed by a job that has not seen it in the page.
struct Grant {
  static constexpr uint16_t kType = 5;
  static constexpr const char* kName = "Grant";
  uint64_t turn = 0;         // number of the turn: quoted in Yield, YieldAck and TurnOver
  bool fresh_arena = false;  // the last holder died in its turn: drop every arena chunk known
  bool contended = false;    // others wait already: as a Yield with `now` false
  std::string reason;        // why this job, from the policy
  std::string lane_lock;     // where it differs from before: the job is in another lane now (a gang's rank)
  uint64_t pass = 0;         // of a promise; 0: it is none
  bool passed = false;
  HOCKET_FIELDS(F(1, turn) F(2, fresh_arena) F(3, contended) F(4, reason) F(5, lane_lock) F(6, pass)
                    F(7, passed))
};

// Others wait. now == false: give the turn up when you would not use it (between two steps, loading data),
// or, where `idle_ns` is not 0, when you have not used it for so long. now == true: give it up at the end of
// the step `stop_step` (0: of the step you are in); a job in an implicit turn gives up when idle. Gangs
// answer with YieldAck.
struct Yield {
  static constexpr uint16_t kType = 6;
  static constexpr const char* kName = "Yield";
  uint64_t turn = 0;
  bool now = false;
  uint64_t stop_step = 0;  // gangs: all ranks stop after this step; counts steps completed
  uint64_t pass = 0;  // with `now`: somebody waits for this number in the lane's page; 0: nobody (any more)
  uint64_t idle_ns = 0;    // without `now`, to who heeds_idle: it is not to go in shorter pauses
  bool give_back = false;  // with `now`: if it still waits for the lane's lock, which may be kept for ever
  HOCKET_FIELDS(F(1, turn) F(2, now) F(3, stop_step) F(4, pass) F(5, idle_ns) F(6, give_back))
};

// Rank -> coordinator: `accepted` unless this rank has already gone past `stop_step`.
struct YieldAck {
  static constexpr uint16_t kType = 7;
  static constexpr const char* kName = "YieldAck";
  uint64_t turn = 0;
  uint64_t stop_step = 0;
  uint64_t step = 0;  // steps completed
  bool accepted = false;
  HOCKET_FIELDS(F(1, turn) F(2, stop_step) F(3, step) F(4, accepted))
};

// Drained, survivors adopted, lane lock released: the turn is free.
struct TurnOver {
  static constexpr uint16_t kType = 8;
  static constexpr const char* kName = "TurnOver";
  uint64_t turn = 0;
  uint64_t steps = 0;       // completed in all
  uint64_t turn_steps = 0;  // completed in this turn
  uint64_t drain_ns = 0;    // time of the drain
  uint64_t persistent = 0;  // bytes, as in Report
  uint64_t spilled = 0;
  uint64_t transient_peak = 0;
  bool movable = false;         // all threads that use the GPU stand at doors
  std::string why_not_movable;  // for explain
  uint64_t ready_ns = 0;        // from the Grant's arrival until lock, room and restored bytes were there
  uint64_t restored = 0;        // bytes brought back at the begin of this turn
  bool stood_aside = false;     // as a Room had asked: others have the next turn
  uint64_t idle_ns = 0;         // so long it had not been used when it was given up for that
  uint64_t host_left = kNoHostLimit;  // as in Spilled
  // The number of the Yield, where the turn goes on to whoever waits for it without a Grant: it is sent
  // before that job is told. Only where nothing of the arena has changed in this turn, and no room was asked
  // for.
  uint64_t passed = 0;
  // What the hand-over before this turn took of the job's own time, by its clock: from asking until the
  // Grant's arrival, and, where a thread gave the turn before between two steps, what that took it after its
  // drain.
  uint64_t hand_over_ns = 0;
  // Retired, never to be used again: 7.
  HOCKET_FIELDS(F(1, turn) F(2, steps) F(3, turn_steps) F(4, drain_ns) F(5, persistent) F(6, spilled)
                    F(8, transient_peak) F(9, movable) F(10, why_not_movable) F(11, ready_ns) F(12, restored)
                        F(13, stood_aside) F(14, idle_ns) F(15, host_left) F(16, passed) F(17, hand_over_ns))
};

// The holder's device is full. Answered by Room, or by nobody once TurnOver was sent. One outstanding per
// job.
struct NeedRoom {
  static constexpr uint16_t kType = 9;
  static constexpr const char* kName = "NeedRoom";
  uint64_t bytes = 0;
  bool restoring = false;    // at the begin of a turn: never answered "no"; it waits
  bool says_free = false;    // the next three are told
  uint64_t device_free = 0;  // bytes, as the driver says
  uint64_t persistent = 0;   // bytes, as in Report
  uint64_t spilled = 0;
  HOCKET_FIELDS(F(1, bytes) F(2, restoring) F(3, says_free) F(4, device_free) F(5, persistent) F(6, spilled))
};

// ok: try again, with `step_aside` after the others: give the turn up, in the midst of a step too, and wait
// for the next. Who restores may find room for a part only, and asks again for the rest. Otherwise `reason`
// says who holds what, and why nobody can be moved.
struct Room {
  static constexpr uint16_t kType = 10;
  static constexpr const char* kName = "Room";
  bool ok = false;
  std::string reason;
  bool step_aside = false;
  HOCKET_FIELDS(F(1, ok) F(2, reason) F(3, step_aside))
};

// To a job without the turn: give back at least `bytes`, if you can.
struct Spill {
  static constexpr uint16_t kType = 11;
  static constexpr const char* kName = "Spill";
  uint64_t request = 0;
  uint64_t bytes = 0;
  HOCKET_FIELDS(F(1, request) F(2, bytes))
};

// Answer to Spill, in one or several parts, and sent unasked (request 0) when a job that has sent its Wait
// already becomes movable.
struct Spilled {
  static constexpr uint16_t kType = 12;
  static constexpr const char* kName = "Spilled";
  uint64_t request = 0;
  uint64_t freed = 0;       // in this part
  uint64_t persistent = 0;  // bytes, as in Report, after it
  uint64_t spilled = 0;
  bool movable = false;
  std::string why_not;                // why less than asked was freed
  bool more = false;                  // another part follows; only to a coordinator that hears_parts
  uint64_t host_left = kNoHostLimit;  // so much more its host memory for spilled bytes holds
  uint64_t host_taking_ns = 0;        // of this part's time, that host memory was taken and pinned for it
  uint64_t copied = kAllCopied;       // bytes of `freed`, in this part: the live ones that the host had not
  HOCKET_FIELDS(F(1, request) F(2, freed) F(3, persistent) F(4, spilled) F(5, movable) F(6, why_not)
                    F(7, more) F(8, host_left) F(9, host_taking_ns) F(10, copied))
};

// Holder -> coordinator: a new arena chunk, with its descriptor. The coordinator passes it on as ArenaAdd
// to the other jobs of the lane and keeps no descriptor; those who hear too slowly are told later, by an
// ArenaExport. Also the answer to ArenaExport (`to_job` set).
struct ArenaGrew {
  static constexpr uint16_t kType = 13;
  static constexpr const char* kName = "ArenaGrew";
  uint64_t chunk = 0;
  uint64_t size = 0;
  uint64_t to_job = 0;  // 0: every other job of the lane
  bool bare = false;    // without its descriptor; only to a coordinator that fills_arena
  HOCKET_FIELDS(F(1, chunk) F(2, size) F(3, to_job) F(4, bare))
};
struct ArenaAdd {
  static constexpr uint16_t kType = 14;
  static constexpr const char* kName = "ArenaAdd";
  uint64_t chunk = 0;
  uint64_t size = 0;
  HOCKET_FIELDS(F(1, chunk) F(2, size))
};

// Holder -> coordinator -> the others: the chunk has left the arena; unmap and forget it.
struct ArenaLost {
  static constexpr uint16_t kType = 15;
  static constexpr const char* kName = "ArenaLost";
  uint64_t chunk = 0;
  HOCKET_FIELDS(F(1, chunk))
};
struct ArenaDrop {
  static constexpr uint16_t kType = 16;
  static constexpr const char* kName = "ArenaDrop";
  uint64_t chunk = 0;  // 0: all of them
  HOCKET_FIELDS(F(1, chunk))
};

// Coordinator -> a job of the lane: send these arena chunks to `to_job`, by an ArenaGrew for each, a bare one
// for what cannot be sent.
struct ArenaExport {
  static constexpr uint16_t kType = 17;
  static constexpr const char* kName = "ArenaExport";
  uint64_t to_job = 0;  // 0: to the coordinator, which has been started anew
  std::string chunks;   // PackIds() (ids.h); empty: every one. Who does not know the field sends every one
  bool bare = false;    // without descriptors
  HOCKET_FIELDS(F(1, to_job) F(2, chunks) F(3, bare))
};

// Job -> coordinator: so many ArenaAdds of this connection have been heard and their descriptors closed. By
// jobs whose Join says counts_arena; only so many more are sent as leave it most of its descriptors.
struct ArenaHeard {
  static constexpr uint16_t kType = 30;
  static constexpr const char* kName = "ArenaHeard";
  uint64_t count = 0;
  HOCKET_FIELDS(F(1, count))
};

// Job -> coordinator, in a turn: so many bytes fewer are free on the device than should stay so for what the
// program takes beside Hocket's memory (streams, libraries' handles). Others' are moved if they can be, and
// the job goes on meanwhile; HeadroomMade may follow. Only to a coordinator whose Joined says hears_headroom.
struct LacksHeadroom {
  static constexpr uint16_t kType = 31;
  static constexpr const char* kName = "LacksHeadroom";
  uint64_t bytes = 0;
  HOCKET_FIELDS(F(1, bytes))
};

// As much as LacksHeadroom has said was given back since it came. Some of that may have been free already
// when the job looked: it looks again, and says what lacks still. A job that does not know it goes without
// that.
struct HeadroomMade {
  static constexpr uint16_t kType = 33;
  static constexpr const char* kName = "HeadroomMade";
  uint64_t turn = 0;
  HOCKET_FIELDS(F(1, turn))
};

// This process is rank `rank` of `size` of a gang; sent when init_process_group has met. All ranks that
// name the same id form the gang; it is complete once `size` ranks said so.
struct Gang {
  static constexpr uint16_t kType = 18;
  static constexpr const char* kName = "Gang";
  std::string gang;
  uint64_t rank = 0;
  uint64_t size = 0;
  HOCKET_FIELDS(F(1, gang) F(2, rank) F(3, size))
};

// What a job holds, sent when it has changed outside a turn's end.
struct Report {
  static constexpr uint16_t kType = 19;
  static constexpr const char* kName = "Report";
  uint64_t persistent = 0;
  uint64_t spilled = 0;
  uint64_t steps = 0;
  // Retired, never to be used again: 3, 5.
  HOCKET_FIELDS(F(1, persistent) F(2, spilled) F(4, steps))
};

struct Leave {
  static constexpr uint16_t kType = 20;
  static constexpr const char* kName = "Leave";
  bool keeps_running = false;   // hocket.leave(): the process lives on, outside
  uint64_t most_held = 0;       // bytes: the most that was alive at a step's end, since it began; and the
  uint64_t most_transient = 0;  // most that it had at one time was so much more. 0 in both: it does not say
  HOCKET_FIELDS(F(1, keeps_running) F(2, most_held) F(3, most_transient))
};

// CLI: a connection that begins with Command is a control connection. `arguments` and `result` are JSON
// objects; commands are listed in PROTOCOL.md (status, policy, pause, resume, logs, stop, ...).
struct Command {
  static constexpr uint16_t kType = 21;
  static constexpr const char* kName = "Command";
  std::string command;
  std::string arguments;
  HOCKET_FIELDS(F(1, command) F(2, arguments))
};
struct CommandResult {
  static constexpr uint16_t kType = 22;
  static constexpr const char* kName = "CommandResult";
  bool ok = false;
  std::string error;   // a full sentence
  std::string result;  // a long result comes in several messages: join the parts
  bool last = true;    // false: the next part follows
  HOCKET_FIELDS(F(1, ok) F(2, error) F(3, result) F(4, last))
};

// From now on the job may hold so much, resident and spilled. What it holds above that it keeps. To jobs
// whose Join says heeds_limit; they say what is their own of it when they join again.
struct Limit {
  static constexpr uint16_t kType = 23;
  static constexpr const char* kName = "Limit";
  uint64_t memory = 0;   // bytes; 0: the device's capacity
  std::string together;  // not empty: what a cap of several jobs leaves this one; whose, and who holds what
  uint64_t own = 0;      // then: the job's own limit; 0: none
  HOCKET_FIELDS(F(1, memory) F(2, together) F(3, own))
};

// To a job that waits, whose Join says heeds_restore: your turn comes next; bring back up to so many of your
// spilled bytes now, into device memory that is free.
struct Restore {
  static constexpr uint16_t kType = 24;
  static constexpr const char* kName = "Restore";
  uint64_t request = 0;
  uint64_t bytes = 0;
  HOCKET_FIELDS(F(1, request) F(2, bytes))
};

// Answer to Restore.
struct Restored {
  static constexpr uint16_t kType = 25;
  static constexpr const char* kName = "Restored";
  uint64_t request = 0;
  uint64_t restored = 0;    // device bytes taken; 0: there was no room, or it is no longer the time for it
  uint64_t persistent = 0;  // bytes, as in Report, after it
  uint64_t spilled = 0;
  uint64_t took_ns = 0;
  uint64_t piece = 0;  // bytes come back in pieces of so many: an order for less brings none; 0: not known
  uint64_t copied = kAllCopied;  // bytes of `restored`: the live ones
  HOCKET_FIELDS(F(1, request) F(2, restored) F(3, persistent) F(4, spilled) F(5, took_ns) F(6, piece)
                    F(7, copied))
};

// To a job in its turn, whose Join says stands_by: somebody who serves has a request. Stand still where the
// device is used next (a begin of a step, an allocation), in the midst of a step too, and keep the turn and
// all memory. Answered by StoodBy.
struct StandBy {
  static constexpr uint16_t kType = 26;
  static constexpr const char* kName = "StandBy";
  uint64_t turn = 0;
  HOCKET_FIELDS(F(1, turn))
};

// Answer to StandBy: my threads stand, and the device has done what they had queued.
struct StoodBy {
  static constexpr uint16_t kType = 27;
  static constexpr const char* kName = "StoodBy";
  uint64_t turn = 0;
  HOCKET_FIELDS(F(1, turn))
};

// The end of a StandBy, answered or not.
struct GoOn {
  static constexpr uint16_t kType = 28;
  static constexpr const char* kName = "GoOn";
  uint64_t turn = 0;
  HOCKET_FIELDS(F(1, turn))
};

// To a job whose Join says stands_by: from now on, queue no more work on the device ahead of what it has done
// than it needs so long for, as near as that can be foreseen. Somebody who serves shares the device.
struct Pace {
  static constexpr uint16_t kType = 29;
  static constexpr const char* kName = "Pace";
  uint64_t most_queued_ns = 0;  // 0: as much as you like
  HOCKET_FIELDS(F(1, most_queued_ns))
};

// To a job that waits, and has spilled bytes: its turn comes next, and the holder of the one that lasts has
// been asked to stop. What would keep the bytes from coming back at once may make way. No answer; a job that
// does not know it loses some of that time, no more.
struct Near {
  static constexpr uint16_t kType = 32;
  static constexpr const char* kName = "Near";
  uint64_t wait = 0;   // Wait::number
  uint64_t in_ns = 0;  // not sooner than in so long, by the holder's steps so far
  HOCKET_FIELDS(F(1, wait) F(2, in_ns))
};

#undef F
#undef HOCKET_FIELDS

using Message = std::variant<Join, Joined, Refused, Wait, Grant, Yield, YieldAck, TurnOver, NeedRoom, Room,
                             Spill, Spilled, ArenaGrew, ArenaAdd, ArenaLost, ArenaDrop, ArenaExport, Gang,
                             Report, Leave, Command, CommandResult, Limit, Restore, Restored, StandBy,
                             StoodBy, GoOn, Pace, ArenaHeard, LacksHeadroom, Near, HeadroomMade>;

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_MESSAGES_H_
