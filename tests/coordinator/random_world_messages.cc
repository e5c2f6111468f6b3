// What the jobs of a random world do on a message.
#include <algorithm>
#include <utility>

#include "csrc/wire/ids.h"
#include "tests/coordinator/random_world.h"

namespace hocket::coordinator {
namespace {

// Who has not read for so long reads all that there is before it does anything: its process was stopped.
constexpr absl::Duration kReadsWithin = absl::Milliseconds(500);

}  // namespace

// --- what it reads --------------------------------------------------------------------------------

void RandomWorld::Reads(Player& player) {
  std::size_t count = player.unread.size();
  const bool long_ago = count > 0 && now_ - player.unread_since > kReadsWithin;
  if (!draining_ && !long_ago && count > 0) count = Pick(count + 1);
  for (; count > 0 && !player.unread.empty(); --count) {
    const wire::Message message = std::move(player.unread.front());
    player.unread.pop_front();
    Read(player, message);
  }
}

void RandomWorld::Read(Player& player, const wire::Message& message) {
  if (const auto* joined = std::get_if<wire::Joined>(&message)) {
    if (player.lane_lock.empty()) player.lane_lock = joined->lane_lock;
  } else if (const auto* grant = std::get_if<wire::Grant>(&message)) {
    ReadGrant(player, *grant);
  } else if (const auto* yield = std::get_if<wire::Yield>(&message)) {
    ReadYield(player, *yield);
  } else if (const auto* room = std::get_if<wire::Room>(&message)) {
    if (!std::exchange(player.room_asked, false)) return;  // its turn has gone meanwhile
    player.steps_aside = room->step_aside && player.granted;
    if (!room->ok) player.grows = 0;
  } else if (const auto* spill = std::get_if<wire::Spill>(&message)) {
    player.spills.push_back(*spill);
  } else if (const auto* restore = std::get_if<wire::Restore>(&message)) {
    player.restores.push_back(*restore);
  } else if (const auto* stand = std::get_if<wire::StandBy>(&message)) {
    player.stands = player.granted && player.turn == stand->turn;
    player.told_stood = false;
  } else if (const auto* go_on = std::get_if<wire::GoOn>(&message)) {
    if (player.turn == go_on->turn) player.stands = false;
  } else if (const auto* add = std::get_if<wire::ArenaAdd>(&message)) {
    player.chunks[add->chunk] = add->size;
    ++player.unheard;
  } else if (const auto* drop = std::get_if<wire::ArenaDrop>(&message)) {
    drop->chunk == 0 ? player.chunks.clear() : static_cast<void>(player.chunks.erase(drop->chunk));
  } else if (const auto* order = std::get_if<wire::ArenaExport>(&message)) {
    Exports(player, *order);
  }
}

void RandomWorld::ReadGrant(Player& player, const wire::Grant& grant) {
  if (grant.fresh_arena) player.chunks.clear();
  if (grant.pass != 0 && !grant.passed) {
    if (player.asked) player.promise = grant;
    return;
  }
  if (grant.pass != 0 && (!player.promise || player.promise->pass != grant.pass)) return;  // obeyed already
  TakesTurn(player, grant);
}

void RandomWorld::TakesTurn(Player& player, const wire::Grant& grant) {
  const auto promise = std::exchange(player.promise, std::nullopt);
  const auto yield = std::exchange(player.promised_yield, std::nullopt);
  if (!player.asked) return player.rude && !player.granted ? HangsUp(player) : void();
  if (!grant.lane_lock.empty()) player.lane_lock = grant.lane_lock;
  if (player.numbers && player.taken_back == player.waits) return Asks(player);
  player.asked = player.told_movable = false;
  player.granted = player.restoring = player.passable = true;
  player.turn = grant.turn;
  player.idle = grant.contended;
  player.stop = player.has_lock = player.stands = player.steps_aside = player.give_back = false;
  player.stop_step = player.pass = 0;
  player.turn_steps = 0;
  player.restored = 0;
  player.lacked = 0;
  if (grant.pass != 0 && yield) ReadYield(player, *yield);
}

void RandomWorld::ReadYield(Player& player, const wire::Yield& yield) {
  if (player.promise && player.promise->turn == yield.turn) player.promised_yield = yield;
  if (!player.granted || yield.turn != player.turn) return;
  player.pass = yield.pass;
  player.idle = true;
  if (!yield.now) return;
  player.stop = true;
  player.give_back |= yield.give_back;
  player.stop_step = yield.stop_step;
  if (yield.stop_step == 0) return;
  const bool accepted = player.steps + (player.in_step ? 1 : 0) <= yield.stop_step;
  if (!accepted) player.stop = false;
  Says(player, wire::YieldAck{yield.turn, yield.stop_step, player.steps, accepted});
}

void RandomWorld::Exports(Player& player, const wire::ArenaExport& order) {
  std::vector<std::uint64_t> chunks = wire::UnpackIds(order.chunks);
  if (chunks.empty()) {
    for (const auto& [chunk, size] : player.chunks) chunks.push_back(chunk);
  }
  for (std::uint64_t chunk : chunks) {
    const auto found = player.chunks.find(chunk);
    if (found == player.chunks.end() || !player.connected) continue;
    Says(player,
         wire::ArenaGrew{.chunk = chunk, .size = found->second, .to_job = order.to_job, .bare = order.bare});
  }
}

// --- what it answers ------------------------------------------------------------------------------

bool RandomWorld::Answers(Player& player) {
  if (!player.spills.empty() && !Perhaps(3)) return AnswersSpill(player), true;
  if (!player.restores.empty() && !Perhaps(3)) return AnswersRestore(player), true;
  if (player.stands && !player.told_stood && !Perhaps(3)) {
    player.told_stood = true;
    return Says(player, wire::StoodBy{.turn = player.turn}), true;
  }
  if (player.unheard > 0 && !Perhaps(5)) {
    if (player.join.counts_arena) Says(player, wire::ArenaHeard{.count = player.unheard});
    player.unheard = 0;
    return true;
  }
  return false;
}

void RandomWorld::AnswersSpill(Player& player) {
  wire::Spill& order = player.spills.front();
  Bytes freed = player.granted && player.has_lock ? 0 : std::min<Bytes>(order.bytes, player.resident);
  const bool part = freed > 4_MiB && Perhaps(4);
  if (part) freed /= 2;
  if (Perhaps(6)) freed = 0;
  freed = std::min(freed, HostLeft(player));
  player.resident -= freed;
  player.spilled += freed;
  const bool more = part && freed > 0;
  player.told_movable = !player.granted && !Perhaps(4);
  const wire::Spilled answer{.request = order.request,
                             .freed = freed,
                             .persistent = player.resident,
                             .spilled = player.spilled,
                             .movable = player.told_movable,
                             .why_not = freed == 0 ? "it cannot" : "",
                             .more = more,
                             .host_left = HostLeft(player)};
  if (more) {
    order.bytes -= freed;
  } else {
    player.spills.erase(player.spills.begin());
  }
  Says(player, answer);
}

void RandomWorld::AnswersRestore(Player& player) {
  const wire::Restore order = player.restores.front();
  player.restores.erase(player.restores.begin());
  Bytes back = std::min({Bytes{order.bytes}, player.spilled, FreeOn(player.join.device)});
  if (!player.asked || Perhaps(6)) back = 0;
  player.resident += back;
  player.spilled -= back;
  Says(player, wire::Restored{.request = order.request,
                              .restored = back,
                              .persistent = player.resident,
                              .spilled = player.spilled,
                              .took_ns = Pick(1'000'000),
                              .piece = Once(2) ? 2_MiB : 0});
}

}  // namespace hocket::coordinator
