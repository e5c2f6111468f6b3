// What the jobs of a random world do of themselves (random_world_messages.cc: on a message).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/check.h"
#include "csrc/wire/ids.h"
#include "tests/coordinator/random_world.h"

namespace hocket::coordinator {
namespace {

constexpr std::uint64_t kFirstPid = 1000;
constexpr std::size_t kMostOwnChunks = 4;

}  // namespace

void RandomWorld::Live(Player& player) {
  if (!player.alive || now_ < player.stands_until) return;
  if (traits_.deaths && Once(250)) return Dies(player);
  if (traits_.stops && Once(100)) {
    player.stands_until = now_ + absl::Milliseconds(Pick(2500));
    if (Player* twin = TwinOf(player)) twin->stands_until = player.stands_until;
    return;
  }
  DoesNext(player);
}

// The first two of a process may be, and the first two on the devices after that; no ranks.
bool RandomWorld::IsTwin(std::size_t index) const {
  const auto devices = static_cast<std::size_t>(traits_.devices);
  const std::size_t singles = static_cast<std::size_t>(traits_.jobs - traits_.gang);
  return traits_.twins && index % devices < 2 && index - index % devices + 1 < singles;
}

Bytes RandomWorld::HostLeft(const Player& player) const {
  return player.host == wire::kNoHostLimit ? player.host
                                           : player.host - std::min(player.host, player.spilled);
}

bool RandomWorld::DoesNext(Player& player) {
  if (!player.alive || player.left) return false;
  if (FellowHasDied(player) && (draining_ || Once(3))) return Dies(player), true;
  if (!player.connected) {
    if (Perhaps(3)) return false;
    return JoinsAgain(player), true;
  }
  const bool read = !player.unread.empty();
  Reads(player);
  if (!player.connected) return true;
  if (traits_.hang_ups && Perhaps(150)) return HangsUp(player), true;
  if (traits_.deaths && Perhaps(300)) return Leaves(player), true;
  if (traits_.rude && player.twin < 0 && Perhaps(60)) return IsRude(player), true;
  if (Answers(player) || TakesPassed(player)) return true;
  if (player.granted) return InTurn(player) || read;
  if (!player.told_movable && !Perhaps(2)) return ReachesDoors(player), true;
  if (player.asked) return read;
  if (draining_ && player.steps >= player.target) return read;
  const Player* const twin = TwinOf(player);
  if (player.second && !(twin->in_step && UsesItsTurn(*twin))) return read;
  if (!player.second && Perhaps(4)) return read;
  return Asks(player), true;
}

void RandomWorld::Says(Player& player, decltype(Event::what) what) {
  const JobId id = player.id;
  if (traits_.rude && !std::holds_alternative<JobJoins>(what))
    player.again = [this, &player, what] { Apply(player.id, what); };
  Apply(id, std::move(what));
  EndRejected();
}

// --- coming and going -----------------------------------------------------------------------------

void RandomWorld::Joins(Player& player) {
  const auto index = static_cast<std::uint64_t>(&player - players_.data());
  wire::Join& join = player.join;
  join.name = absl::StrCat("j", index + 1);
  bool odd = false;  // of a process
  const auto jobs = static_cast<std::uint64_t>(traits_.jobs),
             devices = static_cast<std::uint64_t>(traits_.devices);
  const bool beside_rank = index >= jobs;
  const std::uint64_t rank = index - static_cast<std::uint64_t>(traits_.others);
  if (beside_rank) {
    player.second = true;
    player.twin = static_cast<int>(rank);
    players_[rank].twin = static_cast<int>(index);
  }
  if (IsTwin(index)) {
    odd = index % static_cast<std::uint64_t>(traits_.devices) == 1;
    player.twin = static_cast<int>(odd ? index - 1 : index + 1);
    player.second = traits_.crosswise && (index - (odd ? 1 : 0)) % 4 == 0 ? !odd : odd;
  }
  join.pid = kFirstPid + (beside_rank ? rank : index - (odd ? 1 : 0));
  join.device = absl::StrCat("gpu", (beside_rank ? rank + 1 : index) % devices);
  join.capacity = kCapacity;
  join.weight = Once(3) ? 2 : 1;
  join.priority = Once(4) ? "high" : Once(4) ? "low" : "normal";
  join.total_steps = Once(3) ? 50 + Pick(100) : 0;
  join.heeds_limit = Once(2);
  join.heeds_restore = Once(2);
  join.stands_by = Once(2);
  join.heeds_idle = Once(2);
  join.counts_arena = Once(2);
  join.serves = index < static_cast<std::uint64_t>(traits_.servers);
  if (odd) join.serves = players_[index - 1].join.serves;
  if (traits_.people && Once(3)) join.group = "a";
  player.user = traits_.many_users && Once(3) ? 8 : 7;
  if (odd) player.user = players_[index - 1].user;
  if (beside_rank) player.user = players_[rank].user;
  player.passes = traits_.passes && Pick(5) != 0;
  player.numbers = Pick(8) != 0;
  const bool is_rank =
      index + static_cast<std::uint64_t>(traits_.gang) >= static_cast<std::uint64_t>(traits_.jobs);
  if (traits_.memory) player.resident = std::min<Bytes>(Pick(is_rank ? 12 : 40) << 20, FreeOn(join.device));
  if (traits_.host && Once(2)) player.host = Pick(60) << 20;
  join.persistent = player.resident;
  JobJoins joins{.join = join, .user = player.user};
  if (traits_.memory && Once(4))
    joins.known = KnownNeed{
        .persistent = Pick(60) << 20, .transient = Pick(20) << 20, .host = Pick(90) << 20, .runs = 3};
  player.id = joins.join.job = join.job = next_id_++;
  player.connected = true;
  Says(player, std::move(joins));
}

// The last ones are ranks; of one user.
void RandomWorld::JoinsGang(Player& player) {
  const auto index = static_cast<int>(&player - players_.data());
  const int first = traits_.jobs - traits_.gang;
  const bool beside_rank = index >= traits_.jobs;
  if (index < first || player.join.serves || player.user != players_.back().user) return;
  if (players_[static_cast<std::size_t>(first)].join.serves) return;
  for (int i = first; i < traits_.jobs; ++i) {
    if (players_[static_cast<std::size_t>(i)].user != player.user) return;
  }
  player.join.gang = "g";
  player.join.gang_rank = static_cast<std::uint64_t>((beside_rank ? player.twin : index) - first);
  player.join.gang_size = static_cast<std::uint64_t>(traits_.gang);
  Says(player, wire::Gang{player.join.gang, player.join.gang_rank, player.join.gang_size});
}

// As after a restart: it says what it has, and asks again what was not answered. One that had not been taken
// in yet joins as at first.
void RandomWorld::JoinsAgain(Player& player) {
  wire::Join& join = player.join;
  join.rejoin = !player.lane_lock.empty();
  join.job = player.id;
  join.holds_turn = player.granted && player.has_lock;
  join.turn = player.granted ? player.turn : 0;
  join.persistent = player.resident;
  join.spilled = player.spilled;
  join.steps = player.steps;
  join.lane_lock = player.lane_lock;
  player.told_movable = false;
  JobJoins joins{.join = join,
                 .user = player.user,
                 .paused = player.paused,
                 .memory_guarantee = player.memory_guarantee,
                 .time_guarantee = player.time_guarantee};
  bool own = false;
  for (const auto& [id, job] : core_->state().jobs) {
    if (job.info.pid != join.pid || job.info.device != join.device) continue;
    if (!job.gone && (id != player.id || !join.rejoin)) continue;
    joins.replaces.push_back(id);
    own |= id == player.id;
  }
  if (!join.rejoin || (!own && core_->state().jobs.contains(player.id))) player.id = next_id_++;
  joins.join.job = join.job = player.id;
  player.connected = true;
  Says(player, std::move(joins));
  if (player.connected && !join.rejoin && !join.gang.empty())
    Says(player, wire::Gang{join.gang, join.gang_rank, join.gang_size});
  if (player.connected && player.room_asked)
    Says(player, wire::NeedRoom{.bytes = player.restoring ? player.spilled : player.grows,
                                .restoring = player.restoring});
  if (player.connected && std::exchange(player.asked, false)) Asks(player);
}

void RandomWorld::Asks(Player& player) {
  player.asked = true;
  player.promise.reset();
  player.promised_yield.reset();
  const bool movable = draining_ || Pick(4) != 0;
  player.told_movable = movable;
  wire::Wait wait{.need = player.spilled + player.lacked,
                  .gang_step = player.steps,
                  .number = ++player.waits,
                  .movable = movable,
                  .heeds_pass = player.passes};
  if (!player.numbers) wait.number = 0;
  if (movable) {
    wait.persistent = player.resident;
    wait.spilled = player.spilled;
    wait.host_left = HostLeft(player);
  }
  Says(player, wait);
}

void RandomWorld::ReachesDoors(Player& player) {
  player.told_movable = true;
  Says(player, wire::Spilled{.persistent = player.resident,
                             .spilled = player.spilled,
                             .movable = true,
                             .host_left = HostLeft(player)});
}

// A process, with all its jobs.
void RandomWorld::Dies(Player& player) {
  std::vector<JobId> its;
  for (Player* of : {&player, TwinOf(player)}) {
    if (of == nullptr) continue;
    ReleasesLock(*of);
    of->alive = of->connected = of->asked = of->granted = false;
    of->resident = of->spilled = 0;
    of->chunks.clear();
    of->unread.clear();
  }
  for (const auto& [id, job] : core_->state().jobs) {
    if (job.info.pid == player.join.pid) its.push_back(id);
  }
  for (const Player* of : {&player, TwinOf(player)}) {
    if (of != nullptr && core_->state().expected.contains(of->id)) its.push_back(of->id);
  }
  for (JobId id : its) Apply(id, JobDied{Once(2) ? 0 : player.steps});
}

void RandomWorld::HangsUp(Player& player) {
  LosesConnection(player);
  Apply(player.id, JobHungUp{Once(2) ? 0 : player.steps});
}

void RandomWorld::Leaves(Player& player) {
  for (Player* of : {&player, TwinOf(player)}) {
    if (of == nullptr) continue;
    if (of->connected) Says(*of, wire::Leave{.keeps_running = true, .most_held = of->resident});
    ReleasesLock(*of);
    of->left = true;
    of->connected = of->asked = of->granted = of->in_step = false;
    of->chunks.clear();
    of->unread.clear();
  }
}

// What lies in the socket is lost, and nobody would answer what is unanswered.
void RandomWorld::LosesConnection(Player& player) {
  player.connected = false;
  player.unread.clear();
  player.spills.clear();
  player.restores.clear();
  player.promise.reset();
  player.promised_yield.reset();
  player.pass = 0;
  player.unheard = 0;
  player.stands = player.told_stood = false;
}

// --- rudeness -------------------------------------------------------------------------------------

void RandomWorld::IsRude(Player& player) {
  player.rude = true;
  player.passable = player.told_movable = false;
  const TurnNumber some = Once(2) ? player.turn : Pick(20);
  switch (Pick(10)) {
    case 0:
      if (player.again) player.again();
      break;
    case 1:
      Says(player, wire::StoodBy{.turn = some});
      break;
    case 2:
      Says(player,
           wire::YieldAck{.turn = some, .stop_step = Pick(9), .step = player.steps, .accepted = Once(2)});
      break;
    case 3:
      Says(player, wire::ArenaLost{.chunk = Pick(20)});
      break;
    case 4:
      Says(player, wire::Spilled{.request = Pick(9),
                                 .freed = Pick(9) << 20,
                                 .persistent = player.resident,
                                 .spilled = player.spilled,
                                 .movable = Once(2),
                                 .more = Once(2)});
      break;
    case 5:
      Says(player, wire::Restored{.request = Pick(9),
                                  .restored = Pick(9) << 20,
                                  .persistent = player.resident,
                                  .spilled = player.spilled});
      break;
    case 6:
      Says(player, wire::NeedRoom{.bytes = Pick(60) << 20, .restoring = Once(2)});
      break;
    case 7:
      Says(player, wire::ArenaHeard{.count = Pick(300)});
      break;
    case 8:
      Says(player, wire::LacksHeadroom{.bytes = Pick(60) << 20});
      break;
    default:
      Says(player, wire::ArenaGrew{.chunk = Pick(20), .size = 2_MiB, .to_job = Pick(4), .bare = Once(2)});
      break;
  }
  EndRejected();
}

// --- in its turn ----------------------------------------------------------------------------------

// Whoever was promised the turn has it from now on, whether it has been granted or not.
bool RandomWorld::TakesPassed(Player& player) {
  if (!player.promise || !player.asked) return false;
  const auto page = pages_.find(player.lane_lock);
  if (page == pages_.end() || page->second != player.promise->pass) return false;
  wire::Grant grant = *player.promise;
  grant.passed = true;
  TakesTurn(player, grant);
  return true;
}

// And it knows: it was asked to stop when it joined again, or has done what nobody does.
bool RandomWorld::HasLostTurn(const Player& player) const {
  const auto& jobs = core_->state().jobs;
  const auto job = jobs.find(player.id);
  return !player.connected || player.rude || job == jobs.end() || job->second.overstays != 0;
}

// It waits for it as long as another has it.
bool RandomWorld::TakesLock(Player& player) {
  for (const Player& other : players_) {
    if (&other == &player || !other.alive || !other.has_lock || other.lane_lock != player.lane_lock) continue;
    const bool excused = HasLostTurn(player) || HasLostTurn(other);
    HOCKET_CHECK(excused) << player.id << " and " << other.id << " have turns at one time in "
                          << player.lane_lock;
    return false;
  }
  player.has_lock = true;
  return true;
}

bool RandomWorld::InTurn(Player& player) {
  if (!player.has_lock) {
    if (TakesLock(player)) return true;
    return player.give_back ? (GivesUp(player, false), Asks(player), true) : false;
  }
  if (player.room_asked) {
    if (player.twin >= 0 || !Perhaps(40)) return false;
    return GivesUp(player, false), true;  // a handler has sent it back
  }
  if (player.steps_aside) return GivesUp(player, true), Asks(player), true;
  if (player.stands && player.told_stood) return false;
  if (player.restoring) return Restores(player);
  // Its thread is at the other's door.
  if (const Player* twin = TwinOf(player);
      twin != nullptr && !player.second && player.in_step && !twin->in_step)
    return false;
  if (player.grows > 0) return Grows(player);
  if (traits_.memory && Perhaps(8) && MayGrow(player)) {
    player.in_step = true;
    player.grows = (1 + Pick(12)) << 20;
    return Grows(player);
  }
  if (traits_.arena && Perhaps(8)) return ChangesArena(player);
  if (traits_.memory && Perhaps(40)) {
    player.passable = false;
    return Says(player, wire::LacksHeadroom{.bytes = (1 + Pick(30)) << 20}), true;
  }
  if (Perhaps(15))
    return Says(
               player,
               wire::Report{.persistent = player.resident, .spilled = player.spilled, .steps = player.steps}),
           true;
  return Steps(player);
}

bool RandomWorld::Restores(Player& player) {
  const Bytes free = FreeOn(player.join.device);
  if (player.spilled > free && !player.chunks.empty()) return LosesChunk(player, /*adopts=*/false), true;
  const Bytes back = std::min(player.spilled, free);
  player.restored += back;
  player.resident += back;
  player.spilled -= back;
  player.restoring = player.spilled > 0;
  if (!player.restoring) return true;
  player.room_asked = true;
  player.passable = false;
  Says(player, wire::NeedRoom{.bytes = player.spilled,
                              .restoring = true,
                              .says_free = !Once(4),
                              .device_free = free - back,
                              .persistent = player.resident,
                              .spilled = player.spilled});
  return true;
}

// Ranks that run together have to fit together.
bool RandomWorld::MayGrow(const Player& player) const {
  Bytes held = 0;
  for (const Player& other : players_) {
    const bool together = &other == &player || (!player.join.gang.empty() && !other.join.gang.empty());
    if (together && other.alive && other.join.device == player.join.device)
      held += other.resident + other.spilled + other.grows;
  }
  return held < 65_MiB && !player.at_meeting && (player.twin < 0 || player.in_step);
}

bool RandomWorld::Grows(Player& player) {
  const Bytes free = FreeOn(player.join.device);
  if (player.grows > free && !player.chunks.empty()) return LosesChunk(player, /*adopts=*/false), true;
  if (player.grows <= free) {
    player.resident += std::exchange(player.grows, 0);
    return true;
  }
  player.room_asked = true;
  player.passable = false;
  Says(player, wire::NeedRoom{.bytes = player.grows,
                              .says_free = !Once(4),
                              .device_free = free,
                              .persistent = player.resident,
                              .spilled = player.spilled});
  return true;
}

bool RandomWorld::ChangesArena(Player& player) {
  player.passable = false;
  if (player.chunks.empty() || (Once(2) && player.chunks.size() < kMostOwnChunks)) {
    if (FreeOn(player.join.device) < 2_MiB) return false;
    player.chunks[next_chunk_] = 2_MiB;
    return Says(player, wire::ArenaGrew{.chunk = next_chunk_++, .size = 2_MiB}), true;
  }
  return LosesChunk(player, /*adopts=*/Once(2)), true;
}

// It is the job's own from then on, or is released.
void RandomWorld::LosesChunk(Player& player, bool adopts) {
  const auto lost = player.chunks.begin();
  const std::uint64_t chunk = lost->first;
  if (adopts) player.resident += lost->second;
  player.chunks.erase(lost);
  player.passable = false;
  Says(player, wire::ArenaLost{.chunk = chunk});
}

// It has the turn with all that belongs to it, and stands nowhere.
bool RandomWorld::UsesItsTurn(const Player& player) const {
  return player.granted && player.has_lock && !player.restoring && player.grows == 0 && !player.room_asked &&
         !(player.stands && player.told_stood);
}

// The first one's step is the process's.
bool RandomWorld::SecondSteps(Player& second) {
  const Player& first = *TwinOf(second);
  if (first.in_step) return std::exchange(second.in_step, true) == false;
  if (!second.stop && !second.idle && !(draining_ && second.steps >= second.target)) return false;
  return GivesUp(second, false), true;
}

bool RandomWorld::Steps(Player& player) {
  if (player.second) return SecondSteps(player);
  if (!player.in_step && (MustStop(player) || (player.idle && Perhaps(6)) || Perhaps(12))) {
    GivesUp(player, false);
    const bool again = draining_ ? player.steps < player.target : !Once(4);
    if (again && player.connected && !player.left) Asks(player);
    return true;
  }
  if (std::exchange(player.in_step, true) == false) return true;
  Player* const second = TwinOf(player);
  if (second != nullptr && (!second->in_step || !UsesItsTurn(*second))) return false;
  if (!MayEndStep(player)) return false;
  for (Player* of : {&player, second}) {
    if (of == nullptr) continue;
    of->in_step = of->at_meeting = false;
    ++of->steps;
    ++of->turn_steps;
  }
  if (draining_) TimePasses(absl::Milliseconds(1 + Pick(5)));
  return true;
}

// A rank's step ends when its fellows have come as far.
bool RandomWorld::MayEndStep(Player& player) {
  if (!traits_.meets || player.join.gang.empty()) return true;
  player.at_meeting = true;
  return std::all_of(players_.begin(), players_.end(), [&](const Player& fellow) {
    if (fellow.join.gang.empty() || !fellow.alive || fellow.second) return true;
    return fellow.steps > player.steps || (fellow.steps == player.steps && fellow.at_meeting);
  });
}

bool RandomWorld::MustStop(const Player& player) const {
  if (draining_ && player.steps >= player.target) return true;
  return player.stop && player.turn_steps > 0 && player.steps >= player.stop_step;
}

void RandomWorld::GivesUp(Player& player, bool stood_aside) {
  const bool may_pass = player.pass != 0 && player.passable && !player.rude && !player.room_asked &&
                        !stood_aside && player.join.gang.empty() && !Perhaps(6);
  const std::uint64_t pass = may_pass ? player.pass : 0;
  const std::string lane_lock = player.lane_lock;
  player.lacked = stood_aside ? player.grows : 0;
  ReleasesLock(player);
  player.told_movable = draining_ || Pick(4) != 0;
  player.granted = player.room_asked = player.steps_aside = player.stands = false;
  const wire::TurnOver over{.turn = player.turn,
                            .steps = player.steps,
                            .turn_steps = player.turn_steps,
                            .drain_ns = 1000,
                            .persistent = player.resident,
                            .spilled = player.spilled,
                            .transient_peak = traits_.memory ? Pick(10) << 20 : 0,
                            .movable = player.told_movable,
                            .ready_ns = Pick(100'000),
                            .restored = player.restored,
                            .stood_aside = stood_aside,
                            .idle_ns = Once(4) ? Pick(6'000'000) : 0,
                            .host_left = HostLeft(player),
                            .passed = pass,
                            .hand_over_ns = Pick(50'000)};
  Says(player, over);
  if (pass == 0) return;
  if (traits_.deaths && Perhaps(20)) return Dies(player);  // before it could
  pages_[lane_lock] = pass;
}

void RandomWorld::ReleasesLock(Player& player) { player.has_lock = false; }

bool RandomWorld::FellowHasDied(const Player& player) const {
  return !player.join.gang.empty() && traits_.meets &&
         std::any_of(players_.begin(), players_.end(), [](const Player& fellow) {
           return !fellow.join.gang.empty() && (!fellow.alive || fellow.left);
         });
}

// As the driver says: a chunk is there as long as anybody has it mapped.
Bytes RandomWorld::FreeOn(const std::string& device) const {
  std::map<std::uint64_t, Bytes> chunks;
  Bytes used = 0;
  for (const Player& player : players_) {
    if (!player.alive || player.join.device != device) continue;
    used += player.resident;
    chunks.insert(player.chunks.begin(), player.chunks.end());
  }
  for (const auto& [chunk, size] : chunks) used += size;
  return used < kCapacity ? kCapacity - used : 0;
}

}  // namespace hocket::coordinator
