// Scenes for the core, in virtual time.
//
// A Script plays jobs, the driver's memory and the clock around a real Core. Jobs do what a test tells them
// (Asks, GivesUp, Dies, ...), or live by themselves (Lives) while RunsFor() lets the time pass. After every
// event the core's invariants are checked. Story() tells what happened, for a failing test.
#ifndef HOCKET_TESTS_COORDINATOR_SCRIPT_H_
#define HOCKET_TESTS_COORDINATOR_SCRIPT_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/core.h"

namespace hocket::coordinator {

// What a played job is like.
struct Part {
  double weight = 1;
  std::string priority = "normal";
  unsigned user = 1000;
  std::string device = "gpu0";
  Bytes persistent = 0;             // resident from the start
  Bytes spilled = 0;                // in host memory from the start
  Bytes host = wire::kNoHostLimit;  // that its spilled bytes may take there
  Bytes grows = 0;                  // by so much in its first turn: it builds its model
  std::uint64_t grows_after = 0;    // or at the end of the step after so many
  absl::Duration step = absl::Milliseconds(10);
  double duty = 1;                // of a step, in which it uses the device: beside others they share it
  absl::Duration gap;             // between two steps: loading data
  absl::Duration ready;           // to begin a turn, besides bytes that come back
  std::uint64_t total_steps = 0;  // 0: for ever; otherwise it ends after them
  absl::Duration spill_time;      // to answer a Spill
  absl::Duration restore_time;
  double copies = 0;   // its step takes so much longer over what others' bytes take of the link meanwhile
  bool ahead = false;  // heeds Restore
  bool serves = false;
  bool stands_by = false;  // heeds StandBy
  bool counts_arena = false;
  bool heeds_idle = true;
  bool passes = false;  // can be promised a turn, and passes its own on
  bool meets = false;   // a rank whose step ends when its fellows have come to the end of theirs
  std::string group;
  // A rejoin: what it says about itself.
  std::optional<KnownNeed> known = std::nullopt;  // from earlier runs
  bool rejoin = false;
  JobId id = 0;
  bool holds_turn = false;
  TurnNumber turn = 0;
  std::string gang;
  std::uint64_t rank = 0;
  std::uint64_t size = 0;
  std::string lane_lock;
  std::uint64_t pid = 0;                           // 0: of a process of its own
  std::string name;                                // it joins with; empty: as the script calls it
  std::optional<TimeAccount> time = std::nullopt;  // as the server has kept it
};

struct GiveUp {
  std::uint64_t steps = 1;  // of this turn
  bool movable = false;
  absl::Duration drain;
  absl::Duration ready;
  Bytes restored = 0;
  bool stood_aside = false;
  absl::Duration idle;
  Bytes transient = 0;       // that it needed in this turn
  std::uint64_t passed = 0;  // it passes the turn on, by this number: who was promised it has it
  absl::Duration hand_over;  // before this turn, by its own clock
};

class Script {
 public:
  explicit Script(const std::string& policy = "fair", Bytes capacity = 100);
  using MakePolicy = decltype(CoreOptions::make_policy);
  Script(MakePolicy make_policy, Bytes capacity);

