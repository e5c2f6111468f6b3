#include "tests/coordinator/interleaving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "coordinator/policies/registry.h"

namespace hocket::coordinator {
namespace {

constexpr Bytes kCapacity = 100;

// First come, first served, and any two at the same time.
class TwoTogether final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.asked < b.asked; }
  std::string Reason(const JobView&) const override { return "is next"; }
  bool RunsSeveral() const override { return true; }
  bool Together(const std::vector<JobView>& members) const override { return members.size() <= 2; }
};

// Who asked last: whoever has been promised the next turn may be another's next in a moment.
class LastFirst final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.asked > b.asked; }
  std::string Reason(const JobView&) const override { return "asked last"; }
  bool ForeseesNext() const override { return true; }
};

std::unique_ptr<Policy> MakeForTest(const std::string& name) {
  if (name == "last") return std::make_unique<LastFirst>();
  return name == "two" ? std::make_unique<TwoTogether>() : *MakePolicy(name);
}

enum class Deed {
  kAsk,
  kGiveUp,
  kNeedRoom,
  kAnswerSpill,
  kSpillPart,
  kAnswerRestore,
  kReachDoors,
  kDie,
  kAcknowledge,
  kRefuseStop,
  kRead,
  kStandBy,
  kPass,        // gives up, and passes the turn on itself: the next one runs before the core hears of it
  kPassSlowly,  // the next one does not look before the core has
  kPassAndDie,  // the same, and what it has told is lost with it
  kPassInVain,  // tells so, and is stopped or killed before the next one can see it
  kTakePassed,
  kTime
};
constexpr const char* kDeedNames[] = {"asks",
                                      "gives up",
                                      "needs room",
                                      "spills",
                                      "spills a part",
                                      "restores",
                                      "stands at doors",
                                      "dies",
                                      "acknowledges",
                                      "is past that",
                                      "reads its Grant",
                                      "stands by",
                                      "passes its turn on",
                                      "passes it to a slow one",
                                      "passes it on and dies",
                                      "passes it in vain",
                                      "takes what was passed",
                                      "time passes"};
struct Move {
  Deed deed;
  JobId job;  // 0: nobody
};

std::string ToText(const Move& move) {
  return absl::StrCat(move.job, " ", kDeedNames[static_cast<int>(move.deed)]);
}

// The little that a job's own side knows.
struct Toy {
  bool alive = true;
  bool asked = false;
  bool has_turn = false;
  bool asked_room = false;
  bool steps_aside = false;
  bool movable = false;
  bool unread = false;      // a Grant lies in its socket
  bool void_grant = false;  // and was taken back
  std::uint64_t waits = 0;
  Bytes resident = 0;
  Bytes spilled = 0;
  std::uint64_t steps = 0;
  TurnNumber turn = 0;
  std::optional<wire::Yield> yield;
  std::optional<wire::Spill> spill;
  std::optional<wire::Restore> restore;
  std::optional<wire::StandBy> stand_by;  // not answered yet
  std::optional<wire::Grant> promise;
  std::optional<wire::Yield> promised_yield;  // of that turn
  std::uint64_t pass = 0;                     // it was told in this turn; it has not read that it is not to
  bool stands = false;                        // it was told, and not to go on
};

class World {
 public:
  explicit World(const Cast& cast)
      : cast_(cast),
        core_({.policy = cast.together ? "two"
                         : cast.last   ? "last"
                                       : "fifo",
               .overdue_go_on = cast.go_on,
               .runtime_dir = "/run/test",
               .make_policy = MakeForTest}) {
    for (JobId id = 1; id <= static_cast<JobId>(cast.jobs); ++id) {
      toys_[id].resident = cast.persistent;
      wire::Join join{.name = absl::StrCat("j", id), .device = "gpu", .capacity = kCapacity, .job = id};
      join.persistent = cast.persistent;
      join.heeds_restore = cast.ahead;
      join.serves = id + static_cast<JobId>(cast.servers) > static_cast<JobId>(cast.jobs);
      join.stands_by = cast.servers > 0;
      if (cast.cap_of_two > 0 && id <= 2) join.group = "together";
      Handle(id, JobJoins{join, 0});
    }
    for (JobId id = 1; id <= static_cast<JobId>(cast.gang); ++id)
      Handle(id, wire::Gang{"g", id - 1, static_cast<std::uint64_t>(cast.gang)});
    if (cast.cap > 0) Handle(1, SetTimeCap{cast.cap});
    if (cast.guarantee > 0) Handle(1, SetTimeGuarantee{cast.guarantee});
    if (cast.cap_of_two > 0)
      Handle(0, SetQuota{.of = Owner::Group("together"), .quota = {.time_cap = cast.cap_of_two}});
  }

