// The coordinator's mind: events in, actions out.
//
//   socket -> wire -> Event -> Core -> Action -> wire -> socket
//                              |  ^
//                      GpuView v  | order, reason
//                             Policy
//
// It opens no socket and reads no clock: times arrive inside events. So a day of a node's life is a file, and
// a test or a simulator replays it in a second.
//
// The right to use a device is a *turn*. It belongs to an *entity*: one job, or all ranks of one gang, whose
// devices are granted all or none. A device has one turn at a time.
//
//            Wait             Grant               TurnOver, death, Leave
//   (joined) ----> waiting ----------> has turn ------------------------> (joined)
//                     ^                   |  others wait: Yield now=false at once,
//                     |                   |  Yield now=true after the quantum
//                     |                   +-- not taken up while others wait: the Grant is taken back, and
//                         |                       the job not granted another before it has asked again
//                         +-- paused, being spilled, not answering, held back by its time cap: not granted
//                             until that is over
//
// Where what is:  turns.cc  who is next, grants, yields              gangs.cc    ranks, stop steps
//                 quantum.cc how long a turn lasts                   pauses.cc   what is lent meanwhile
//                 taking_back.cc grants that lie unread              rejoin.cc   joining, leaving, restarts
//                 passing.cc turns that holders pass on              ahead.cc    bytes that come back before
//                 memory.cc room, spills                             link.cc     what these may cost
//                 arena.cc  who is told of which chunk (arena.h)     link_sense.h how much each suffers
//                 guests.cc several jobs in one turn                 overdue.cc  a turn that is not given up
//                 lanes.cc  who is in which lane                     memory_caps.cc of groups and users
//                 quota.cc  time caps (time_account.h)
//                 lacking.cc who waits for room that others have to give back (lack.h)
//                 guarantees.cc shares of time (time_guarantee.h)    serving.cc  requests, and who stands by
//                 slowdown.cc what sharing costs each job            processes.cc that have several devices
//                 explain.cc why a job stands where it stands        invariants.cc
//
// Invariants (CheckInvariants() tests them):
//   a device has at most one turn, and every job that has part in it belongs to the turn's entity, or is its
//     guest; a guest is a single job, and so is who has guests
//   no two jobs that have part in a turn, or one that was set aside, are in one lane of a device
//   no job waits and has the turn; no job with the turn is being spilled
//   a device is free only if nobody who waits for it could be granted it, or while it is kept for one that
//     the policy expects back soon
//   who is held out lacks room, and somebody else takes part on its device who may give it back; a gang is
//     held out as a whole, without a turn, for a rank of which the same is true
//   who is held back has used up what its time cap allows, and waits
//   every job is in exactly one lane of its device; a lane's chunks are counted once
//   all jobs of a lane, and of a gang, are one user's: nobody gets a descriptor of another user's memory
//   what moves ahead of a turn and is paused for the holder's sake goes on: a timer is set
//   no deadline has passed that nothing was done about: the next timer is in the future
//
// Not thread-safe.
#ifndef HOCKET_COORDINATOR_CORE_CORE_H_
#define HOCKET_COORDINATOR_CORE_CORE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "coordinator/core/events.h"
#include "coordinator/core/options.h"
#include "coordinator/core/state.h"
#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

// "high", "low", or normal.
Priority ParsePriority(const std::string& text);

class Core {
 public:
  explicit Core(CoreOptions options);

  // Applies one event and returns what is now to be done, in order. An event that breaks the protocol yields
  // one Reject and changes nothing.
  //
  // `early`, where it is given, is called with each Send that is decided together with who has the turn, and
  // then with what holders are asked for, before it is looked after everything else: jobs wait for it. It
  // must not call the core.
  using SendEarly = std::function<void(const Send&)>;
  std::vector<Action> Handle(const Event& event, const SendEarly& early = {});

  const State& state() const { return state_; }
  absl::Time now() const { return now_; }  // of the last event

