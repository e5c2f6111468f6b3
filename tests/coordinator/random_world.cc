#include "tests/coordinator/random_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/policies/registry.h"
#include "csrc/base/check.h"
#include "tests/coordinator/capricious_policy.h"
#include "tests/coordinator/random_world_words.h"

namespace hocket::coordinator {
namespace {

// At the end: ticks until everybody has had his turn, and until all is quiet.
constexpr int kMostTicks = 20'000;
constexpr int kTicksUntilOneEnds = 2000;
constexpr int kMostQuietTicks = 200;
constexpr int kMostDeeds = 20'000;  // between two of them

constexpr const char* kCapricious = "a user's own";  // a policy

}  // namespace

RandomWorld::RandomWorld(std::uint64_t seed, std::ostream* story)
    : story_(story), dice_(seed), now_(absl::UnixEpoch() + absl::Hours(1)) {
  traits_.devices = 1 + static_cast<int>(Once(2) ? 0 : Pick(3));
  traits_.jobs = 2 + static_cast<int>(Pick(6));
  if (Once(3)) traits_.servers = 1 + static_cast<int>(Pick(2));
  if (Once(3)) traits_.gang = std::min<int>(traits_.jobs, 2 + static_cast<int>(Pick(3)));
  traits_.meets = Pick(4) != 0;
  traits_.twins = traits_.devices > 1 && Once(2);
  traits_.crosswise = seed % 5 == 2;  // not by the dice, either
  if (seed % 7 == 3 && traits_.devices > 1) traits_.others = std::min(traits_.gang, 2);
  traits_.memory = Pick(3) != 0;
  traits_.host = traits_.memory && Once(4);
  traits_.arena = traits_.memory && Once(2);
  traits_.passes = Once(2);
  traits_.stops = Once(2);
  traits_.deaths = Once(2);
  traits_.hang_ups = Once(3);
  traits_.restarts = Once(4);
  traits_.rude = Once(5);
  traits_.people = Once(2);
  traits_.early = Pick(3) != 0;
  traits_.many_users = Once(4);
  traits_.late_ticks = Once(2);
  traits_.late_ears = Once(4);
  const auto& policies = AllPolicies();
  policy_ = Once(3) ? "fair" : policies[Pick(policies.size())].name;
  if (seed % 6 == 5) policy_ = kCapricious;  // not by the dice: all other worlds stay what they were
  go_on_ = Once(4);
  core_ = MakeCore();
}

std::unique_ptr<Core> RandomWorld::MakeCore() {
  CoreOptions options = set_;
  options.policy = policy_;
  options.overdue_go_on = go_on_;
  options.runtime_dir = "/run";
  options.lock_folder = [](unsigned user) { return absl::StrCat("/run/", user); };
  options.first_turn = next_turn_;
  options.first_pass = next_pass_;
  options.make_policy = [seed = next_pass_](const std::string& name) -> std::unique_ptr<Policy> {
    if (name == kCapricious) return std::make_unique<CapriciousPolicy>(seed);
    return std::move(MakePolicy(name)).value();
  };
  return std::make_unique<Core>(options);
}

void RandomWorld::Play(int moves) {
  players_.resize(static_cast<std::size_t>(traits_.jobs + traits_.others));
  for (Player& player : players_) Joins(player);
  for (Player& player : players_) JoinsGang(player);
  for (int move = 0; move < moves; ++move) {
    TimePasses(absl::Microseconds(Pick(4) ? Pick(300) : Pick(20'000)));
    if (Once(60)) TimePasses(absl::Milliseconds(Pick(3000)));
    if (traits_.restarts && Once(250)) Restart();
    if (traits_.people && Once(15)) People();
    Live(players_[Pick(players_.size())]);
  }
  Drain();
}

// --- events and actions ---------------------------------------------------------------------------

void RandomWorld::Note(const std::string& text) {
  for (const unsigned char c : text) digest_ = (digest_ ^ c) * 1099511628211u;
}

RandomWorld::Player* RandomWorld::PlayerOf(JobId id) {
  const auto found = std::find_if(players_.begin(), players_.end(), [&](const Player& player) {
    return player.id == id && player.alive && player.connected;
  });
  return found == players_.end() ? nullptr : &*found;
}

void RandomWorld::Apply(JobId job, decltype(Event::what) what) {
  Event event{.at = now_, .job = job, .what = std::move(what)};
  if (now_ >= timer_ && !std::holds_alternative<Tick>(event.what)) event.due = timer_ - absl::Nanoseconds(1);
  heard_late_ = event.due < now_;
  if (story_ != nullptr)
    *story_ << absl::FormatDuration(now_ - absl::UnixEpoch() - absl::Hours(1)) << " " << InWords(event)
            << std::endl;
  if (now_ >= timer_) timer_ = absl::InfiniteFuture();
  const std::vector<Action> actions =
      traits_.early ? core_->Handle(event, [&](const Send& send) { TakeIn(send); }) : core_->Handle(event);
  for (const Action& action : actions) TakeIn(action);
  core_->CheckInvariants();
  for (const Action& action : actions) {
    if (const auto* back = std::get_if<TakeBack>(&action)) TakeBackFrom(*back);
  }
  for (const Action& action : actions) {
    const auto* look = std::get_if<LookAt>(&action);
    if (look == nullptr) continue;
    const Player* player = PlayerOf(look->job);
    Apply(look->job,
          StepsSeen{player == nullptr ? 0 : player->steps, player == nullptr ? absl::InfinitePast() : now_});
  }
}

void RandomWorld::TakeIn(const Action& action) {
  const std::string words = InWords(action);
  Note(words);
  if (story_ != nullptr && !words.empty()) *story_ << "      " << words << std::endl;
  if (const auto* send = std::get_if<Send>(&action)) Deliver(*send);
  if (const auto* timer = std::get_if<SetTimer>(&action)) {
    HOCKET_CHECK(timer->at > now_ || heard_late_)
        << "a timer is set for " << timer->at << ", and it is " << now_;
    timer_ = timer->at;
  }
  if (const auto* reject = std::get_if<Reject>(&action)) rejected_.push_back(reject->job);
}

void RandomWorld::Deliver(const Send& send) {
  if (const auto* grant = std::get_if<wire::Grant>(&send.message)) {
    next_turn_ = std::max(next_turn_, grant->turn + 1);
    next_pass_ = std::max(next_pass_, grant->pass + 1);
  }
  Player* player = PlayerOf(send.to);
  if (player == nullptr) return;
  CheckTold(*player, send.message);
  if (player->unread.empty()) player->unread_since = now_;
  player->unread.push_back(send.message);
}

// Only to one who can do what it says. (What a job says is heard at once, so here it has said no more than
// the core knows.)
void RandomWorld::CheckTold(const Player& player, const wire::Message& message) const {
  if (player.rude) return;
  if (const auto* grant = std::get_if<wire::Grant>(&message)) {
    HOCKET_CHECK(player.asked || grant->passed)
        << player.id << " has not asked, and is granted turn " << grant->turn;
  }
  if (std::holds_alternative<wire::Room>(message))
    HOCKET_CHECK(player.room_asked) << player.id << " has not asked for room, and is answered";
  if (std::holds_alternative<wire::Restore>(message))
    HOCKET_CHECK(player.join.heeds_restore && player.asked)
        << player.id << " is to restore, and does not wait";
  if (std::holds_alternative<wire::Spill>(message))
    HOCKET_CHECK(!player.granted || HasLostTurn(player)) << player.id << " is to spill in its turn";
  if (std::holds_alternative<wire::StandBy>(message))
    HOCKET_CHECK(player.join.stands_by && !player.join.serves) << player.id << " is to stand by, and cannot";
  if (std::holds_alternative<wire::Limit>(message))
    HOCKET_CHECK(player.join.heeds_limit) << player.id << " is told a limit, and knows none";
}

void RandomWorld::TakeBackFrom(const TakeBack& back) {
  Player* player = PlayerOf(back.job);
  if (player == nullptr || !player->asked || player->waits != back.wait) return;  // it has read it
  player->taken_back = back.wait;
  Apply(back.job, GrantTakenBack{back.wait});
}

// The server ends such a connection.
void RandomWorld::EndRejected() {
  while (!rejected_.empty()) {
    Player* player = PlayerOf(rejected_.back());
    rejected_.pop_back();
    if (player == nullptr) continue;
    HOCKET_CHECK(player->rude) << player->id << " has broken no rule, and is rejected";
    HangsUp(*player);
  }
}

void RandomWorld::TimePasses(absl::Duration time) {
  const absl::Time end = now_ + time;
  if (traits_.late_ears && Perhaps(3)) {  // the timer fires after all that is said until then
    now_ = end;
    return;
  }
  while (timer_ <= end) {
    now_ = std::max(now_, Perhaps(traits_.late_ticks ? 8 : 1'000'000) ? end : timer_);
    Apply(0, Tick{});
  }
  now_ = end;
}

// Whoever lives joins again sooner or later.
void RandomWorld::Restart() {
  if (story_ != nullptr) *story_ << "the coordinator is killed" << std::endl;
  Restarted restarted;
  for (Player& player : players_) {
    if (!player.alive || player.left) continue;
    FormerJob& former = restarted.expected[player.id];
    former.pid = player.join.pid;
    if (player.has_lock) former.locks.push_back(player.lane_lock);
    LosesConnection(player);
  }
  next_turn_ += 10;  // those that it had given, and nobody has heard of
  next_pass_ += 1000;
  core_ = MakeCore();
  timer_ = absl::InfiniteFuture();
  Apply(0, std::move(restarted));
}

// --- people ---------------------------------------------------------------------------------------

void RandomWorld::People() {
  Player& player = players_[Pick(players_.size())];
  Once(2) && core_->state().jobs.contains(player.id) ? SetForOne(player) : SetForAll();
}

void RandomWorld::SetForOne(Player& player) {
  const auto share = [&] { return static_cast<double>(1 + Pick(100)) / 100; };
  switch (Pick(8)) {
    case 0:
    case 1:
      player.paused = Once(6);
      return Apply(player.id, SetPaused{player.paused});
    case 2:
      player.join.weight = 1.0 + static_cast<double>(Pick(4));
      player.join.priority = Once(2) ? "high" : "low";
      player.join.total_steps = Pick(100);
      return Apply(player.id, SetShare{player.join.weight, player.join.priority, player.join.total_steps});
    case 3:
      return Apply(player.id, SetTimeCap{Once(4) ? 0 : std::max(0.1, share())});
    case 4:
      player.time_guarantee = Once(4) ? 0 : share() / 10;
      return Apply(player.id, SetTimeGuarantee{player.time_guarantee});
    case 5:
      player.join.group = Once(2) ? "a" : "";
      return Apply(player.id, SetGroup{player.join.group});
    case 6:
      player.memory_guarantee = Once(3) ? 0 : Pick(14) << 20;
      return Apply(player.id, SetMemoryGuarantee{player.memory_guarantee});
    default:
      if (player.join.heeds_limit) Apply(player.id, SetMemoryLimit{Once(3) ? 0 : (40 + Pick(60)) << 20});
  }
}

void RandomWorld::SetForAll() {
  const auto share = [&] { return static_cast<double>(1 + Pick(100)) / 100; };
  const auto& policies = AllPolicies();
  switch (Pick(8)) {
    case 0:
    case 1: {
      const SetQuota set{.of = Once(2) ? Owner::Group("a") : Owner::User(7),
                         .quota = {.time_cap = Once(2) ? 0 : 0.2 + 0.8 * share(),
                                   .time_guarantee = Once(2) ? 0 : share() / 10,
                                   .memory_guarantee = Once(2) ? 0 : Pick(20) << 20,
                                   .memory_cap = Once(2) ? 0 : (30 + Pick(60)) << 20,
                                   .weight = Once(2) ? 0 : 1.0 + static_cast<double>(Pick(3))}};
      set_.quotas[set.of] = set.quota;
      return Apply(0, set);
    }
    case 2:
      policy_ = policies[Pick(policies.size())].name;
      return Apply(0, SetPolicy{policy_});
    case 3:
      set_.switch_share = 0.01 + share() / 2;
      return Apply(0, SetSwitchShare{set_.switch_share});
    case 4:
      set_.policy_settings.most_together = 1 + static_cast<int>(Pick(5));
      return Apply(0, SetMostTogether{set_.policy_settings.most_together});
    case 5:
      go_on_ = Once(2);
      return Apply(0, SetOverdue{go_on_});
    case 6:
      set_.link_bound = Once(2) ? 0.02 : share();
      return Apply(0, SetLinkBound{set_.link_bound});
    default:
      set_.policy_settings.production_bound = share() * 0.9;
      return Apply(0, SetProductionBound{set_.policy_settings.production_bound});
  }
}

// --- the end --------------------------------------------------------------------------------------

void RandomWorld::Drain() {
  if (story_ != nullptr) *story_ << "from here on everybody behaves" << std::endl;
  draining_ = true;
  SayWhatTheyDoLast();
  for (int ticks = 0;; ++ticks) {
    HOCKET_CHECK(ticks < kMostTicks) << "everybody behaves, and still there wait" << WhoWaits();
    int deeds = 0;
    for (bool any = true; any;) {
      any = false;
      for (Player& player : players_) any |= DoesNext(player);
      HOCKET_CHECK(++deeds < kMostDeeds) << "there is no end of what they do" << WhoWaits();
    }
    if (AllDone()) break;
    const bool for_long = traits_.host && ticks % kTicksUntilOneEnds == kTicksUntilOneEnds - 1;
    if ((timer_ == absl::InfiniteFuture() || for_long) && OneEnds()) continue;
    HOCKET_CHECK(timer_ != absl::InfiniteFuture())
        << "nothing will happen any more, and there wait" << WhoWaits();
    now_ = std::max(now_, timer_);
    Apply(0, Tick{});
  }
  BecomeQuiet();
  CheckQuiet();
}

void RandomWorld::SayWhatTheyDoLast() {
  std::uint64_t most = 0;
  for (Player& player : players_) {
    player.stands_until = absl::InfinitePast();
    if (player.alive && player.left) Dies(player);
    if (player.join.gang.empty()) continue;
    most = std::max(most, player.steps);
  }
  std::vector<JobId> paused;
  for (const auto& [id, job] : core_->state().jobs) {
    if (job.paused) paused.push_back(id);
  }
  for (JobId id : paused) Apply(id, SetPaused{false});
  for (Player& player : players_) {
    player.paused = false;
    player.target = player.steps + 1 + Pick(2);
    if (!player.join.gang.empty() && traits_.meets) player.target = most + 2;
  }
  for (Player& player : players_) {
    if (const Player* first = TwinOf(player); player.second)
      player.target = player.steps + (first->target - first->steps);
  }
}

bool RandomWorld::AllDone() const {
  return std::all_of(players_.begin(), players_.end(), [](const Player& player) {
    const bool through = player.connected && !player.asked && !player.granted &&
                         player.steps >= player.target && player.unread.empty();
    return !player.alive || through;
  });
}

// Who waits for room that others have to give back goes on, at the latest, when they end. Where nothing of
// theirs can be moved, for want of memory on the host, he may ask for it in his turn until then, and they may
// be ranks; as where his earlier runs say that so little of his own can be moved.
bool RandomWorld::OneEnds() {
  const auto& jobs = core_->state().jobs;
  bool lacks = false, ranks = traits_.host;
  for (const auto& [id, job] : jobs) {
    lacks |= job.held_out || (traits_.host && job.room);
    ranks |= job.held_out && job.known;
  }
  const auto done = std::find_if(players_.begin(), players_.end(), [&](const Player& player) {
    return player.alive && !player.asked && !player.granted && (ranks || player.join.gang.empty());
  });
  if (!lacks || done == players_.end()) return false;
  Dies(*done);
  return true;
}

void RandomWorld::BecomeQuiet() {
  for (int ticks = 0; timer_ != absl::InfiniteFuture(); ++ticks) {
    HOCKET_CHECK(ticks < kMostQuietTicks) << "nobody wants anything, and the timer goes on and on";
    now_ = std::max(now_, timer_);
    Apply(0, Tick{});
    for (Player& player : players_) {
      while (DoesNext(player)) continue;
    }
  }
}

void RandomWorld::CheckQuiet() const {
  HOCKET_CHECK(core_->state().turns.empty()) << "nobody has a turn, and one lasts";
  for (const auto& [id, job] : core_->state().jobs) {
    HOCKET_CHECK(!job.waiting) << id << " does not wait, and counts as waiting: " << core_->Explain(id);
    HOCKET_CHECK(!job.spill && !job.ahead) << id << " has answered, and counts as moving bytes";
    HOCKET_CHECK(!job.room) << id << " has no question for room, and it counts as open";
    HOCKET_CHECK(job.overstays == 0 && !job.set_aside)
        << id << " has no turn, and counts as one that does not give it up";
    HOCKET_CHECK(!job.unresponsive) << id << " has answered all, and counts as silent";
  }
  for (const Player& player : players_)
    HOCKET_CHECK(!player.alive || !player.stands) << player.id << " stands by, and nobody tells it to go on";
}

std::string RandomWorld::WhoWaits() const {
  std::string who;
  for (const Player& player : players_) {
    if (!player.alive) continue;
    const bool known = core_->state().jobs.contains(player.id);
    absl::StrAppend(
        &who, "\n  job ", player.id, player.connected ? "" : ", not connected",
        player.asked ? ", has asked" : "", player.granted ? absl::StrCat(", has turn ", player.turn) : "",
        player.has_lock ? " and its lock" : "", player.at_meeting ? ", waits for its fellows" : "",
        player.stands ? ", stands by" : "", player.room_asked ? ", has asked for room" : "",
        player.restoring ? ", restores" : "", ", holds ", player.resident >> 20, " MiB, spilled ",
        player.spilled >> 20, player.grows > 0 ? ", grows" : "", ", after step ", player.steps, " of ",
        player.target, "; the core: ", known ? core_->Explain(player.id) : "does not know it");
  }
  return who;
}

}  // namespace hocket::coordinator