  // What may happen next.
  std::vector<Move> Moves() const {
    std::vector<Move> moves;
    for (const auto& [id, toy] : toys_) {
      if (!toy.alive) continue;
      if (cast_.deaths) moves.push_back({Deed::kDie, id});
      if (toy.unread) {
        moves.push_back({Deed::kRead, id});
        continue;
      }
      if (!toy.has_turn && !toy.asked) moves.push_back({Deed::kAsk, id});
      if (toy.has_turn && !toy.asked_room) moves.push_back({Deed::kGiveUp, id});
      if (toy.has_turn && !toy.asked_room && toy.pass != 0) {
        moves.push_back({Deed::kPass, id});
        moves.push_back({Deed::kPassSlowly, id});
        if (cast_.deaths) moves.push_back({Deed::kPassAndDie, id});
        moves.push_back({Deed::kPassInVain, id});
      }
      if (SeesPass(toy)) moves.push_back({Deed::kTakePassed, id});
      if (toy.has_turn && !toy.asked_room && cast_.room) moves.push_back({Deed::kNeedRoom, id});
      if (toy.stand_by) moves.push_back({Deed::kStandBy, id});
      if (toy.restore) {  // one thread obeys, in order
        moves.push_back({Deed::kAnswerRestore, id});
        continue;
      }
      if (toy.spill) moves.push_back({Deed::kAnswerSpill, id});
      if (toy.spill && cast_.parts && toy.spill->bytes > 10) moves.push_back({Deed::kSpillPart, id});
      if (toy.asked && !toy.movable && cast_.persistent > 0) moves.push_back({Deed::kReachDoors, id});
      if (toy.has_turn && toy.yield && toy.yield->stop_step > 0) {
        moves.push_back({Deed::kAcknowledge, id});
        if (toy.steps < 4) moves.push_back({Deed::kRefuseStop, id});
      }
    }
    if (timer_ != absl::InfiniteFuture()) moves.push_back({Deed::kTime, 0});
    return moves;
  }

  void Do(const Move& move) {
    if (move.deed == Deed::kTime) return PassTime();
    Toy& toy = toys_.at(move.job);
    switch (move.deed) {
      case Deed::kAsk:
        return Ask(move.job, toy);
      case Deed::kGiveUp:
        return GiveUp(move.job, toy);
      case Deed::kPass:
      case Deed::kPassSlowly:
      case Deed::kPassAndDie:
      case Deed::kPassInVain:
        return Pass(move.job, toy, move.deed);
      case Deed::kTakePassed:
        return Take(toy, *toy.promise);
      case Deed::kNeedRoom:
        toy.asked_room = true;
        toy.pass = 0;
        return Handle(move.job, wire::NeedRoom{.bytes = 20, .restoring = toy.spilled > 0});
      case Deed::kAnswerSpill:
        return AnswerSpill(move.job, toy);
      case Deed::kSpillPart:
        return SpillPart(move.job, toy);
      case Deed::kAnswerRestore:
        return AnswerRestore(move.job, toy);
      case Deed::kReachDoors:
        toy.movable = true;
        return Handle(move.job,
                      wire::Spilled{.persistent = toy.resident, .spilled = toy.spilled, .movable = true});
      case Deed::kDie:
        toy = Toy{.alive = false};
        return Handle(move.job, JobDied{});
      case Deed::kAcknowledge:
      case Deed::kRefuseStop:
        return Acknowledge(move.job, toy, move.deed == Deed::kAcknowledge);
      case Deed::kRead:
        toy.unread = false;
        if (std::exchange(toy.void_grant, false)) Ask(move.job, toy);
        return;
      case Deed::kStandBy:
        return StandBy(move.job, toy);
      case Deed::kTime:
        break;
    }
  }