  // Why `job` stands where it stood at the last event, in words, with numbers. REQUIRES: the job is known.
  std::string Explain(JobId job) const;
  // "holds", "waits", "paused", "stopped" (does not answer), "gone" or "idle".
  std::string StateOf(JobId job) const;
  // The names of those who have part in the job's turn beside it, and are not of its gang.
  std::vector<std::string> Beside(JobId job) const;
  // The names of those who are to stand still there for a request.
  std::vector<std::string> StandingBy(const Device& device) const;
  // The holder that may pass its turn on to `job`, and whose messages count before the job's: these may
  // follow from that. 0: nobody.
  JobId PasserTo(JobId job) const;
  // Who has the turn of `device`; empty when it is free.
  std::string HolderOf(const Device& device) const;

  // The account of its own time cap; none: it has no cap, or is not known (any more).
  const TimeAccount* TimeAccountOf(JobId job) const;
  // The share of time that is guaranteed to `owner` on the job's device; 0: none.
  double TimeGuaranteeOf(const Owner& owner, const Job& job) const;
  // The share of the device that `of` has had in the last window, until now. REQUIRES: it has a cap there, or
  // a guarantee.
  double TimeUsed(const OnDevice& of) const;
  // What its jobs hold there together, resident and spilled.
  Bytes MemoryHeld(const OnDevice& of) const;
  // What the device owes of a guarantee now; negative: more than that was had. REQUIRES: there is one.
  absl::Duration OwedNow(const OnDevice& of) const;
  // That pay for the job's time, or have it guaranteed: itself, its group if it has one, its user.
  std::vector<Owner> OwnersOf(const Job& job) const;
  bool Owns(const Owner& owner, const Job& job) const;
  // Until when the time cap of it, of its group or user, or of a fellow rank, keeps it from having a turn; a
  // time that has passed: none does. REQUIRES: it is known.
  absl::Time HeldBackUntil(EntityId entity) const;

  // How much longer it takes than alone (slowdown.h), with what lasts at the last event; none: it is not
  // known. `steps`: that it has done. REQUIRES: it is known.
  std::optional<double> SlowdownOf(JobId job, std::uint64_t steps) const;

  // What policies are shown of it. REQUIRES: it is known.
  JobView ViewOf(EntityId entity) const;

  // What the ledger says is left on `device`: capacity less what jobs, arenas and the dead hold.
  Bytes Free(const Device& device) const;
  Bytes Arena(const Device& device) const;

  // For which share of its time the link may be busy for others while the job uses its turn; 1: always.
  double LinkShare(const Job& job) const;
  // For which share it was, in the part of a turn that it has; none: it does not use one (yet).
  std::optional<double> LinkShareUsed(const Job& job) const;
  // What it would take to move so many bytes of the job, there or back: by the rate that the link has shown.
  Foretold ForetoldMove(const Job& job, Bytes bytes) const;

  // Aborts, naming the first invariant that does not hold.
  void CheckInvariants() const;

 private:
  // One per kind of event.
  void On(Job* job, const Tick& event) {}
  void On(Job* job, const JobJoins& event);
  void On(Job* job, const JobDied& event);
  void On(Job* job, const JobHungUp& event);
  void On(Job* job, const Restarted& event);
  void On(Job* job, const GrantTakenBack& event);
  void On(Job* job, const SetPaused& event);
  void On(Job* job, const SetShare& event);
  void On(Job* job, const SetTimeCap& event);
  void On(Job* job, const SetTimeGuarantee& event);
  void On(Job* job, const SetGroup& event);
  void On(Job* job, const SetQuota& event);
  void On(Job* job, const SetMemoryLimit& event);
  void On(Job* job, const SetMemoryGuarantee& event);
  void On(Job* job, const SetPolicy& event);
  void On(Job* job, const SetSwitchShare& event);
  void On(Job* job, const SetLinkBound& event);
  void On(Job* job, const SetProductionBound& event);
  void On(Job* job, const SetMostTogether& event);
  void On(Job* job, const SetOverdue& event);
  void On(Job* job, const StepsSeen& event);
  void On(Job* job, const wire::Wait& event);
  void On(Job* job, const wire::TurnOver& event);
  void On(Job* job, const wire::YieldAck& event);
  void On(Job* job, const wire::NeedRoom& event);
  void On(Job* job, const wire::Spilled& event);
  void On(Job* job, const wire::Restored& event);
  void On(Job* job, const wire::StoodBy& event);
  void On(Job* job, const wire::ArenaGrew& event);
  void On(Job* job, const wire::ArenaLost& event);
  void On(Job* job, const wire::ArenaHeard& event);
  void On(Job* job, const wire::LacksHeadroom& event);
  void On(Job* job, const wire::Gang& event);
  void On(Job* job, const wire::Report& event);
  void On(Job* job, const wire::Leave& event);

