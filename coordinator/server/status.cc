#include "coordinator/server/status.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/policies/estimate.h"
#include "coordinator/server/admission.h"
#include "coordinator/server/server.h"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

Json DaemonJson(const Server& server, const State& state) {
  return {{"pid", getpid()},
          {"version", server.options().version},
          {"epoch", server.epoch()},
          {"uptime_s", absl::ToDoubleSeconds(server.uptime())},
          {"policy", PolicyTitle(state.policy)},
          {"policy_trouble", PolicyTrouble(state)},
          {"switch_share", state.switch_share},
          {"link_bound", state.link_bound},
          {"production_bound", state.policy_settings.production_bound},
          {"most_together", state.policy_settings.most_together},
          {"overdue", state.overdue_go_on ? kGoOn : kWait},
          {"runtime_dir", server.options().runtime_dir},
          {"system", server.options().system},
          {"uid", geteuid()}};
}

// Other daemons that give turns on it, as far as they can be seen.
Json OthersJson(const Server& server, const std::vector<wire::CoordinatorSeen>& seen,
                const DeviceKey& device) {
  Json others = Json::array();
  for (const wire::CoordinatorSeen& other : seen) {
    if (other.device == device && (other.epoch != server.epoch() || other.pid != getpid()))
      others.push_back({{"uid", other.uid}, {"pid", other.pid}});
  }
  return others;
}

Json DeviceJson(const Core& core, const Device& device) {
  Json jobs = Json::array();
  Bytes persistent = 0;
  for (const auto& [id, job] : core.state().jobs) {
    if (job.info.device != device.key) continue;
    jobs.push_back(id);
    persistent += job.persistent;
  }
  return {{"uuid", device.key},
          {"name", device.name},
          {"capacity", device.capacity},
          {"holder", core.HolderOf(device)},
          {"arena", core.Arena(device)},
          {"persistent", persistent},
          {"free", core.Free(device)},
          {"jobs", std::move(jobs)},
          {"stand_by", core.StandingBy(device)},
          {"link",
           {{"bytes_per_s", device.link.bytes_per_s() > 0 ? Json(device.link.bytes_per_s()) : Json()},
            {"beside_bytes", device.beside},
            {"beside_s", absl::ToDoubleSeconds(device.beside_time)}}}};
}

Json GangJson(const Core& core, JobId id) {
  for (const auto& [entity, gang] : core.state().gangs) {
    for (const auto& [rank, member] : gang.ranks) {
      if (member == id)
        return {{"name", gang.name},
                {"rank", rank % gang.size},
                {"size", gang.size},
                {"complete", gang.complete}};
    }
  }
  return nullptr;
}

struct Progress {
  absl::Duration waited;  // this wait included
  Json to_go_s;           // for the steps left, at the pace so far; null: not known
};

Progress ProgressOf(Server& server, const Job& job, std::uint64_t steps) {
  const absl::Time now = server.Now();
  Progress progress{.waited = job.waited + (job.waiting ? now - job.asked : absl::ZeroDuration())};
  const std::uint64_t total = job.info.total_steps;
  if (total > 0 && steps > 0)
    progress.to_go_s = absl::ToDoubleSeconds(now - std::min(now, job.first_asked)) /
                       static_cast<double>(steps) * static_cast<double>(total - std::min(total, steps));
  return progress;
}

// What a job has had of the device.
struct Held {
  absl::Duration in_all;  // the present turn included
  Json turn_s;            // of that, the present turn; null: it has none
};

Held HeldOf(const Server& server, const Job& job) {
  if (job.turn == 0) return {.in_all = job.held};
  const absl::Duration turn = server.Now() - job.granted;
  return {.in_all = job.held + turn, .turn_s = absl::ToDoubleSeconds(turn)};
}

// How much longer it takes than alone; null: not known.
Json SlowdownJson(const Core& core, JobId id, std::uint64_t steps) {
  const std::optional<double> slowdown = core.SlowdownOf(id, steps);
  return slowdown ? Json(*slowdown) : Json();
}

Json EstimateJson(const Estimator& estimate) {
  if (!estimate.known()) return nullptr;
  return {{"mean_ms", absl::ToDoubleMilliseconds(estimate.mean())},
          {"spread_ms", absl::ToDoubleMilliseconds(estimate.spread())},
          {"lower_ms", absl::ToDoubleMilliseconds(estimate.Lower())},
          {"upper_ms", absl::ToDoubleMilliseconds(estimate.Upper())},
          {"foretold", estimate.record().foretold},
          {"inside", estimate.record().inside},
          {"above", estimate.record().above}};
}

}  // namespace