  // All that decides what can happen from here on: no times, no numbers of turns.
  std::string Fingerprint() const {
    std::string text;
    std::vector<std::pair<absl::Time, JobId>> order;
    for (const auto& [id, toy] : toys_) {
      absl::StrAppend(
          &text, toy.alive, toy.asked, toy.has_turn, toy.asked_room, toy.movable, " ", toy.resident, " ",
          toy.spilled, " ", cast_.gang > 0 ? std::min<std::uint64_t>(toy.steps, 5) : 0, toy.spill.has_value(),
          toy.spill ? toy.spill->bytes : 0, toy.yield ? (toy.yield->now ? "n" : "i") : "-",
          toy.yield ? toy.yield->stop_step : 0, toy.unread, toy.void_grant,
          toy.restore ? toy.restore->bytes : 0, toy.stand_by.has_value(), toy.stands, toy.promise.has_value(),
          SeesPass(toy), toy.promised_yield.has_value(), toy.pass != 0, ";");
      auto job = core_.state().jobs.find(id);
      if (job == core_.state().jobs.end()) continue;
      absl::StrAppend(&text, job->second.grant_open, job->second.taken_back, job->second.unresponsive,
                      job->second.held_back, job->second.cannot_spill.empty(), job->second.lane,
                      job->second.room.has_value(), job->second.room ? job->second.room->freed : 0,
                      job->second.unclaimed, job->second.ahead.has_value(), job->second.overstays != 0,
                      job->second.told_stand_by, job->second.stands_by, job->second.alone_first,
                      std::min(job->second.asides, 4), job->second.accompanied, job->second.told_stop, "|");
      if (toy.asked) order.emplace_back(job->second.asked, id);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [at, id] : order) absl::StrAppend(&text, id, ">");
    const auto& devices = core_.state().devices;
    for (const auto& [key, device] : devices) {
      absl::StrAppend(&text, device.turn != 0, " r", device.returning.size());
      for (const auto& [index, lane] : device.lanes) absl::StrAppend(&text, " f", lane.fresh);
    }
    for (const auto& [number, turn] : core_.state().turns)
      absl::StrAppend(&text, " t", turn.asked_long_idle, turn.asked_idle, turn.asked_stop, turn.stop,
                      turn.granted.size(), turn.next, turn.lacks_room, turn.no_use, turn.entity,
                      turn.guests.size(), turn.no_guests, turn.overdue, turn.serves_beside, turn.in_order,
                      turn.next_is_promised ? turn.next_is_promised->to : 0,
                      turn.next_is_promised && turn.next_is_promised->withdrawn != absl::InfiniteFuture(),
                      turn.may_promise, turn.passed != 0, turn.say_grant_at != absl::InfiniteFuture());
    return absl::StrCat(text, timer_ != absl::InfiniteFuture());
  }

  // From here on everybody behaves: holders give up, victims answer, all others stand at doors. Returns who
  // never got the turn they wait for; empty when all did.
  std::string WhoStarves() {
    std::set<JobId> wanting;
    for (const auto& [id, toy] : toys_) {
      if (toy.alive && (toy.asked || toy.void_grant)) wanting.insert(id);
    }
    const auto any_stands = [&] {
      return std::any_of(toys_.begin(), toys_.end(), [](const auto& toy) { return toy.second.stands; });
    };
    for (int round = 0; round < 200 && (!wanting.empty() || any_stands()); ++round) {
      for (auto& [id, toy] : toys_) {
        if (!toy.alive) continue;
        if (toy.unread) Do({Deed::kRead, id});
        if (SeesPass(toy)) Do({Deed::kTakePassed, id});
        if (!toy.has_turn && !toy.unread && !toy.movable) Do({Deed::kReachDoors, id});
        if (toy.restore) Do({Deed::kAnswerRestore, id});
        if (toy.spill) Do({Deed::kAnswerSpill, id});
        if (toy.stand_by) Do({Deed::kStandBy, id});
        if (toy.has_turn) wanting.erase(id);
        if (!toy.has_turn || toy.asked_room || toy.stands) continue;
        if (MayStop(toy)) {
          Do({toy.pass != 0 ? Deed::kPass : Deed::kGiveUp, id});
        } else {
          ++toy.steps;
        }
      }
      if (timer_ != absl::InfiniteFuture()) Do({Deed::kTime, 0});
    }
    for (const auto& [id, toy] : toys_) {
      if (toy.alive && toy.stands) wanting.insert(id);  // nobody serves any longer
    }
    return absl::StrJoin(wanting, "; ", [&](std::string* out, JobId id) {
      absl::StrAppend(out, id, ": ", core_.Explain(id));
    });
  }

