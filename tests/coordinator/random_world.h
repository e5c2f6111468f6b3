// A world of jobs that live as jobs do, at random, around a real core.
//
// A seed says all: the policy (in a sixth of the worlds one that answers at random, capricious_policy.h), one
// to three devices, two to seven jobs of one or two users, whether some serve, form a gang, pass their turns
// on, need memory, have little of the host's, are two of one process (on two devices), are stopped, die,
// break their connections or what the protocol asks for; whether people change what they have set, whether
// the coordinator is killed now and then, and whether it hears late of what has been said. The same seed
// gives the same world everywhere.
//
// Jobs know what they have read and no more: messages lie unread for as long as it pleases the dice, so what
// a job says may cross what it is told. On a message a job does this, now or a while later:
//
//   Grant        takes the turn and the lock of its lane, restores what was spilled, and steps: one step or
//                several. If the Grant was taken back meanwhile (TakeBack succeeds as long as it was not
//                read) it asks again
//   Grant, pass  waits for that number in the lane's page, or for the Grant that follows if it never comes
//   Yield        gives its turn up after the step, after the step that its gang stops at (which it
//                acknowledges), when it idles; or passes it on by the number that it was told
//   Room         tries again, steps aside in the midst of its step, or does without what it was refused
//   Spill        moves its bytes, some, none, or a part first, if it has reached its doors
//   Restore      brings bytes back, as many as fit
//   StandBy      stands, and does no step before it is told to go on
//   Arena*       maps chunks and forgets them, tells them on when asked, says what it has heard
//   (nothing)    steps in its turn, grows, makes chunks and loses them, finds too little headroom, reports,
//                idles; without a turn asks for one, reaches its doors, leaves, dies, hangs up and joins
//                again
//
// A process with two devices has two jobs, and steps with both: it asks for the second one's turn when it has
// the first one's, and gives neither in a step. In some worlds the first of one process is the second of
// another, and ranks have second ones, too.
//
// A rude job (there are some) repeats what it said before or answers what nobody asked; from then on nothing
// is promised to it. Whether ranks of a gang meet at the end of each step, as ranks do, a seed says too.
//
// People pause and resume, set weights, priorities, time caps and guarantees, groups and their quotas, memory
// limits and guarantees, the policy and its settings, and what becomes of overdue turns.
//
// What is checked; where it does not hold the process ends:
//   after each event  the core's invariants; a timer is set for the future; each Grant answers a Wait, each
//                     Room a question, and Spill, Restore, StandBy and Limit go to who can heed them; only
//                     who was rude is rejected
//   with each turn    the lock of its lane is free; or who has it, or who wants it, has lost his turn
//                     meanwhile, and has joined again with it
//   at the end        from there on everybody behaves: what was paused is resumed, who was stopped goes on,
//                     each job does a step or two more and asks for no other. All get their turns in a
//                     bounded number of ticks. Then all is quiet: nobody has a turn, no order or question is
//                     unanswered, nobody stands by, and after a few ticks no timer is left
//
// That nobody is given a turn beside another in one lane is one of the core's invariants.
#ifndef HOCKET_TESTS_COORDINATOR_RANDOM_WORLD_H_
#define HOCKET_TESTS_COORDINATOR_RANDOM_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/core.h"

namespace hocket::coordinator {

class RandomWorld {
 public:
  // `story`: where to tell it while it goes; none: nowhere.
  explicit RandomWorld(std::uint64_t seed, std::ostream* story = nullptr);

  // So many moves, and the end. Aborts when something does not hold.
  void Play(int moves);

  // Of all actions, so far.
  std::uint64_t digest() const { return digest_; }

 private:
  static constexpr Bytes kCapacity = 100_MiB;  // of each device

  // What may happen here.
  struct Traits {
    int devices = 1;
    int jobs = 2;
    int servers = 0;
    int gang = 0;  // the last so many
    bool meets = false;
    bool twins = false;
    bool crosswise = false;
    int others = 0;  // of the last ranks each has another device of its own
    bool memory = false;
    bool host = false;  // some have little memory on the host
    bool arena = false;
    bool passes = false;
    bool stops = false;
    bool deaths = false;
    bool hang_ups = false;
    bool restarts = false;
    bool rude = false;
    bool people = false;
    bool early = false;
    bool many_users = false;
    bool late_ticks = false;
    bool late_ears = false;
  };

  struct Player {
    wire::Join join;  // as it joined last
    unsigned user = 0;
    JobId id = 0;
    int twin = -1;        // of the same process, on another device: its index
    bool second = false;  // of the two: the other one's turn comes first
    bool passes = false;
    bool numbers = true;  // its Waits

    bool alive = true;
    bool connected = false;
    bool left = false;
    bool rude = false;
    absl::Time stands_until = absl::InfinitePast();  // stopped, as by SIGSTOP
    std::deque<wire::Message> unread;
    absl::Time unread_since = absl::InfinitePast();  // the first of these, or longer

    bool asked = false;
    std::uint64_t waits = 0;
    std::uint64_t taken_back = 0;  // by its page: the number of the Wait
    std::optional<wire::Grant> promise;
    std::optional<wire::Yield> promised_yield;