  // --- what jobs do, one event each ---
  void Joins(const std::string& name, Part part = {});
  void Asks(const std::string& name, wire::Wait wait = {});
  void DoesSteps(const std::string& name, std::uint64_t steps);  // in its turn, which goes on
  void GivesUp(const std::string& name, GiveUp how = {});
  // `device_free`: as the driver says.
  void NeedsRoom(const std::string& name, Bytes bytes, bool restoring = false,
                 std::optional<Bytes> device_free = std::nullopt);
  // Answers the Spill that it was told last; gives back `freed` of its resident bytes.
  void Spills(const std::string& name, Bytes freed, bool movable = true, const std::string& why_not = "");
  // The same, and for so much of the time it took host memory.
  void SpillsIntoNewMemory(const std::string& name, Bytes freed, absl::Duration taking);
  // As Spills(), and there is more to come.
  void SpillsPart(const std::string& name, Bytes freed);
  // Answers the Restore that it was told last: so many of its bytes come back.
  void Restores(const std::string& name, Bytes bytes, absl::Duration took = absl::ZeroDuration(),
                Bytes piece = 0);
  void StandsAtDoors(const std::string& name);  // and says so: it can be moved now
  void StandsBy(const std::string& name);       // as it was told last
  void Grows(const std::string& name, std::uint64_t chunk, Bytes size, const std::string& for_whom = "");
  void Loses(const std::string& name, std::uint64_t chunk);
  void FormsGang(const std::string& gang, const std::vector<std::string>& ranks);
  // Alone: the others of `ranks` say so when they have joined, perhaps much later.
  void SaysItsGang(const std::string& name, const std::string& gang, const std::vector<std::string>& ranks);
  void Acknowledges(const std::string& name, bool accepted, std::uint64_t steps);
  void Stops(const std::string& name);   // as by SIGSTOP: it reads nothing and does nothing
  void GoesOn(const std::string& name);  // reads what has come; asks again if its Grant was taken back
  void Dies(const std::string& name);
  void HangsUp(const std::string& name);
  void Leaves(const std::string& name);
  void Says(const std::string& name, decltype(Event::what) what);  // anything else
  void Died(JobId id) { Handle(id, JobDied{}); }                   // one that has never joined here
  // --- what people do ---
  void Pauses(const std::string& name) { Says(name, SetPaused{true}); }
  void Resumes(const std::string& name) { Says(name, SetPaused{false}); }
  void Caps(const std::string& name, double share) { Says(name, SetTimeCap{share}); }  // 0: no longer
  void Guarantees(const std::string& name, double share) { Says(name, SetTimeGuarantee{share}); }
  void Allows(const Owner& owner, const Quota& quota) { Handle(0, SetQuota{.of = owner, .quota = quota}); }
  void Sets(decltype(Event::what) what) { Handle(0, std::move(what)); }  // for all
  // `locks`: of lanes, that the processes of some have; `pids`: of some.
  void CoordinatorRestarts(const std::vector<JobId>& expected,
                           const std::map<JobId, std::vector<std::string>>& locks = {},
                           const std::map<JobId, std::uint64_t>& pids = {});
  // --- time ---
  void Passes(absl::Duration time);  // ticks are delivered when they are due
  // What those who live spill and restore takes time, besides theirs. 0, as at first: none.
  void LinkMoves(double bytes_per_second) { link_ = bytes_per_second; }
  void Lives(const std::string& name);  // from now on it steps, spills and restores by itself
  void RunsFor(absl::Duration time);    // as Passes(), while those who live do so

  // --- what came of it ---
  bool Holds(const std::string& name) const;
  std::string Holder(const std::string& device = "gpu0") const;  // names, comma separated; empty: free
  // The last message of this type sent to `name`, and how many there were.
  template <typename Type>
  std::optional<Type> Told(const std::string& name) const;
  template <typename Type>
  int TimesTold(const std::string& name) const;
  // The reason of the Reject that the last event met; empty when it met none.
  std::string Rejection() const { return rejection_; }
  std::string Why(const std::string& name) const { return core_->Explain(IdOf(name)); }
  const Job& JobOf(const std::string& name) const { return core_->state().jobs.at(IdOf(name)); }
  JobId IdOf(const std::string& name) const { return ids_.at(name); }
  const std::vector<TurnEnded>& turns() const { return turns_; }
  const std::vector<SpillEnded>& spills() const { return spills_; }
  const std::vector<std::string>& sentences() const { return sentences_; }  // said to the log
  int ticks() const { return ticks_; }                                      // timers that have fired
  // How often it was tried to take a Grant of this job back.
  int TriedToTakeBack(const std::string& name) const { return actors_.at(name).tried_to_take_back; }
  int Turns(const std::string& name) const;
  std::uint64_t Steps(const std::string& name) const;
  double Share(const std::string& name) const;              // of the device time that anybody had
  std::map<std::string, absl::Duration> TurnTimes() const;  // so far, hand-overs not counted
  bool HasFinished(const std::string& name) const { return finished_.contains(name); }
  bool WasRefused(const std::string& name) const { return actors_.at(name).refused; }  // and died of it
  bool HasFailed(const std::string& name) const { return actors_.at(name).failed; }    // its fellow has died
  bool IsAlive(const std::string& name) const { return actors_.at(name).alive; }
  absl::Time Finished(const std::string& name) const { return finished_.at(name); }  // its total_steps
  Core& core() { return *core_; }
  absl::Time now() const { return now_; }
  std::string Story() const;  // the end of it

  // Something that happened to `who`. It becomes words when somebody asks, and few of so many are asked
  // about.
  struct StoryLine {
    absl::Time at;
    std::string who;
    std::variant<decltype(Event::what), wire::Message, Reject> what;  // that came, was sent, was refused
  };

 private:
  static constexpr std::size_t kStory = 200;  // lines