  // After so many events what moves ahead of a turn was paused.
  int pauses() const { return pauses_; }

 private:
  void PassTime() {
    now_ = std::max(now_, timer_);
    timer_ = absl::InfiniteFuture();
    Handle(0, Tick{});
  }

  // A gang's rank gives up at the step that was named.
  static bool MayStop(const Toy& toy) {
    return !toy.yield || toy.yield->stop_step == 0 || toy.steps + 1 >= toy.yield->stop_step;
  }

  void Ask(JobId id, Toy& toy) {
    toy.asked = true;
    toy.promise.reset();
    Handle(
        id,
        wire::Wait{
            .need = toy.spilled, .gang_step = toy.steps, .number = ++toy.waits, .heeds_pass = cast_.passes});
  }

  bool SeesPass(const Toy& toy) const {
    return toy.alive && toy.asked && !toy.unread && toy.promise && toy.promise->pass == page_;
  }

  void Pass(JobId id, Toy& toy, Deed how) {
    const std::uint64_t number = std::exchange(toy.pass, 0);
    if (how != Deed::kPassInVain) page_ = number;
    toy.has_turn = false;
    for (auto& [other, next] : toys_) {
      const bool at_once = how == Deed::kPass || how == Deed::kPassAndDie;
      if (at_once && SeesPass(next)) Take(next, *next.promise);
    }
    if (how == Deed::kPassAndDie) return Do({Deed::kDie, id});
    GiveUp(id, toy, number);
  }

  void Take(Toy& toy, wire::Grant grant) {
    toy.asked = toy.movable = false;
    toy.has_turn = true;
    toy.turn = grant.turn;
    toy.promise.reset();
    toy.yield = std::exchange(toy.promised_yield, std::nullopt);
    toy.pass = toy.yield ? toy.yield->pass : 0;
    CheckHolders();
  }

  void GiveUp(JobId id, Toy& toy, std::uint64_t passed = 0) {
    ++toy.steps;
    toy.pass = 0;
    toy.has_turn = false;
    toy.resident += std::exchange(toy.spilled, 0);
    const TurnNumber turn = std::exchange(toy.turn, 0);
    toy.yield.reset();
    toy.stand_by.reset();
    toy.stands = false;
    Handle(id, wire::TurnOver{.turn = turn,
                              .steps = toy.steps,
                              .turn_steps = 1,
                              .persistent = toy.resident,
                              .transient_peak = cast_.transient,
                              .stood_aside = std::exchange(toy.steps_aside, false),
                              .passed = passed});
  }

  void StandBy(JobId id, Toy& toy) {
    const wire::StandBy order = *std::exchange(toy.stand_by, std::nullopt);
    Handle(id, wire::StoodBy{.turn = order.turn});
  }

