// The client: one state word, one mutex for everything slow, one agent thread.
//
//          Wait sent            Grant            lane lock, room, restored
//   none ------------> asked ----------> granted ---> taking ------------> held
//    ^                   |                  |            |                  |  TryGive
//    |                   |  nobody waits    |            | cannot           v
//    +-------------------+<--any more-------+<-----------+                giving
//    +------------- drained, survivors adopted, lane lock dropped ----------+
//
// A Grant that was taken back before it was read (csrc/wire/grant_word.h) leaves the phase asked, and the
// Wait goes out again. So does a promise of the next turn: who waits then waits for the lane's page to say
// that the holder has passed it (lane_page.h), or for a Grant as ever.
//
// Who does what: a thread at a door asks, reads the Grant, takes and gives (doors.cc, hand_over.cc). The
// agent receives everything else (agent.cc), gives the turn of an idle job, spills and restores nothing but
// what it is told to (memory.cc), maps and unmaps what is spilled (mapping_times.h), and finds the next
// coordinator (rejoin.cc). README.md draws a turn.
//
// Invariants:
//   kStandBy only in phases granted to giving; who stands by keeps the turn, the lane's lock and all memory
//   phase held or giving <=> the word has kHasTurn; giving <=> it has kGiving (until the job is outside)
//   the lane lock is held in phases held and giving, and taken in taking (without a coordinator: in asked);
//   the end of every turn drops it
//   spilling_ only in phases none and asked, and while the job leaves; nobody takes a turn meanwhile
//
// Locks, in this order: receive_mutex_, the allocator's, mutex_. So the allocator is never called with mutex_
// held, and nobody receives with the allocator locked.
#ifndef HOCKET_CSRC_CLIENT_CLIENT_IMPL_H_
#define HOCKET_CSRC_CLIENT_CLIENT_IMPL_H_

#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "csrc/client/client.h"
#include "csrc/client/connection.h"
#include "csrc/client/door.h"
#include "csrc/client/lane_lock.h"
#include "csrc/client/mapping_times.h"
#include "csrc/client/mutex.h"
#include "csrc/client/parking.h"
#include "csrc/client/progress.h"
#include "csrc/client/state_word.h"
#include "csrc/client/thread_registry.h"
#include "csrc/wire/messages.h"

namespace hocket {

inline constexpr Bytes kEverything = std::numeric_limits<Bytes>::max();

// What tests set otherwise.
struct ClientTuning {
  // Finds or starts a coordinator; may block. Called on the joining thread, later by the agent.
  // kDeadlineExceeded: there is one that takes nobody in.
  std::function<absl::StatusOr<wire::Channel>()> connect;
  // A job that somebody waits for and that has neither allocated nor had device work for so long outside
  // steps gives its turn up.
  Clock::duration idle_limit = std::chrono::milliseconds(5);
  // The same in guessed steps; or ten average steps, if those are more.
  Clock::duration guessed_idle_limit = std::chrono::seconds(1);
  // And in those that the program has said: as the coordinator's watchdog (core/limits.h, kHolderLimit).
  Clock::duration said_idle_limit = std::chrono::seconds(5);
  // A turn in which no step was completed is not interrupted at an allocation before it is so old.
  Clock::duration implicit_quantum = std::chrono::milliseconds(50);
  Clock::duration join_limit = std::chrono::seconds(10);         // for the coordinator's answer
  Clock::duration retry_pause = std::chrono::milliseconds(100);  // doubled up to 2 s
  // A connection that ended sooner may have been refused: the next one is made after a pause.
  Clock::duration steady = std::chrono::seconds(1);
  // So long after a coordinator was lost, an allocation that finds no room waits for the next one.
  Clock::duration room_patience = std::chrono::seconds(60);
  // What was spilled is mapped at its addresses so long after (mapping_times.h).
  Clock::duration map_after = std::chrono::milliseconds(50);
  Clock::duration expect_margin = MappingTimes::kMargin;
  // One that stands by goes on after this, whatever has become of the coordinator. Its own bound
  // (core/limits.h, kMostStandBy) is a second for it to stand and one for the request.
  Clock::duration longest_stand_by = std::chrono::seconds(5);
  // One that ends does not wait longer than this for a hand-over that is under way, nor one that leaves for
  // its last words to be read.
  Clock::duration exit_patience = std::chrono::seconds(1);
  Bytes part = 0;                // of a spill that is told in parts; 0: the allocator's choice
  bool force_spill = false;      // HOCKET_FORCE_SPILL
  bool spill_at_random = false;  // then: all, nothing or a part
};

class ClientImpl final : public Client {
 public:
  static absl::StatusOr<std::unique_ptr<ClientImpl>> Join(wire::Join facts, ClientTuning tuning);
  ~ClientImpl() override;