namespace {

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json TimeOf(const Foretold& foretold) {
  return foretold.time ? Json(absl::ToDoubleSeconds(*foretold.time)) : Json();
}

Json MoveJson(const MoveRecord& record, const Foretold& now) {
  const Foretold& foretold = record.last_foretold();
  const Moved& last = record.last_moved();
  Json json = {{"moves", record.moves()},
               {"bytes", record.moved().bytes},
               {"copied", record.moved().copied},
               {"s", absl::ToDoubleSeconds(record.moved().time)},
               {"foretold_bytes", record.foretold_bytes()},
               {"bytes_error", OrNull(record.BytesError())},
               {"timed",
                {{"moves", record.timed()},
                 {"s", absl::ToDoubleSeconds(record.timed_time())},
                 {"foretold_s", absl::ToDoubleSeconds(record.foretold_time())},
                 {"error", OrNull(record.TimeError())}}},
               {"last", nullptr},
               {"now", {{"bytes", now.bytes}, {"s", TimeOf(now)}}}};
  if (record.moves() > 0)
    json["last"] = {{"bytes", last.bytes},
                    {"copied", last.copied},
                    {"s", absl::ToDoubleSeconds(last.time)},
                    {"foretold_bytes", foretold.bytes},
                    {"foretold_s", TimeOf(foretold)}};
  return json;
}

Json MovesJson(const Core& core, const Job& job) {
  return {{"spill", MoveJson(job.spills, core.ForetoldMove(job, job.persistent))},
          {"restore", MoveJson(job.restores, core.ForetoldMove(job, job.spilled))}};
}

// null: PyTorch's own allocator, no step yet, or a job too old to say.
Json AllocatorJson(const wire::PageValues& page) {
  if (page.step_allocations == 0) return nullptr;
  return {{"allocations", page.step_allocations},   {"planned", page.planned_allocations},
          {"deviated", page.deviating_allocations}, {"survived", page.survived_total},
          {"foreseen", page.foreseen_total},        {"adopted", page.adopted},
          {"adopted_last", page.adopted_last},      {"adopted_total", page.adopted_total}};
}

}  // namespace

Json MeasuredJson(const Job& job) {
  return {{"step", EstimateJson(job.step)},
          {"beside", EstimateJson(job.beside)},
          {"gap", EstimateJson(job.gap)},
          {"ready", EstimateJson(job.ready)}};
}

namespace {
// What others' bytes cost it while it holds the turn; null: not known (yet).
Json LinkJson(const Core& core, const Job& job) {
  const std::optional<double> slowdown = job.link.sense.slowdown(), used = core.LinkShareUsed(job);
  return {{"slowdown", slowdown ? Json(*slowdown) : Json()},
          {"share", used ? Json(*used) : Json()},
          {"most", core.LinkShare(job)}};
}

Json SlowerJson(const Core& core, const Job& job) {
  const auto& slower = job.watch.slowdown();
  if (!slower) return nullptr;
  return {{"before_ms", absl::ToDoubleMilliseconds(slower->before)},
          {"now_ms", absl::ToDoubleMilliseconds(slower->now)},
          {"for_s", absl::ToDoubleSeconds(core.now() - slower->since)}};
}

// How `of` stands to its time cap and its guarantee; empty where it has neither.
Json TimeJson(const Core& core, const OnDevice& of) {
  Json json = Json::object();
  const State& state = core.state();
  const auto account = state.accounts.find(of);
  const auto guarantee = state.guarantees.find(of);
  absl::Duration window;
  if (guarantee != state.guarantees.end()) {
    window = guarantee->second.recent().Window(core.now());
    json["owed_s"] = std::max(0.0, absl::ToDoubleSeconds(core.OwedNow(of)));
  }
  if (account != state.accounts.end()) {
    window = account->second.Window(core.now());
    json["may_go_on_in_s"] = std::max(0.0, absl::ToDoubleSeconds(account->second.MayRunAt() - core.now()));
  }
  if (json.empty()) return json;
  json["time_used"] = core.TimeUsed(of);
  json["window_s"] = absl::ToDoubleSeconds(window);
  return json;
}

}  // namespace