  // Everything that may follow from an event: spills, room, grants, yields, the next timer.
  void Settle(const SendEarly& early);
  void SendNow(const SendEarly& early);

  // Whether an event of another job can concern it: who neither asks nor has anything, and has not had a turn
  // lately, is not looked at. So thousands may be connected, of whom a few take turns.
  bool Active(const Job& job) const;

  // Of an entity; nearly always one.
  using Ranks = absl::InlinedVector<JobId, 4>;
  // Jobs and gangs that wait, in some order. Few wait on a device, and who they are is asked several times an
  // event.
  using Entities = absl::InlinedVector<EntityId, 8>;

  // turns.cc
  struct Next {
    EntityId entity = 0;
    std::string reason;
    bool by_guarantee = false;  // the policy would have somebody else
  };
  void Schedule(Device& device);
  void GrantWaitingRanks(Turn& turn);
  void AskIfContended(Turn& turn);
  void GrantTurn(const Next& next, TurnNumber number, const Promise* passed = nullptr);
  void GrantJob(Job& job, Turn& turn);
  void AskForTurn(Turn& turn);
  void AskToStop(Turn& turn);
  void TellToStop(Job& job, Turn& turn);
  void SendYield(const Job& job, bool now, std::uint64_t stop_step, std::uint64_t pass = 0);
  void AskIfLongIdle(Turn& turn);
  enum class PartEnds { kGiven, kByDeath, kSetAside };
  void EndPart(Job& job, const wire::TurnOver& last, PartEnds how);
  void LeavePart(Job& job);
  void LeaveDevice(Turn& turn, Device& device);
  void EndTurn(TurnNumber number);
  void TakeBackUnread(const Turn& turn);
  absl::Time TakeBackTime(const Turn& turn) const;
  static absl::Time GrantedTo(const Job& job, const Turn& turn);
  void BeginToWait(const Job& job);
  void Charge(Turn& turn, bool contended);
  absl::Duration IdleAtEnd(const Job& job, const wire::TurnOver& last) const;
  void Learn(Job& job, Turn& turn, const wire::TurnOver& last);
  void CountRestored(Job& job, const wire::TurnOver& last);
  void LearnStep(Job& job, const Turn& turn, absl::Duration used, std::uint64_t steps);
  bool KeepFree(Device& device, EntityId next);
  std::pair<EntityId, absl::Time> WaitedFor(const Device& device, EntityId next) const;
  Entities Fitting(const Entities& candidates) const;
  std::uint64_t StepsSince(const Job& job) const;
  bool IsAbsent(const Job& other, const Device& device) const;
  absl::Time StopForAbsent(const Turn& turn) const;
  absl::Time AskLongIdleTime(const Turn& turn) const;
  absl::Duration LongIdle(EntityId entity) const;
  static bool HasMoved(const Job& job, const Turn& turn, const wire::TurnOver& last);
  void LearnSwitchCost(Job& job, const Turn& turn, const wire::TurnOver& last);
  bool Eligible(EntityId entity) const;
  bool Eligible(const Job& job) const;
  static bool StandsAside(const Job& job);
  bool Granted(EntityId entity) const;
  bool DevicesFree(EntityId entity) const;
  bool Fits(EntityId entity) const;
  bool Contended(const Turn& turn) const;
  Entities Candidates(const Device& device) const;
  Entities NotAfterOthers(Entities candidates) const;
  EntityId BehindGangs(const Entities& candidates) const;
  bool LeavesToSingles(EntityId entity) const;
  bool WaitsForOverdue(EntityId entity) const;
  void NoteBehindGang(const Device& device);
  double WeightOf(unsigned user) const;
  GpuView ViewOf(const Device& device, const Entities& entities) const;
  const Job& SlowestOf(EntityId entity, Estimator Job::*time) const;