  void AnswerRestore(JobId id, Toy& toy) {
    const wire::Restore order = *std::exchange(toy.restore, std::nullopt);
    Bytes used = 0;
    for (const auto& [other, its] : toys_) used += its.resident;
    const Bytes free = kCapacity - std::min(used, kCapacity);
    const Bytes back = toy.has_turn ? 0 : std::min({Bytes{order.bytes}, toy.spilled, free});
    toy.resident += back;
    toy.spilled -= back;
    Handle(
        id,
        wire::Restored{
            .request = order.request, .restored = back, .persistent = toy.resident, .spilled = toy.spilled});
  }
  void AnswerSpill(JobId id, Toy& toy) {
    const wire::Spill order = *std::exchange(toy.spill, std::nullopt);
    Bring(id, toy, order.request, order.bytes, /*more=*/false);
  }
  void SpillPart(JobId id, Toy& toy) {
    toy.spill->bytes -= 10;
    Bring(id, toy, toy.spill->request, 10, /*more=*/toy.resident > 10);
  }
  void Bring(JobId id, Toy& toy, std::uint64_t request, Bytes bytes, bool more) {
    const Bytes freed = std::min(bytes, toy.resident);
    if (!more) toy.spill.reset();
    toy.resident -= freed;
    toy.spilled += freed;
    Handle(id, wire::Spilled{.request = request,
                             .freed = freed,
                             .persistent = toy.resident,
                             .spilled = toy.spilled,
                             .movable = !toy.has_turn,
                             .more = more});
  }

  void Acknowledge(JobId id, Toy& toy, bool accepted) {
    const auto yield = *std::exchange(toy.yield, std::nullopt);
    if (accepted) {
      toy.yield = yield;
    } else {
      toy.steps = yield.stop_step;
    }
    Handle(id, wire::YieldAck{yield.turn, yield.stop_step, toy.steps, accepted});
    if (accepted && toy.yield) toy.yield->stop_step = yield.stop_step;
  }

  void Handle(JobId job, decltype(Event::what) what) {
    now_ += absl::Microseconds(1);
    const std::vector<Action> actions = core_.Handle({.at = now_, .job = job, .what = std::move(what)});
    for (const Action& action : actions) {
      if (auto* send = std::get_if<Send>(&action)) Hear(send->to, send->message);
      if (auto* timer = std::get_if<SetTimer>(&action)) timer_ = timer->at;
      if (auto* reject = std::get_if<Reject>(&action)) ADD_FAILURE() << "rejected: " << reject->reason;
    }
    core_.CheckInvariants();
    CheckHolders();
    for (const auto& [number, turn] : core_.state().turns) pauses_ += turn.link_paused;
    for (const Action& action : actions) {
      if (auto* back = std::get_if<TakeBack>(&action)) TryToTakeBack(*back);
      if (auto* look = std::get_if<LookAt>(&action)) Handle(look->job, StepsSeen{.steps = 1, .at = now_});
    }
  }

  void TryToTakeBack(const TakeBack& action) {
    Toy& toy = toys_.at(action.job);
    EXPECT_EQ(action.wait, toy.waits) << action.job << " has asked again since";
    if (!toy.unread) return;
    EXPECT_FALSE(toy.void_grant) << action.job << "'s Grant is taken back twice";
    toy.void_grant = true;
    toy.has_turn = false;
    toy.pass = 0;
    toy.yield.reset();
    toy.stand_by.reset();
    toy.stands = false;
    Handle(action.job, GrantTakenBack{action.wait});
  }