std::string PolicyTrouble(const State& state) {
  for (const auto& [key, device] : state.devices) {
    if (std::string trouble = device.policy->Trouble(); !trouble.empty()) return trouble;
  }
  return "";
}

Json QuotaJson(const Core& core, const Owner& owner) {
  const State& state = core.state();
  auto found = state.quotas.find(owner);
  const Quota quota = found == state.quotas.end() ? Quota() : found->second;
  Json jobs = Json::array(), devices = Json::array();
  for (const auto& [id, job] : state.jobs) {
    if (!job.gone && core.Owns(owner, job)) jobs.push_back(job.info.name);
  }
  for (const auto& [key, device] : state.devices) {
    Json used = TimeJson(core, {owner, key});
    const Bytes held = quota.memory_cap > 0 ? core.MemoryHeld({owner, key}) : 0;
    if (held > 0) used["memory_held"] = held;
    if (used.empty()) continue;
    used["device"] = device.name;
    devices.push_back(std::move(used));
  }
  Json json = {{"kind", owner.kind == Owner::Kind::kGroup ? "group" : "user"},
               {"time_cap", nullptr},
               {"time_guarantee", nullptr},
               {"memory_cap", nullptr},
               {"memory_guarantee", quota.memory_guarantee},
               {"weight", nullptr},
               {"jobs", std::move(jobs)},
               {"devices", std::move(devices)}};
  if (owner.kind == Owner::Kind::kGroup) {
    json["name"] = owner.group;
  } else {
    json["uid"] = owner.id;
  }
  if (quota.weight > 0) json["weight"] = quota.weight;
  if (quota.time_cap > 0) json["time_cap"] = quota.time_cap;
  if (quota.time_guarantee > 0) json["time_guarantee"] = quota.time_guarantee;
  if (quota.memory_cap > 0) json["memory_cap"] = quota.memory_cap;
  return json;
}

Json QuotaJson(const Core& core, JobId id) {
  const Job& job = core.state().jobs.at(id);
  const OnDevice own(Owner::Job(id), job.info.device);
  Json quota = TimeJson(core, own);
  const TimeAccount* account = core.TimeAccountOf(id);
  const double guarantee = core.TimeGuaranteeOf(own.first, job);
  quota["time_cap"] = account == nullptr ? Json() : Json(account->cap());
  quota["time_guarantee"] = guarantee == 0 ? Json() : Json(guarantee);
  quota["memory_cap"] = job.info.memory_limit == 0 ? Json() : Json(job.info.memory_limit);
  quota["memory_guarantee"] = job.guarantee;
  quota["memory_held"] = job.persistent + job.spilled;
  quota["memory_resident"] = job.persistent;
  // A fellow rank's cap, or its group's, may hold it back as well.
  if (account != nullptr)
    quota["may_go_on_in_s"] =
        absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), core.HeldBackUntil(job.entity) - core.now()));
  return quota;
}

Json LackJson(const Core& core, JobId id) {
  const Job& job = core.state().jobs.at(id);
  if (!job.held_out || !job.lacks_room) return nullptr;
  const bool by_earlier_runs = !job.shortage && job.known;
  const Bytes known = job.known ? job.known->persistent + job.known->transient : 0;
  Json holders = Json::array();
  for (const auto& [other_id, other] : core.state().jobs) {
    if (other_id == id || other.info.device != job.info.device || other.persistent == 0) continue;
    const Bytes host_left = other.host - std::min(other.host, other.spilled);
    holders.push_back({{"name", other.user == job.user ? Json(other.info.name) : Json()},
                       {"holds", other.persistent},
                       {"can_be_moved", std::min(other.persistent, host_left)}});
  }
  return {{"needs", job.shortage      ? Json(job.need)
                    : by_earlier_runs ? Json(known)
                                      : Json()},
          {"known_from", job.shortage      ? "this run"
                         : by_earlier_runs ? "earlier runs"
                                           : "nothing"},
          {"earlier_runs", job.known ? job.known->runs : 0},
          {"free", core.Free(core.state().devices.at(job.info.device))},
          {"holders", std::move(holders)}};
}