  // quantum.cc
  absl::Time IdleTime(const Turn& turn) const;
  absl::Time EndOfQuantum(const Turn& turn) const;
  bool FirstStepOutlasts(const Turn& turn, absl::Time stop) const;
  absl::Time AskIdleTime(const Turn& turn, absl::Time stop) const;
  absl::Duration HolderBegins(const Turn& turn) const;
  absl::Duration SwitchCost(EntityId entity) const;
  absl::Duration QuantumTogether(const Turn& turn) const;
  absl::Duration Quantum(EntityId entity) const;
  bool IdlesAfterEachStep(const Turn& turn) const;
  absl::Time StopTime(const Turn& turn) const;

  // pauses.cc
  bool IsThere(EntityId entity) const;
  bool MayLend(const Device& device) const;
  bool LendsPauses(const Turn& turn) const;
  bool PausesAreOfUse(const Job& job) const;
  bool InUsualPause(const Job& job) const;
  bool StayLasts(const Device& device) const;
  bool Stays(const Job& job) const;
  absl::Time StayEnds(const Device& device) const;
  void BeginStay(const Job& job, const Turn& turn);

  // passing.cc
  bool MayPromise(const Turn& turn) const;
  std::optional<Next> NextForSure(const Device& device) const;
  bool CanBePromised(const Job& next, const Job& holder) const;
  void PromiseNext(Turn& turn);
  void PromiseLate(Turn& turn);
  void LookAtPromise(Turn& turn);
  bool IsPromised(const Job& job) const;
  void WillNotPass(const Job& holder);
  absl::Time PassesUntil(const Turn& turn) const;
  void TakePassed(const Promise& promise, bool told);
  void SayGrant(Turn& turn);

  // slowdown.cc
  void TimePasses(Job& job);
  void CountLost(Job& job, std::optional<absl::Duration> lost);
  void CountAllLost(Job& job);
  void CountPart(Job& job, absl::Duration ready, absl::Duration idle, std::uint64_t steps);

  // guests.cc
  bool IsGuest(const Job& job) const;
  Ranks MembersOf(const Turn& turn) const;
  std::vector<JobView> ViewsOf(const Turn& turn) const;
  bool MayHaveGuests(const Turn& turn) const;
  bool Guaranteed(const Job& job) const;
  bool MayBeGuest(const Job& job, const Turn& turn) const;
  bool FitsBeside(const Job& job, const Turn& turn) const;
  Bytes Growth(const Job& job, int lane) const;
  Next NextGuest(const Turn& turn) const;
  void AdmitGuests(Turn& turn);
  bool KeepPlace(Turn& turn, EntityId next);
  void Admit(Job& job, Turn& turn, const std::string& reason);
  void CompanyChanged(Turn& turn);
  void PromoteGuest(Turn& turn);
  void StopGuests(Turn& turn);
  void SplitCompany(Turn& turn);
  void AskToStopInOrder(Turn& turn);
  absl::Duration StepBeside(const Job& member) const;
  void TellLongest(Turn& turn);
  void TellInOrder(Turn& turn);
  absl::Time TellTime(const Turn& turn, const Job& member) const;
  bool StopsAtOnce(const Turn& turn) const { return turn.asked_stop && !turn.in_order; }
  absl::Duration LookAfter(const Turn& turn) const;
  void LookAtCompany(Turn& turn);
  void MeasureCompany(Turn& turn);
  std::string ExplainCompany(const Job& job) const;