  // Client.
  void SetAllocator(CachingAllocator* allocator) override;
  absl::Status BeginStep(bool guessed = false) override;
  void KeepTurnInSteps() override { keeps_in_steps_.store(true); }
  void EndStep(bool count) override;
  void BeginAway() override;
  absl::Status EndAway() override;
  absl::Status BeginUse() override;
  bool EndUse() override;
  bool HasParked() const override { return parked_.load() > 0; }
  absl::Status EndParked() override;
  bool HasTurn() const override { return word_.HoldsTurn() || GoesOnCapturing(); }
  void JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) override;
  void Leave() override;
  JobInfo Info() const override;

  // Gate.
  bool HoldsTurn() const override;
  absl::Status AwaitTurn() override;
  absl::Status AwaitRoom(Bytes bytes) override;
  void LacksHeadroom(Bytes bytes) override;
  void WhileBlocked(absl::FunctionRef<void()> wait) override;
  void ArenaGrew(ArenaChunkId chunk, Bytes size, UniqueFd descriptor) override;
  void ArenaLost(ArenaChunkId chunk) override;

  // Parks those of its threads in the program's own code that wait; returns how many. REQUIRES: as of
  // ParkingHook.
  int Park(IsWaiting is_waiting);

  // At the end of the process: gives the turn on if that needs no waiting, and leaves. What it cannot do the
  // kernel will.
  void LeaveAtExit();