Json RecordOf(const Job& job, absl::Time until) {
  const absl::Duration startup = std::min(until, job.first_asked) - job.joined;
  return {{"name", job.info.name},
          {"program", job.info.program},
          {"device", job.info.device},
          {"user", job.user},
          {"weight", job.info.weight},
          {"priority", job.info.priority},
          {"arrival_s", absl::ToDoubleSeconds(job.joined - absl::UnixEpoch())},
          {"until_s", absl::ToDoubleSeconds(until - absl::UnixEpoch())},
          {"startup_s", absl::ToDoubleSeconds(std::max(startup, absl::ZeroDuration()))},
          {"steps", std::max<std::uint64_t>(1, job.steps)},
          {"step_ms", absl::ToDoubleMilliseconds(job.steps > 0 ? job.held / static_cast<double>(job.steps)
                                                               : job.step.mean())},
          {"gap_ms", absl::ToDoubleMilliseconds(job.gap.mean())},
          {"persistent", OwnBytes(job)},
          {"told_steps", job.info.total_steps},
          {"turns", job.turns},
          {"held_s", absl::ToDoubleSeconds(job.held)},
          {"waited_s", absl::ToDoubleSeconds(job.waited)}};
}

Json JobJson(Server& server, JobId id) {
  const Core& core = server.core();
  const Job& job = core.state().jobs.at(id);
  const auto page = server.PageOf(id).value_or(wire::PageValues{});
  const std::string silence = server.Silence(id);
  const Progress progress = ProgressOf(server, job, std::max<std::uint64_t>(page.steps, job.steps));
  const Held held = HeldOf(server, job);
  return {{"id", id},
          {"name", job.info.name},
          {"pid", job.info.pid},
          {"user", job.user},
          {"program", job.info.program},
          {"device", job.info.device},
          {"lane", LaneIndex(job.lane)},
          {"state", core.StateOf(id)},
          {"why", silence.empty() ? core.Explain(id) : absl::StrCat(core.Explain(id), "; ", silence)},
          {"silent", silence},
          {"weight", job.info.weight},
          {"priority", job.info.priority},
          {"group", job.info.group},
          {"serves", job.info.serves},
          {"memory_limit", job.info.memory_limit},
          {"total_steps", job.info.total_steps},
          {"persistent", job.persistent},
          {"transient", std::max<Bytes>(page.transient, job.transient_peak)},
          {"spilled", job.spilled},
          {"spilled_total", std::max<Bytes>(page.spilled_total, job.spilled_total)},
          {"restored_total", std::max<Bytes>(page.restored_total, job.restored_total)},
          {"strays", page.strays},
          {"turns", job.turns + (job.turn != 0 ? 1 : 0)},
          {"steps", std::max<std::uint64_t>(page.steps, job.steps)},
          {"step_time_ms", static_cast<double>(page.step_time_ns) / 1e6},
          {"in_step", page.in_step != 0},
          {"held_s", absl::ToDoubleSeconds(held.in_all)},
          {"turn_s", held.turn_s},
          {"waited_s", absl::ToDoubleSeconds(progress.waited)},
          {"slowdown", SlowdownJson(core, id, std::max<std::uint64_t>(page.steps, job.steps))},
          {"to_go_s", progress.to_go_s},
          {"overdue",
           (job.set_aside && job.entity == id) || (job.turn != 0 && core.state().turns.at(job.turn).overdue)},
          {"beside", core.Beside(id)},
          {"measured", MeasuredJson(job)},
          {"moves", MovesJson(core, job)},
          {"allocator", AllocatorJson(page)},
          {"slower", SlowerJson(core, job)},
          {"link", LinkJson(core, job)},
          {"quota", QuotaJson(core, id)},
          {"gang", GangJson(core, id)},
          {"movable", job.movable},
          {"hocket_version", job.info.hocket_version},
          {"torch_version", job.info.torch_version}};
}

Json StatusJson(Server& server) {
  server.Apply(0, Tick{});
  const Core& core = server.core();
  Json devices = Json::array();
  const std::vector<wire::CoordinatorSeen> seen = wire::CoordinatorsSeen();
  for (const auto& [key, device] : core.state().devices) {
    devices.push_back(DeviceJson(core, device));
    devices.back()["others"] = OthersJson(server, seen, key);
  }
  Json jobs = Json::array();
  for (const auto& [id, job] : core.state().jobs) jobs.push_back(JobJson(server, id));
  return {{"daemon", DaemonJson(server, core.state())},
          {"devices", std::move(devices)},
          {"jobs", std::move(jobs)}};
}

}  // namespace hocket::coordinator