  // serving.cc
  bool Serves(const Job& job) const;
  bool Serves(EntityId entity) const;
  std::vector<JobId> TrainersOf(const Turn& turn) const;
  bool ServesSomebody(const Turn& turn) const;
  bool WaitsToServe(const Job& job, const Turn& turn) const;
  bool MayServeIn(const Turn& turn, const Job& job) const;
  std::vector<JobId> RequestsIn(const Turn& turn) const;
  void LetServe();
  void Serve(Turn& turn);
  void TellToStandBy(Job& job);
  void GoOn(Turn& turn);
  void EndStandBy(Job& job);
  bool StandsBy(const Turn& turn) const;
  absl::Time ServeAt(const Turn& turn) const;
  absl::Time GoOnBesideAt(const Turn& turn) const;
  absl::Time NextOfServing(const Turn& turn) const;
  void AdmitToServe(Job& job, Turn& turn);
  absl::Time StopForRequest(const Turn& turn) const;
  void AskToStopForRequest(Turn& turn);
  void PaceTrainers();

  // overdue.cc
  absl::Time HolderLimit(const Turn& turn) const;
  void NameOverdue(Turn& turn);
  void GoOnWithoutOverdue();
  bool SomebodyFits(const Turn& turn) const;
  void SetAside(Job& job);
  void ComesBack(Job& job);
  std::string ExplainOverstaying(const Job& job) const;

  // processes.cc
  void Reported(const Job& job);
  void NoteOthersOfProcess(Job& job);
  bool StepMayWait(const Job& job) const;
  bool IsExpectedElsewhere(const Job& job) const;
  bool HasPartElsewhere(const Job& job) const;
  bool IsKeptFromProcesses(const Device& device) const;
  bool NeedsAnotherTurn(const Job& job) const;
  bool MayStepAside(const Job& job) const;
  bool AwaitsProcessOf(const Job& other, const Job& job) const;
  bool AwaitedOnItsDevice(const Job& job) const;
  void UntieProcesses();
  absl::Time TiedAt(const Job& job) const;
  Job* LastTied();
  void LendOtherTurns(const Job& lacks);

  // lanes.cc
  int FirstLane(const Job& job) const;
  bool KeepsLaneInStep(const Job& job) const;
  bool IsOfOneExpected(const Job& job, int lane) const;
  int LaneOf(const Job& job) const;
  bool LaneInUse(const Device& device, int lane) const;
  enum class CloseFor { kRoom, kTime };
  bool MayClose(const Device& device, int lane, CloseFor why = CloseFor::kRoom) const;
  absl::Time CloseLanesAt(const Device& device) const;
  void CloseLanes(Device& device);
  Bytes GiveLanesBack(Device& device, CloseFor why = CloseFor::kRoom);
  void ForgetEmptyLanes(Device& device);

  // gangs.cc
  Ranks RanksOf(EntityId entity) const;
  bool Uses(EntityId entity, const Device& device) const;
  bool Uses(const Job& job, const Device& device) const;
  Devices DevicesOf(EntityId entity) const;
  std::string NameOf(EntityId entity) const;
  unsigned UserOf(EntityId entity) const;
  const Gang* GangOf(const Job& job) const;
  bool MayJoinTurn(const Job& job, const Turn& turn) const;
  void CompleteLateGangs();
  absl::Time CompleteAt(const Gang& gang) const;
  void Complete(Gang& gang);
  void KeepOnlyRanks(Gang& gang);
  void AdoptTurnsOfRanks(Gang& gang);
  void NameStop(Turn& turn, std::uint64_t margin);
  void FellowsStandAside(TurnNumber number);
  std::set<TurnNumber> AwaitedBy(const Turn& turn) const;
  std::set<TurnNumber> AwaitedBy(const Job& job) const;
  std::set<TurnNumber> AllAwaited(std::set<TurnNumber> seen) const;
  bool AwaitsItself(const Turn& turn) const;
  void UntieGangs();
  bool AwaitsFellow(const Job& job) const;
  void Realign(Turn& turn);
  absl::Time RealignTime(const Turn& turn) const;
  std::uint64_t RelativeSteps(const Job& job) const;
  void LeaveGang(Job& job);