    bool granted = false;
    TurnNumber turn = 0;
    bool has_lock = false;
    bool in_step = false;
    bool at_meeting = false;
    bool restoring = false;
    std::uint64_t steps = 0;
    std::uint64_t turn_steps = 0;
    bool stop = false;
    bool idle = false;
    std::uint64_t stop_step = 0;
    std::uint64_t pass = 0;
    bool passable = true;
    bool stands = false;  // for a request
    bool told_stood = false;
    bool room_asked = false;
    bool steps_aside = false;
    bool give_back = false;  // the turn, if it does not get the lock
    Bytes grows = 0;
    Bytes lacked = 0;
    Bytes restored = 0;

    bool told_movable = false;
    Bytes resident = 0;
    Bytes spilled = 0;
    Bytes host = wire::kNoHostLimit;  // may be spilled
    std::vector<wire::Spill> spills;
    std::vector<wire::Restore> restores;
    std::string lane_lock;
    std::map<std::uint64_t, Bytes> chunks;
    std::uint64_t unheard = 0;

    // As people have set them.
    bool paused = false;
    double time_guarantee = 0;
    Bytes memory_guarantee = 0;

    std::uint64_t target = 0;     // of steps, at the end
    std::function<void()> again;  // says what it said last
  };

  // --- the dice ---
  std::uint64_t Pick(std::uint64_t sides) { return dice_() % sides; }
  bool Once(std::uint64_t in) { return Pick(in) == 0; }
  bool Perhaps(std::uint64_t in) { return !draining_ && Once(in); }  // what nobody does at the end

  // --- random_world.cc: the core and the time around it ---
  std::unique_ptr<Core> MakeCore();
  void Apply(JobId job, decltype(Event::what) what);
  void TakeIn(const Action& action);
  void Deliver(const Send& send);
  void CheckTold(const Player& player, const wire::Message& message) const;
  void TakeBackFrom(const TakeBack& back);
  void EndRejected();
  void TimePasses(absl::Duration time);
  void Restart();
  void People();
  void SetForOne(Player& player);
  void SetForAll();
  void Drain();
  void SayWhatTheyDoLast();
  bool AllDone() const;
  bool OneEnds();
  void BecomeQuiet();
  void CheckQuiet() const;
  std::string WhoWaits() const;
  void Note(const std::string& text);
  Player* PlayerOf(JobId id);

  // --- random_world_jobs.cc: what jobs do ---
  void Live(Player& player);
  bool DoesNext(Player& player);  // false: nothing, now
  void Says(Player& player, decltype(Event::what) what);
  void Joins(Player& player);
  void JoinsGang(Player& player);
  void JoinsAgain(Player& player);
  void Asks(Player& player);
  void ReachesDoors(Player& player);
  void Dies(Player& player);
  void HangsUp(Player& player);
  void Leaves(Player& player);
  void LosesConnection(Player& player);
  void IsRude(Player& player);
  Player* TwinOf(Player& player) { return player.twin < 0 ? nullptr : &players_[player.twin]; }
  const Player* TwinOf(const Player& player) const {
    return player.twin < 0 ? nullptr : &players_[player.twin];
  }
  bool IsTwin(std::size_t index) const;
  Bytes HostLeft(const Player& player) const;

  // --- random_world_messages.cc: what they do on a message ---
  void Reads(Player& player);
  void Read(Player& player, const wire::Message& message);
  void ReadGrant(Player& player, const wire::Grant& grant);
  void ReadYield(Player& player, const wire::Yield& yield);
  void Exports(Player& player, const wire::ArenaExport& order);
  void TakesTurn(Player& player, const wire::Grant& grant);
  bool Answers(Player& player);
  void AnswersSpill(Player& player);
  void AnswersRestore(Player& player);

  // --- random_world_jobs.cc: what they do in a turn ---
  bool TakesPassed(Player& player);
  bool TakesLock(Player& player);
  bool HasLostTurn(const Player& player) const;
  bool InTurn(Player& player);
  bool Restores(Player& player);
  bool Grows(Player& player);
  bool MayGrow(const Player& player) const;
  bool ChangesArena(Player& player);
  void LosesChunk(Player& player, bool adopts);
  bool Steps(Player& player);
  bool MayEndStep(Player& player);
  bool MustStop(const Player& player) const;
  bool UsesItsTurn(const Player& player) const;
  bool SecondSteps(Player& second);
  void GivesUp(Player& player, bool stood_aside);
  void ReleasesLock(Player& player);
  bool FellowHasDied(const Player& player) const;
  Bytes FreeOn(const std::string& device) const;

  std::ostream* const story_;
  std::mt19937_64 dice_;
  Traits traits_;
  std::vector<Player> players_;
  std::string policy_;
  bool go_on_ = false;
  CoreOptions set_;  // by people, for the next coordinator too
  std::unique_ptr<Core> core_;
  absl::Time now_;
  absl::Time timer_ = absl::InfiniteFuture();
  JobId next_id_ = 1;
  TurnNumber next_turn_ = 1;
  std::uint64_t next_pass_ = 1;
  std::uint64_t next_chunk_ = 1;
  std::vector<JobId> rejected_;
  std::map<std::string, std::uint64_t> pages_;  // by lane lock: what was passed last
  bool heard_late_ = false;  // the event at hand: a timer may be for a time that nobody is late by yet
  bool draining_ = false;
  std::uint64_t digest_ = 1469598103934665603u;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_RANDOM_WORLD_H_