  void Hear(JobId id, const wire::Message& message) {
    Toy& toy = toys_.at(id);
    if (auto* grant = std::get_if<wire::Grant>(&message); grant != nullptr && grant->passed) {
      if (!toy.promise || toy.promise->pass != grant->pass) return;  // obeyed already
      Take(toy, *grant);
      toy.unread = cast_.stops;
    } else if (grant != nullptr) {
      EXPECT_TRUE(toy.asked && !toy.has_turn) << id << " is granted a turn it did not ask for";
      EXPECT_FALSE(toy.spill) << id << " is granted a turn while it is being spilled";
      EXPECT_FALSE(toy.unread) << id << " has not read its last Grant yet";
      toy.promised_yield.reset();
      toy.promise.reset();
      if (grant->pass != 0) {
        toy.promise = *grant;
        return;
      }
      Take(toy, *grant);
      toy.unread = cast_.stops;
    } else if (auto* yield = std::get_if<wire::Yield>(&message)) {
      if (toy.promise && toy.promise->turn == yield->turn) {
        toy.promised_yield = *yield;
        return;
      }
      EXPECT_TRUE(toy.has_turn) << id << " is asked for a turn it does not have";
      toy.yield = *yield;
      if (toy.pass == 0) toy.pass = yield->pass;
    } else if (auto* spill = std::get_if<wire::Spill>(&message)) {
      EXPECT_FALSE(toy.has_turn) << id << " is spilled in its turn";
      toy.spill = *spill;
    } else if (auto* restore = std::get_if<wire::Restore>(&message)) {
      EXPECT_FALSE(toy.has_turn || !toy.asked) << id << " is to restore before its turn, and does not wait";
      EXPECT_FALSE(toy.restore) << id << " is to restore twice";
      toy.restore = *restore;
    } else if (auto* stand = std::get_if<wire::StandBy>(&message)) {
      EXPECT_TRUE(toy.has_turn && !toy.stands) << id << " is to stand by without a turn, or twice";
      toy.stand_by = *stand;
      toy.stands = true;
    } else if (std::holds_alternative<wire::GoOn>(message)) {
      EXPECT_TRUE(toy.stands) << id << " is to go on and does not stand by";
      toy.stand_by.reset();
      toy.stands = false;
    } else if (std::holds_alternative<wire::Room>(message)) {
      EXPECT_TRUE(toy.asked_room) << id << " is told of room it did not ask for";
      toy.asked_room = false;
      toy.steps_aside = cast_.together && std::get<wire::Room>(message).step_aside;
    }
  }

  // Only ranks of one gang have the turn together, and two jobs that may. Those that were set aside go on
  // beside them.
  void CheckHolders() const {
    int singles = 0, ranks = 0;
    for (const auto& [id, toy] : toys_) {
      if (!toy.alive || !toy.has_turn || core_.state().jobs.at(id).set_aside) continue;
      if (id + static_cast<JobId>(cast_.servers) > static_cast<JobId>(cast_.jobs)) continue;
      ++(id <= static_cast<JobId>(cast_.gang) ? ranks : singles);
    }
    const int most = cast_.together && ranks == 0 ? 2 : 1;
    EXPECT_LE(singles + (ranks > 0 ? 1 : 0), most) << "too many have the turn";
  }

  const Cast cast_;
  Core core_;
  std::map<JobId, Toy> toys_;
  std::uint64_t page_ = 0;  // the lane's: what was passed last
  absl::Time now_ = absl::UnixEpoch();
  absl::Time timer_ = absl::InfiniteFuture();
  int pauses_ = 0;
};

std::string ToText(const std::vector<Move>& history) {
  return absl::StrJoin(history, "; ", [](std::string* out, const Move& move) { out->append(ToText(move)); });
}

unsigned Seeds() {
  const char* const seeds = std::getenv("HOCKET_TEST_SEEDS");
  return seeds == nullptr ? 100 : static_cast<unsigned>(std::atoi(seeds));
}

}  // namespace

size_t TryEverything(const Cast& cast, size_t max_states) {
  std::set<std::string> seen;
  std::deque<std::vector<Move>> open = {{}};
  while (!open.empty() && seen.size() < max_states && !testing::Test::HasFailure()) {
    const std::vector<Move> history = std::move(open.front());
    open.pop_front();
    auto world = std::make_unique<World>(cast);
    SCOPED_TRACE(ToText(history));
    for (const Move& move : history) world->Do(move);
    if (!seen.insert(world->Fingerprint()).second) continue;
    for (const Move& move : world->Moves()) {
      open.push_back(history);
      open.back().push_back(move);
    }
    EXPECT_EQ(world->WhoStarves(), "") << "wait for ever";
  }
  return seen.size();
}

int Walk(const Cast& cast) {
  int pauses = 0;
  for (unsigned seed = 1; seed <= Seeds() && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    World world(cast);
    std::vector<Move> history;
    for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i) {
      const std::vector<Move> moves = world.Moves();
      if (moves.empty()) break;
      history.push_back(moves[random() % moves.size()]);
      world.Do(history.back());
    }
    EXPECT_EQ(world.WhoStarves(), "") << "wait for ever: " << ToText(history);
    pauses += world.pauses();
  }
  return pauses;
}

}  // namespace hocket::coordinator