  // quota.cc
  absl::Time BeganToUse(const Job& job, absl::Duration ready) const;
  absl::Time RunsSince(const OnDevice& of) const;
  TimeAccount::Levels LevelsOf(const OnDevice& of, const TimeAccount& account) const;
  void UseTimeSoFar();
  void KeepAccounts();
  void UseTime(const Job& job, absl::Time from);
  bool HoldBack();  // whether anybody is held back, or no longer is, since it was looked at last
  bool Capped(EntityId entity) const;
  absl::Time StopForCap(const Turn& turn) const;

  // memory_caps.cc
  Bytes MemoryCapOf(const Owner& owner) const;
  Bytes LeftByCap(const Owner& owner, const Job& job) const;
  wire::Limit LimitOf(const Job& job) const;
  std::string CapInWords(const Owner& owner, const Job& asked) const;
  void SendLimit(Job& job, wire::Limit limit);
  void TellLimit(Job& job);
  void KeepMemoryCaps();
  bool ShareMemoryCap(const Job& a, const Job& b) const;
  bool ShareMemoryCap(const Turn& turn) const;
  std::string ExplainMemoryCaps(const Job& job) const;

  // guarantees.cc
  bool Owns(const Owner& owner, EntityId entity) const;
  bool Owns(const Owner& owner, const Turn& turn) const;
  absl::Duration Owed(EntityId entity, const DeviceKey& device) const;
  absl::Duration Uncounted(const Device& device, absl::Time from) const;
  absl::Time BeganToUse(const Device& device) const;
  TimeGuarantee::Turns TurnsOf(const OnDevice& of) const;
  void CountUse(Device& device, absl::Time from, bool contended);
  std::vector<JobView> InTurnOrder(const Device& device, const Entities& waiting) const;
  void PutOwedFirst(const DeviceKey& device, std::vector<JobView>& order) const;
  Next PickNext(const Device& device, const Entities& waiting) const;
  absl::Time StopForGuarantees(const Turn& turn, absl::Time stop) const;

  // memory.cc
  void Holds(Job& job, Bytes persistent, Bytes spilled, bool movable, Bytes host_left);
  void ServeRoom(Job& job);
  void MakeHeadroom(Job& job);
  void ServeGuest(Job& job);
  void MakeRoomFromGuests(Job& job);
  bool MemoryReturns(const Job& job) const;
  bool IsBeingUnmapped(const Job& job) const;
  void WaitForRoom(Job& job);
  void RetryRoomAt(Job& job, absl::Duration after);
  Bytes AskToSpill(Job& job, Bytes wanted);
  Bytes AskToSpill(Job& job, Bytes wanted, const std::vector<Job*>& victims, bool guaranteed_too);
  Bytes Coming(const Job& job) const;
  bool SomebodyHasMore(const Job& job) const;
  Bytes KeptFor(const Job& victim, const Job& asker) const;
  void AnswerRoom(Job& job, bool ok, const std::string& reason, bool step_aside = false);
  // Its process has a turn of another device.
  bool OthersCouldUseTurn(const Job& job) const;
  void GiveUpOnSilentVictims();
  void SaySilent(Job& job, absl::Duration since, const std::string& to_what);
  void Credit(const SpillOrder& order, Bytes bytes, absl::Duration host_taking);
  void RecordSpill(const Job& job, const SpillOrder& order);
  void ForeseeRoom(Job& job);