  // Around a fork, from process_end.cc.
  void BeforeFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex_) { mutex_.Lock(); }
  void AfterForkInParent() ABSL_UNLOCK_FUNCTION(mutex_) { mutex_.Unlock(); }
  void AfterForkInChild() ABSL_UNLOCK_FUNCTION(mutex_);

 private:
  enum class Phase { kNone, kAsked, kGranted, kTaking, kHeld, kGiving };
  // A thread at a door.
  struct Waiter {
    Door& door;
    bool step = false;     // in BeginStep()
    bool returns = false;  // in EndAway(); neither: in an allocation
    bool interruptible = true;
    bool admitted = false;
  };
  struct Turn {
    std::uint64_t number = 0;  // 0: the coordinator's number is not known
    std::uint64_t granted_ns = 0;
    std::uint64_t ready_ns = 0;
    std::uint64_t hand_over_ns = 0;  // before it: as in TurnOver
    std::uint64_t first_step = 0;    // steps completed when it began
    bool has_lane = false;           // its lock: nobody else can adopt chunks of the arena
    bool give_back = false;          // if it has not: perhaps nobody will ever let go of it
    Bytes restored = 0;
    std::uint64_t idle_ns = 0;  // so long it had not been used when it was given up for that
    // It is not to be given up in shorter pauses; 0: in each that is longer than ClientTuning::idle_limit.
    Clock::duration shorter_pauses{0};
    Clock::time_point held_since;
    std::uint64_t pass = 0;  // somebody waits for this number in the lane's page; 0: nobody
    // Nothing of the arena has changed in it, and no room was asked for: whoever is next knows all that
    // matters.
    bool passable = true;
  };
  // Of the turn after the present one.
  struct Promise {
    wire::Grant grant;
    std::shared_ptr<LanePage> page;    // null: it cannot be had
    std::optional<wire::Yield> yield;  // of that turn: it may be heard of before the pass
  };
  struct RoomRequest {
    Bytes bytes = 0;
    bool restoring = false;
    std::uint64_t number = 0;
    bool answered = false;
    bool step_aside = false;  // the answer: others first
    // Who asked waits no more, or runs a signal's handler. The answer comes all the same, and before it none
    // may be asked for.
    bool abandoned = false;
    absl::Status answer;
  };
  // What a thread in the midst of its wait goes back to when it has run the program's code.
  struct Absence {
    Door* door = nullptr;
    Waiter* waiter = nullptr;
    std::uint64_t room = 0;
  };
  // To stand still, in this turn, until a request has been served.
  struct StandBy {
    std::uint64_t number = 0;  // of such orders, so far
    bool draining = false;
    bool told = false;  // StoodBy
    Clock::time_point ordered;
    Clock::time_point since;  // it stands; before it does: ordered
  };
  // Reports about the arena that came before the allocator was there.
  struct ArenaChange {
    std::uint64_t chunk = 0;
    Bytes size = 0;
    UniqueFd descriptor;
    bool add = false;
  };

  ClientImpl(wire::Join facts, ClientTuning tuning, wire::SharedPage page);

  // --- doors.cc: begin and end of steps, waiting
  absl::Status BeginSlow();
  void EndSlow(Duty duty);
  absl::Status WaitForTurn(bool step, bool interruptible = true);
  absl::Status WaitAtDoor(bool step, bool returns, bool interruptible = true)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitAsWaiter(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Arrive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellIfMovable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EnterOrGive(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeGrantedTurn(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Admit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StepAside(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until something changes; kCancelled when the user interrupts the wait.
  absl::Status Sleep(bool interruptible) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Connection::Woken ReadAtDoor(Clock::duration limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AwaitsPage() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayAwaitPass() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True: a signal was delivered meanwhile.
  bool AwaitPass(Clock::duration limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotifyAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StopReached() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MustGive(bool step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllAtDoors() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All its threads stand at doors or are away, and none waits there for what the turn is for.
  bool TurnIsOfNoUse() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool for_step = for_next_step_ && progress_.steps() == turn_.first_step;
    return at_doors_.threads > 0 && AllAtDoors() && !AwaitsRoom() && !for_step;
  }
  // All at doors, and nobody else is known to use the device who would touch what is spilled.
  bool Movable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Word StandingInSteps() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the device, for good; empty: none was seen.
  std::string LastingError() const;
  std::string WhyNotMovable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellWait(const Holdings& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- interruptions.cc: signals' handlers in the midst of a wait
  // REQUIRES: inside a Blocking. True: the user ends the wait.
  bool Interrupted();
  bool RunOwnCode(absl::FunctionRef<bool()> own_code);
  std::optional<Absence> LeaveDoor(ThreadRecord& me) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnToDoor(ThreadRecord& me, const Absence& absence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AsksIfInterrupted(bool interruptible) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks if that was long ago; kCancelled: the user ends the wait.
  absl::Status AskIfInterrupted(bool now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsMyQuestion(std::uint64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropTurnTakenHere() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropTurnOfAbsent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the turn goes back that is being taken; max(): it does not.
  Clock::time_point DropsTurnAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckTaker();

  // --- away.cc: threads that do not use the device for a while
  absl::Status BeginHelpersUse(ThreadRecord& me);
  void EndHelpersUse(ThreadRecord& me);
  absl::Status ReturnFromAway(ThreadRecord& me, bool returns);
  void ComeBack(ThreadRecord& me) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ComesBackInTurn(ThreadRecord& me);
  bool AwaitResident() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- parking.cc: threads that wait
  bool MayPark() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookForParked();

  // --- hand_over.cc: taking and giving the turn
  // `for_step`: who waits for it begins a step.
  absl::Status FinishTaking(bool for_step, bool interruptible) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaneIsOurs();
  absl::Status Take(bool for_step, bool interruptible);
  absl::Status AcquireLane(bool interruptible);
  bool Give() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GiveForRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How much of what it holds such a hand-over moves.
  double ForcedShare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SpillByForce(Bytes wanted);
  absl::Status GiveAndTakeBack(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool DrainDevice();
  std::optional<Word> PassMemory();
  bool FinishGiving(std::uint64_t drain_ns);
  // `in_order`: drained, and its memory passed on.
  void EndTurn(std::uint64_t drain_ns, const Holdings& held, bool in_order = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t NumberToPass() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AbortGive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- memory.cc: room, spills, the arena, reports
  // How things stand, from before the lock.
  wire::NeedRoom Lacks(Bytes bytes, bool restoring) const;
  absl::Status AskRoom(wire::NeedRoom need, bool interruptible) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AwaitAnswer(const ThreadRecord& me, bool interruptible) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AwaitsRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return room_ && !room_->abandoned; }
  bool StepAsideFor(const RoomRequest& asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerRoom(absl::Status answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is no coordinator that could.
  void AnswerRoomAlone(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::duration WithoutCoordinator() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RoomPatienceIsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SpillEverything() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveMappingToAgent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the agent may do so; max(): not now.
  Clock::time_point MaySeeToMappingAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellMovable(const Holdings& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TrySpill(Bytes wanted, wire::Spilled& answer);
  struct PartsTold {  // of a spill, so far
    Bytes freed = 0;
    Bytes spilled_total = 0;  // of the allocator, then
  };
  SpillParts PartsOf(Bytes wanted, const wire::Spilled& answer, PartsTold& told);
  void TellSpilled(wire::Spilled& answer, const Holdings& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BeginSpill(std::string* why_not);
  bool BeginRestore();
  Holdings Held() const;
  // Held(), with the mutex dropped meanwhile: look again at what was known before.
  Holdings HeldUnlocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is held has been looked at.
  void Holds(const Holdings& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportIfChanged();
  void ChangeArena(ArenaChange change);
  void MakeArenaChange(CachingAllocator& allocator, ArenaChange change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_);
  void SayLostDescriptor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_);
  void TellArenaHeard() ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_);

  // --- agent.cc: the agent thread
  void AgentMain();
  void Poll();
  void ReceiveAll();
  void ReceiveGrant();
  bool SetAside(absl::StatusOr<std::optional<wire::Received>>& received)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_);
  absl::StatusOr<std::optional<wire::Received>> NextReceived() ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_);
  Clock::time_point NextDeadline();
  void CheckIdle();
  void SeeToMapping();
  bool IdleLongEnough(bool quiet) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskAtAllocations() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveIdleTurn(std::uint32_t begins, Word in_steps);
  bool MayGiveIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::duration IdleLimit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It is of no use, and not kept for a pause that may be short.
  bool GivesAtOnce() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ArmIdleCheck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetIdleCheck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();
  // Sends, and sees to it that what does not fit the socket now goes out later.
  void Tell(wire::Message message, UniqueFd descriptor = UniqueFd()) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Ignored>
  void On(const Ignored& message, UniqueFd descriptor) {}
  void On(const wire::Joined& joined, UniqueFd descriptor);
  void On(const wire::Refused& refused, UniqueFd descriptor);
  void On(const wire::Grant& grant, UniqueFd descriptor);
  void Granted(const wire::Grant& grant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Promised(const wire::Grant& grant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Yielded(const wire::Yield& yield) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnUnwantedTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void On(const wire::Yield& yield, UniqueFd descriptor);
  void On(const wire::Spill& spill, UniqueFd descriptor);
  void On(const wire::Restore& order, UniqueFd descriptor);
  void On(const wire::Near& near, UniqueFd descriptor);
  void On(const wire::HeadroomMade& made, UniqueFd descriptor);
  void On(const wire::Room& room, UniqueFd descriptor);
  void On(const wire::ArenaAdd& add, UniqueFd descriptor);
  void On(const wire::ArenaDrop& drop, UniqueFd descriptor);
  void On(const wire::ArenaExport& request, UniqueFd descriptor);
  void On(const wire::Limit& limit, UniqueFd descriptor);
  void On(const wire::StandBy& order, UniqueFd descriptor);
  void On(const wire::GoOn& order, UniqueFd descriptor);
  void On(const wire::Pace& pace, UniqueFd descriptor);
  void StopTogether(const wire::Yield& yield) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- stand_by.cc: standing still in the midst of a turn, for a request
  bool StandsBy(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StandsStill() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayTellStoodBy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrainAndTell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellStoodBy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAtStandBy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckStandBy();
  void EndStandBy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool GoesOnCapturing() const;

  // --- guessed.cc: steps that do not use the turn
  Clock::duration GuessedLimit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::duration IdleLimitIn(Word in_steps) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetGuessedCheck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayGiveInSteps(Word in_steps) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckGuessed();
  absl::Status BeginNested(ThreadRecord& me, bool guessed);

  // --- rejoin.cc: the coordinator comes and goes
  void SendJoin(wire::Channel channel, const Holdings& held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_, mutex_);
  static absl::StatusOr<wire::Channel> ConnectFirst(const ClientTuning& tuning);
  static absl::Status HasNotAnswered(const ClientTuning& tuning);
  absl::Status AwaitJoined();
  void LostCoordinator(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(receive_mutex_);
  void RefuseJoin(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayOnce(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Clock::duration NextPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ReconnectIsDue();
  bool HasLane() const;
  void Reconnect();
  void AskLater();
  void GoOnAlone(const absl::Status& why);
  bool TakeLaneAlone();
  void TakeTurnAlone();

  // --- client_impl.cc: threads that end; leaving
  void ThreadHasEnded(const ThreadRecord& gone);
  void LeaveNow(bool keeps_running, Clock::time_point patience);
  bool GiveForGood() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoOutside(bool keeps_running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopAgent();

  // Constant after construction.
  const ClientTuning tuning_;
  std::minstd_rand forced_draw_ ABSL_GUARDED_BY(mutex_);  // the same in each run
  UniqueFd wake_;                                         // eventfd: the agent looks at its work

  StateWord word_;
  std::atomic<bool> keeps_in_steps_{false};
  std::atomic<Word> guessed_{0};  // of the steps that the word counts, those that are guessed: never more
  mutable ThreadRegistry threads_;
  Progress progress_;
  std::atomic<CachingAllocator*> allocator_{nullptr};
  mutable std::atomic<bool> allocated_{false};  // somebody has, since the agent looked last
  std::atomic<bool> in_child_{false};
  std::atomic<bool> stop_{false};  // the agent ends

  // Who receives and obeys, one message at a time: the agent, or a thread at a door.
  Mutex receive_mutex_;
  // What a thread at a door has received and leaves to the agent, in order, before anything that is received
  // later; an error is the last.
  std::deque<absl::StatusOr<std::optional<wire::Received>>> set_aside_ ABSL_GUARDED_BY(receive_mutex_);
  // What was told of the arena before the allocator was there.
  std::vector<ArenaChange> arena_changes_ ABSL_GUARDED_BY(receive_mutex_);
  // ArenaAdds of this connection whose descriptors are closed; so many of them the coordinator knows of.
  std::uint64_t arena_heard_ ABSL_GUARDED_BY(receive_mutex_) = 0;
  std::uint64_t arena_heard_told_ ABSL_GUARDED_BY(receive_mutex_) = 0;
  bool said_lost_descriptor_ ABSL_GUARDED_BY(receive_mutex_) = false;
  struct ToldLimit {
    Bytes bytes;
    std::string together;
  };
  std::optional<ToldLimit> limit_ ABSL_GUARDED_BY(receive_mutex_);  // as the coordinator said last
  std::chrono::nanoseconds pace_ ABSL_GUARDED_BY(receive_mutex_){0};

  mutable Mutex mutex_;
  Condition changed_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // a thread at a door waits for messages, not for changed_
  bool left_to_agent_ ABSL_GUARDED_BY(mutex_) = false;      // something is set aside
  std::optional<Promise> promise_ ABSL_GUARDED_BY(mutex_);  // only in phase asked
  std::shared_ptr<LanePage> awaited_
      ABSL_GUARDED_BY(mutex_);  // a thread at a door waits for it, not for changed_
  wire::Join facts_ ABSL_GUARDED_BY(mutex_);
  JobInfo info_ ABSL_GUARDED_BY(mutex_);
  absl::Status refused_ ABSL_GUARDED_BY(mutex_);
  // Read from with receive_mutex_ held, written to with mutex_, attached and detached with both.
  Connection connection_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNone;
  std::uint64_t waits_ ABSL_GUARDED_BY(mutex_) = 0;      // sent so far: the number of the last
  std::uint64_t asked_ns_ ABSL_GUARDED_BY(mutex_) = 0;   // when that was sent
  std::uint64_t giving_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of the turn before: what giving it took a thread
  Turn turn_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t takings_ ABSL_GUARDED_BY(mutex_) = 0;  // another number: the turn has gone back since
  const ThreadRecord* taker_ ABSL_GUARDED_BY(mutex_) = nullptr;          // the thread that took a turn last
  std::optional<Clock::time_point> taker_left_ ABSL_GUARDED_BY(mutex_);  // it is in the program's own code
  LaneLock lane_;                                                        // of the thread that takes or gives
  std::uint64_t stop_step_ ABSL_GUARDED_BY(mutex_) = 0;  // of a gang: stop after it; 0: after this step
  std::list<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  AtDoors at_doors_ ABSL_GUARDED_BY(mutex_);
  int helpers_at_work_ ABSL_GUARDED_BY(mutex_) = 0;  // within BeginUse() and EndUse()
  std::atomic<int> parked_{0};                       // of these
  bool spilling_ ABSL_GUARDED_BY(mutex_) = false;    // bytes move, or the job leaves
  // What was spilled may have nothing behind its addresses yet, or should have nothing any more: when to see
  // to it (CachingAllocator::MapSpilled, UnmapSpilled).
  MappingTimes mapping_times_ ABSL_GUARDED_BY(mutex_){tuning_.map_after, tuning_.expect_margin};
  std::optional<MappingTimes::Action> mapping_ ABSL_GUARDED_BY(mutex_);  // being done
  std::uint64_t spills_ ABSL_GUARDED_BY(mutex_) = 0;                     // so often it has begun
  // This turn has brought back the bytes of a thread that was away: it is not given before that one's step.
  bool for_next_step_ ABSL_GUARDED_BY(mutex_) = false;
  bool outside_ ABSL_GUARDED_BY(mutex_) = false;   // has left
  bool stranded_ ABSL_GUARDED_BY(mutex_) = false;  // the process ends, and bytes of it are on the host
  // Work of a thread that Hocket has not seen was seen, and spilled addresses have nothing behind them.
  bool strays_harm_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_movable_ ABSL_GUARDED_BY(mutex_) = false;
  bool hears_movable_ ABSL_GUARDED_BY(mutex_) = false;  // the coordinator, in a Wait
  bool hears_parts_ ABSL_GUARDED_BY(mutex_) = false;    // of what is spilled
  bool fills_arena_ ABSL_GUARDED_BY(mutex_) = false;    // it asks for descriptors that did not come
  bool hears_headroom_ ABSL_GUARDED_BY(mutex_) = false;
  bool reader_stalls_ ABSL_GUARDED_BY(mutex_) = false;  // it was waited for in vain, and has not read since
  std::optional<RoomRequest> room_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t rooms_ ABSL_GUARDED_BY(mutex_) = 0;          // asked for so far
  bool stands_aside_ ABSL_GUARDED_BY(mutex_) = false;        // the end of this turn
  std::optional<StandBy> stand_by_ ABSL_GUARDED_BY(mutex_);  // <=> the word has kStandBy
  std::uint64_t stand_bys_ ABSL_GUARDED_BY(mutex_) = 0;
  Bytes lacked_ ABSL_GUARDED_BY(mutex_) = 0;  // for which an allocation stepped aside in the last turn

  // Of the agent.
  Clock::time_point idle_check_at_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  Clock::time_point idle_since_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t idle_begins_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point stand_check_at_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  Clock::time_point guessed_check_at_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  Clock::time_point guessed_since_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t guessed_begins_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point report_at_;
  Clock::time_point attached_at_ ABSL_GUARDED_BY(mutex_);
  // Since then no coordinator has taken the job in; max(): one has.
  Clock::time_point lost_at_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  Clock::time_point reconnect_at_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
  Clock::duration reconnect_pause_ ABSL_GUARDED_BY(mutex_);
  std::string said_ ABSL_GUARDED_BY(mutex_);  // to the user last
  std::uint64_t host_taking_told_ns_ = 0;     // of Holdings::host_taking_ns, what a Spilled has told
  Holdings reported_;
  std::unique_ptr<std::thread> agent_;
  std::unique_ptr<std::thread> parker_;  // the agent's
  std::atomic<bool> parker_is_done_{false};
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_CLIENT_IMPL_H_