  struct Actor {
    Part part;
    bool alive = true;
    bool lives = false;  // by itself
    bool stopped = false;
    bool unread = false;      // a Grant lies in its socket
    bool void_grant = false;  // and was taken back
    int tried_to_take_back = 0;
    std::uint64_t waits = 0;
    Bytes resident = 0;
    Bytes spilled = 0;
    std::uint64_t steps = 0;
    std::uint64_t turn_steps = 0;
    bool has_turn = false;
    TurnNumber turn = 0;     // that it has, or had last
    bool stop = false;       // asked to give up at the end of the step
    bool idle = false;       // asked to give up when idle
    absl::Duration shorter;  // but not in pauses that are
    bool in_gap = false;
    absl::Time gap_ends;
    std::optional<wire::Grant> promise;
    std::optional<wire::Yield> promised_yield;  // of that turn
    std::uint64_t pass = 0;                     // as its last Yield said
    std::uint64_t stop_step = 0;
    bool restoring = false;
    bool steps_aside = false;  // was told to, and lives
    bool refused = false;      // no room
    bool at_meeting = false;   // at the end of its step, where its fellows have not come yet
    bool failed = false;       // a fellow has died
    std::vector<std::string> fellows;
    Bytes to_grow = 0;
    Bytes restored = 0;
    absl::Time granted;
    absl::Time stepped;  // the end of its last step
    absl::Duration ready;
    absl::Time next = absl::InfiniteFuture();  // its next deed
    std::vector<wire::Message> told;
  };

  void Handle(JobId job, decltype(Event::what) what);
  void Tells(const std::string& who, decltype(StoryLine::what) what);
  // Its bytes go to the host; what it says of that.
  wire::Spilled Moves(const std::string& name, Bytes freed);
  void TakesBack(const TakeBack& action);
  void Hear(const std::string& name, const wire::Message& message);
  void HearGrant(Actor& actor, const std::string& name, const wire::Grant& grant);
  void Act(const std::string& name);  // its next deed is due
  absl::Duration LinkTime(Bytes bytes) const;
  void Disturb(const Actor& mover, Bytes bytes);
  Bytes HostLeft(const std::string& name) const;
  void BeginTurn(Actor& actor, const std::string& name);
  absl::Duration StepTime(const Actor& actor) const;
  void EndStep(Actor& actor, const std::string& name);
  std::uint64_t Done(const Actor& actor) const { return actor.steps + actor.turn_steps; }
  void Reports(const Actor& actor, const std::string& name);
  bool Grows(Actor& actor, const std::string& name);
  bool Meets(Actor& actor);
  bool Stops(const Actor& actor) const;
  void Acknowledges(const std::string& name, const wire::Yield& yield);
  void LooksInGap(Actor& actor);
  void EndGap(Actor& actor, const std::string& name);
  void AsksAfter(Actor& actor, const std::string& name, absl::Duration gap);
  void AnswerRestore(Actor& actor, const std::string& name);
  void AnswerSpill(Actor& actor, const std::string& name);
  Bytes FreeBytes(const std::string& device) const;  // the driver's truth
  std::string NameOf(JobId id) const;

  std::string policy_;
  Bytes capacity_;
  double link_ = 0;
  std::unique_ptr<Core> core_;
  std::map<std::string, Actor> actors_;
  std::map<std::string, JobId> ids_;
  JobId next_id_ = 1;
  absl::Time now_;
  absl::Time timer_ = absl::InfiniteFuture();
  int ticks_ = 0;
  std::vector<TurnEnded> turns_;
  std::vector<SpillEnded> spills_;
  std::vector<std::string> sentences_;
  std::map<std::string, absl::Time> finished_;
  std::string rejection_;
  std::deque<StoryLine> story_;
  std::vector<std::pair<std::string, wire::Yield>> unanswered_;  // of ranks that live
};

template <typename Type>
std::optional<Type> Script::Told(const std::string& name) const {
  const auto& told = actors_.at(name).told;
  for (auto message = told.rbegin(); message != told.rend(); ++message) {  // a long life has many
    if (auto* found = std::get_if<Type>(&*message)) return *found;
  }
  return std::nullopt;
}

template <typename Type>
int Script::TimesTold(const std::string& name) const {
  int times = 0;
  for (const wire::Message& message : actors_.at(name).told) times += std::holds_alternative<Type>(message);
  return times;
}

// a holds the turn of a full device of 100 bytes; b and c wait at doors with 40 and 30 of them. All threads
// of b are there when it asks for the turn, those of c later.
Script FullDevice(const std::string& policy = "fifo");

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_SCRIPT_H_