  // --- arena.cc
  void Exported(const Job& exporter, const wire::ArenaGrew& event);
  void DropArena(Device& device, int lane, JobId except);
  void RenewArena(Job& job);
  void ForgetArena(Job& job);
  Bytes DropUnknown(Device& device, int lane);
  static void KeepArena(Job& job, Bytes bytes);
  void AskOthersThan(const Job& job);
  bool SharesLane(const Job& other, const Job& job) const;
  static std::uint64_t MayTell(const Job& job);
  void TellChunk(Job& job, std::uint64_t chunk, Bytes size);
  void SkipTold(Job& job);
  const Job* ExporterOf(const Job& job, std::uint64_t chunk) const;
  void FillArena(Job& job);
  void Expect(Device& device, Bytes bytes, absl::Duration within);
  void Compare(Device& device, Bytes driver_free);
  bool CanBeSpilled(const Job& job) const;
  std::vector<Job*> Victims(const Job& job);
  std::vector<const Job*> Others(const Job& job) const;
  bool HasNoTurn(JobId id) const;
  bool MayBeEnding(const Job& other) const;
  bool HeldUnseen(const Job& job) const;
  bool MayBecomeMovable(const Job& other) const;
  bool OthersMaySuffice(const Job& job) const;
  Bytes Reachable(const Job& job) const;
  // Why what `other` holds is not there for one that runs out of memory. `own`: it is of the same user, who
  // may know.

  // lacking.cc
  void HostTakes(Job& job, Bytes more) const;
  Bytes HostLeft(const Job& job) const;
  Bytes Gives(const Job& job) const;
  bool CanGoOn(const Job& other, const Job& after) const;
  RoomSum SumFor(const Job& job, Bytes wanted) const;
  bool HasPart(const Job& job) const { return job.turn != 0 || job.overstays != 0; }
  bool HoldsStepOpen(const Job& job) const;
  bool HasDoneSteps(const Job& job) const;
  bool SharesDeviceInGang(const Job& job) const;
  Bytes Stays(const Job& job, Bytes grows_by) const;
  bool ShutsOut(const Job& job, Bytes grows_by) const;
  void HoldOut();
  bool HoldGangOut(Gang& gang);
  bool IsOut(const Job& job) const;
  bool LacksRoom(const Job& job) const;
  bool IsNew(const Job& job) const;
  bool NewOneMustWait(const Job& job) const;
  bool OlderOneLacks(const Job& job) const;
  Bytes NeedOf(const Job& job) const;
  Bytes NeedNow(const Job& job) const;
  Bytes CouldHave(const Job& job) const;
  bool LeavesNoneForFellows(const Job& job) const;
  bool CannotComeBack(const Job& job) const;
  bool CouldBegin(const Job& job) const;
  absl::Time AskedSince(const Job& job) const;
  absl::Time LackSince(const Job& job) const;
  absl::Time LackSinceOfAll(const Job& job) const;
  bool KeepsFromStep(const Job& job, Bytes stays) const;
  bool SomebodyGoesOn(const Job& job) const;
  std::set<EntityId> WaitInVain() const;
  void LetOldestTry();
  bool WaitsForOthers(Job& job);
  void LetOthersGoFirst(Job& job);
  void NoteShortage(Job& job, Bytes bytes);
  void NoLongerLacks(Job& job);
  Job* LatestLacking(const Job& of);
  Job* LatestInTheWay(const Job& job);
  bool RefuseLatest(Job& job);
  absl::Time RetryOfLack(const Job& job) const;
  Bytes NeedIn(const Job& job) const;
  std::string NeedInWords(const Job& job) const;
  const Job& WhoLacks(const Job& job) const;
  std::string ExplainLack(const Job& job) const;

  // ahead.cc
  void LookAhead(Turn& turn);
  void SayNear(Turn& turn);
  JobId NextAfter(const Turn& turn) const;
  bool MayRestore(const Job& job) const;
  Bytes RoomAhead(const Turn& turn) const;
  void RememberReach(const Job& job, Bytes grows_by);
  void LearnReach(Job& job, const Turn& turn) const;
  Bytes Promised(const Job& holder) const;
  std::vector<Job*> Behind(Turn& turn, const Job& next);
  std::vector<JobId> BehindInOrder(const Job& next,
                                   const std::vector<std::pair<JobId, bool>>& candidates) const;

  // link.cc
  void RestoresFrom(Job& job, absl::Time begin);
  void CountMoved(const Job& mover, Bytes bytes);
  void PayForLink(Job& job);
  double LinkShare(const Turn& turn) const;
  absl::Time LinkFreeAt(const Turn& turn) const;
  void LearnLink(Job& job, absl::Duration step, std::uint64_t steps);
  std::string ExplainLink(const Job& job) const;

  // rejoin.cc
  std::unique_ptr<Policy> MakePolicyNamed(const std::string& name) const;
  Device& DeviceFor(const wire::Join& join);
  std::string UniqueName(const wire::Join& join, unsigned user) const;
  std::string SharingWith(const Job& job) const;
  void Replace(Job& former, JobJoins& joins);
  void Rejoin(Job& job, const wire::Join& join);
  bool MayKeepTurn(const Job& job, TurnNumber number) const;
  void KeepTurn(Job& job, TurnNumber told, bool has_lock);
  void JoinsAgainBeside(Job& job, Turn& turn);
  bool BesideOneSetAside(const Job& job) const;
  bool MayKeepPart(const Job& job, const Turn& turn) const;
  void AskToStopAtOnce(Job& job, TurnNumber told);
  void StandAsideFor(const Job& rank);
  void Depart(Job& job, bool crashed, std::uint64_t steps = 0);
  void IsGone(Job& job, bool crashed, std::uint64_t steps = 0);
  void Erase(Job& job);
  void ForgetUnusedDevices();
  bool WindowOpen() const { return due_ < state_.window_ends && !state_.expected.empty(); }

  // explain.cc
  struct Queue {  // who waits for the turn of a device, in order, and when its holder is to stop for them
    Entities order;
    absl::Time stop;
  };
  const Queue& QueueFor(const Turn& turn, const Device& device) const;
  std::string NameFor(const Job& reader, const Job& named) const;
  std::string NameFor(const Job& reader, EntityId named) const;
  std::string ExplainWaiting(const Job& job) const;
  std::string WhyNotGiven(const Job& other, bool own) const;
  std::string RoomArithmetic(const Job& job) const;
  std::string ExplainStaying(const Job& job) const;
  std::string StoppedPerhaps(const Job& job) const;
  std::string ExplainHolding(const Job& job) const;
  std::string StayFor(const Device& device) const;
  std::string ExplainLongIdle(const Turn& turn) const;
  std::string ExplainFreeDevice(const Job& job) const;
  std::string ExplainQuotas(const Job& job) const;
  std::string ExplainSlower(const Job& job) const;
  std::string OwnerInWords(const Owner& owner, JobId asked) const;

  Job& job(JobId id) { return state_.jobs.at(id); }
  const Job& job(JobId id) const { return state_.jobs.at(id); }
  static Device& DeviceOf(const Job& job) { return *job.device; }
  std::string LaneLock(const Job& job, int lane) const;
  absl::Time NextDeadline() const;
  void SendTo(JobId to, wire::Message message, bool with_descriptor = false);
  void RejectJob(const Job& job, const std::string& reason);
  // `event`: a word for it, for programs that read the log.
  void Say(const std::string& text, const char* event = "", JobId about = 0);

  const CoreOptions options_;
  State state_;
  absl::Time now_ = absl::InfinitePast();
  absl::Time due_ = absl::InfinitePast();  // now_, or before it while there is more to be heard (Event::due)
  absl::Time timer_ = absl::InfiniteFuture();
  TurnNumber next_turn_;
  std::uint64_t next_pass_;
  std::uint64_t next_spill_ = 1;
  std::uint64_t next_restore_ = 1;
  EntityId next_gang_ = EntityId{1} << 62;
  bool anybody_serves_ = false;
  bool several_of_process_ = false;  // some process has, or has had, several devices
  bool any_held_out_ = false;        // or was, when it was looked at last
  // All that are Active(), and until the end of an event perhaps others. While it is gone through some may be
  // put in, and none taken out.
  std::set<JobId> active_;
  EntityId reserved_ = 0;                // a gang of several devices for which they are being kept free
  std::map<EntityId, int> passed_over_;  // how often one that does not fit now has let others go first
  std::vector<Action> actions_;
  mutable std::map<DeviceKey, Queue> queues_;  // that somebody was told of since the last event
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_CORE_H_
