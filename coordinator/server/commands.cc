#include "coordinator/server/commands.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/own/own_policy.h"
#include "coordinator/policies/registry.h"
#include "coordinator/server/admission.h"
#include "coordinator/server/server.h"
#include "coordinator/server/status.h"
#include "csrc/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;
using Result = absl::StatusOr<Json>;

// A text argument; a number is taken as text too, so that a job can be named by its id.
std::string Text(const Json& arguments, const char* key) {
  auto found = arguments.find(key);
  if (found == arguments.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

absl::StatusOr<double> Number(const Json& arguments, const char* key) {
  auto found = arguments.find(key);
  if (found != arguments.end() && found->is_number()) return found->get<double>();
  return absl::InvalidArgumentError(absl::StrCat("give a number for '", key, "'."));
}

// The job named, or numbered, by the argument "job". One that is gone may have the name of one that runs.
absl::StatusOr<JobId> FindJob(Server& server, const Json& arguments) {
  const std::string wanted = Text(arguments, "job");
  std::vector<std::string> known;
  std::optional<JobId> gone;
  for (const auto& [id, job] : server.core().state().jobs) {
    known.push_back(job.info.name);
    if (job.info.name != wanted && absl::StrCat(id) != wanted) continue;
    if (!job.gone) return id;
    gone = id;
  }
  if (gone) return *gone;
  return absl::NotFoundError(absl::StrCat(
      "there is no job '", wanted, "'. ",
      known.empty() ? "No job runs." : absl::StrCat("The jobs are: ", absl::StrJoin(known, ", "), ".")));
}

Result Status(Server& server, const Json&) { return StatusJson(server); }

Result Version(Server& server, const Json&) {
  return Json{{"version", server.options().version},
              {"pid", getpid()},
              {"epoch", server.epoch()},
              {"system", server.options().system}};
}

// "name": one that there is; "program": the command of one of the user's own (own/own_policy.h).
absl::StatusOr<std::string> PolicyWanted(const Json& arguments) {
  const std::string program = Text(arguments, "program");
  if (!program.empty()) {
    HOCKET_RETURN_IF_ERROR(CheckOwnPolicy(program));
    return program;
  }
  const std::string name = Text(arguments, "name");
  if (!name.empty()) HOCKET_RETURN_IF_ERROR(MakePolicy(name).status());
  return name;
}

// All is checked before any of it is set.
absl::Status SetForPolicies(Server& server, const Json& arguments) {
  std::optional<SetSwitchShare> switching;
  std::optional<SetProductionBound> bound;
  std::optional<SetLinkBound> link;
  std::optional<SetMostTogether> together;
  std::optional<SetOverdue> overdue;
  if (arguments.contains("switch_share")) {
    HOCKET_ASSIGN_OR_RETURN(const double share, Number(arguments, "switch_share"));
    HOCKET_RETURN_IF_ERROR(CheckSwitchShare(share));
    switching = SetSwitchShare{share};
  }
  if (arguments.contains("bound")) {
    HOCKET_ASSIGN_OR_RETURN(const double share, Number(arguments, "bound"));
    HOCKET_RETURN_IF_ERROR(CheckProductionBound(share));
    bound = SetProductionBound{share};
  }
  if (arguments.contains("link_bound")) {
    HOCKET_ASSIGN_OR_RETURN(const double share, Number(arguments, "link_bound"));
    HOCKET_RETURN_IF_ERROR(CheckLinkBound(share));
    link = SetLinkBound{share};
  }
  if (arguments.contains("together")) {
    HOCKET_ASSIGN_OR_RETURN(const double most, Number(arguments, "together"));
    HOCKET_RETURN_IF_ERROR(CheckMostTogether(most));
    together = SetMostTogether{static_cast<int>(most)};
  }
  if (arguments.contains("overdue")) {
    const std::string what = Text(arguments, "overdue");
    HOCKET_RETURN_IF_ERROR(CheckOverdue(what));
    overdue = SetOverdue{what == kGoOn};
  }
  if (switching) server.Set(*switching);
  if (bound) server.Set(*bound);
  if (link) server.Set(*link);
  if (together) server.Set(*together);
  if (overdue) server.Set(*overdue);
  return absl::OkStatus();
}

Result ChoosePolicy(Server& server, const Json& arguments) {
  HOCKET_ASSIGN_OR_RETURN(const std::string wanted, PolicyWanted(arguments));
  HOCKET_RETURN_IF_ERROR(SetForPolicies(server, arguments));
  if (!wanted.empty()) server.Set(SetPolicy{wanted});
  Json policies = Json::array();
  for (const PolicyEntry& entry : AllPolicies())
    policies.push_back({{"name", entry.name}, {"summary", entry.summary}});
  const State& state = server.core().state();
  return Json{{"policy", PolicyTitle(state.policy)},
              {"trouble", PolicyTrouble(state)},
              {"switch_share", state.switch_share},
              {"bound", state.policy_settings.production_bound},
              {"link_bound", state.link_bound},
              {"together", state.policy_settings.most_together},
              {"overdue", state.overdue_go_on ? kGoOn : kWait},
              {"policies", std::move(policies)}};
}

Result Pause(Server& server, const Json& arguments) {
  HOCKET_ASSIGN_OR_RETURN(const JobId id, FindJob(server, arguments));
  server.Set(id, SetPaused{true});
  return JobJson(server, id);
}

Result Resume(Server& server, const Json& arguments) {
  HOCKET_ASSIGN_OR_RETURN(const JobId id, FindJob(server, arguments));
  server.Set(id, SetPaused{false});
  return JobJson(server, id);
}

// A size above 0, in bytes; 0 for null.
absl::StatusOr<Bytes> SizeOrNone(const Json& arguments, const char* key) {
  const Json& value = arguments[key];
  if (value.is_null()) return Bytes{0};
  if (value.is_number_unsigned() && value.get<Bytes>() > 0 && value.get<Bytes>() < kMaxBytes)
    return value.get<Bytes>();
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' of ", value.dump(),
                                                 ": give a size above 0 in bytes, and below ",
                                                 FormatBytes(kMaxBytes), ", or null for none."));
}

// There may be many, of jobs, groups and users.
void AddTo(Bytes& sum, Bytes more) { sum += std::min(more, std::numeric_limits<Bytes>::max() - sum); }

// What `id` is to have by the arguments `limit_key` and "memory_guarantee"; none: they say nothing.
absl::StatusOr<std::optional<MemoryQuota>> MemoryQuotaFor(const State& state, JobId id, const Json& arguments,
                                                          const char* limit_key) {
  if (!arguments.contains(limit_key) && !arguments.contains("memory_guarantee")) return std::nullopt;
  const Job& job = state.jobs.at(id);
  MemoryQuota quota{.limit = job.info.memory_limit, .guarantee = job.guarantee};
  if (arguments.contains(limit_key)) {
    HOCKET_ASSIGN_OR_RETURN(quota.limit, SizeOrNone(arguments, limit_key));
  }
  if (arguments.contains("memory_guarantee")) {
    HOCKET_ASSIGN_OR_RETURN(quota.guarantee, SizeOrNone(arguments, "memory_guarantee"));
  }
  Bytes promised = 0;
  for (const auto& [other_id, other] : state.jobs) {
    if (other_id != id && other.info.device == job.info.device && !other.gone)
      AddTo(promised, other.guarantee);
  }
  for (const auto& [of, quota] : state.quotas) AddTo(promised, quota.memory_guarantee);
  HOCKET_RETURN_IF_ERROR(CheckMemoryQuota(job, state.devices.at(job.info.device), quota, promised));
  return quota;
}

void SetMemory(Server& server, JobId id, const std::optional<MemoryQuota>& quota) {
  if (!quota) return;
  const Job& job = server.core().state().jobs.at(id);
  if (quota->limit != job.info.memory_limit) server.Set(id, SetMemoryLimit{quota->limit});
  if (quota->guarantee != job.guarantee) server.Set(id, SetMemoryGuarantee{quota->guarantee});
}

Result Set(Server& server, const Json& arguments) {
  HOCKET_ASSIGN_OR_RETURN(const JobId id, FindJob(server, arguments));
  const Job& job = server.core().state().jobs.at(id);
  SetShare share{.weight = job.info.weight, .priority = job.info.priority};
  if (arguments.contains("weight")) {
    HOCKET_ASSIGN_OR_RETURN(share.weight, Number(arguments, "weight"));
  }
  if (arguments.contains("priority")) share.priority = Text(arguments, "priority");
  if (arguments.contains("total_steps")) {
    if (!arguments["total_steps"].is_number_unsigned())
      return absl::InvalidArgumentError("'total_steps' is a number of steps, 0 or more.");
    share.total_steps = arguments["total_steps"].get<std::uint64_t>();
  }
  HOCKET_RETURN_IF_ERROR(CheckWeight(share.weight));
  HOCKET_RETURN_IF_ERROR(CheckPriority(share.priority));
  std::string group = job.info.group;
  if (arguments.contains("group")) {
    group = arguments["group"].is_null() ? "" : Text(arguments, "group");
    if (!arguments["group"].is_null()) HOCKET_RETURN_IF_ERROR(CheckGroupName(group));
  }
  HOCKET_ASSIGN_OR_RETURN(const auto memory,
                          MemoryQuotaFor(server.core().state(), id, arguments, "memory_limit"));
  server.Set(id, share);
  if (group != job.info.group) server.Set(id, SetGroup{group});
  SetMemory(server, id, memory);
  return JobJson(server, id);
}

// Of jobs, and of groups and users.
Json QuotasJson(Server& server, const std::vector<JobId>& ids, const std::vector<Owner>& owners) {
  server.Apply(0, Tick{});
  Json quotas = Json::array(), together = Json::array();
  for (JobId id : ids) {
    Json quota = QuotaJson(server.core(), id);
    quota["job"] = id;
    quota["name"] = server.core().state().jobs.at(id).info.name;
    quota["user"] = server.core().state().jobs.at(id).user;
    quotas.push_back(std::move(quota));
  }
  for (const Owner& owner : owners) together.push_back(QuotaJson(server.core(), owner));
  return Json{{"quotas", std::move(quotas)}, {"together", std::move(together)}};
}

// What the argument says; 0 for null, and `now` where there is none.
absl::StatusOr<double> TimeShare(const Json& arguments, const char* key, double now,
                                 absl::Status (*check)(double)) {
  if (!arguments.contains(key)) return now;
  if (arguments[key].is_null()) return 0.0;
  HOCKET_ASSIGN_OR_RETURN(const double share, Number(arguments, key));
  HOCKET_RETURN_IF_ERROR(check(share));
  return share;
}

struct TimeQuota {
  double cap;
  double guarantee;
};

absl::StatusOr<TimeQuota> TimeQuotaFor(const Json& arguments, TimeQuota now) {
  HOCKET_ASSIGN_OR_RETURN(now.cap, TimeShare(arguments, "time_cap", now.cap, CheckTimeCap));
  HOCKET_ASSIGN_OR_RETURN(now.guarantee,
                          TimeShare(arguments, "time_guarantee", now.guarantee, CheckTimeGuarantee));
  return now;
}

// Of the time of a device, to all but `owner`: groups and users have theirs on every device, and a job that
// has hung up uses none.
double TimePromised(const State& state, const DeviceKey& device, const Owner& owner) {
  double promised = 0;
  for (const auto& [of, quota] : state.quotas) promised += of == owner ? 0 : quota.time_guarantee;
  for (const auto& [of, guarantee] : state.guarantees) {
    if (of.second != device || of.first.kind != Owner::Kind::kJob || of.first == owner) continue;
    const auto job = state.jobs.find(of.first.id);
    if (job != state.jobs.end() && !job->second.gone) promised += guarantee.share();
  }
  return promised;
}

Result JobQuota(Server& server, const Json& arguments) {
  HOCKET_ASSIGN_OR_RETURN(const JobId id, FindJob(server, arguments));
  const State& state = server.core().state();
  const Job& job = state.jobs.at(id);
  HOCKET_ASSIGN_OR_RETURN(const auto memory, MemoryQuotaFor(state, id, arguments, "memory_cap"));
  const Owner owner = Owner::Job(id);
  const TimeAccount* const account = server.core().TimeAccountOf(id);
  const TimeQuota now = {account == nullptr ? 0 : account->cap(), server.core().TimeGuaranteeOf(owner, job)};
  HOCKET_ASSIGN_OR_RETURN(const TimeQuota time, TimeQuotaFor(arguments, now));
  HOCKET_RETURN_IF_ERROR(
      CheckTimeQuota(job.info.name, time.cap, time.guarantee, TimePromised(state, job.info.device, owner)));
  if (time.cap != now.cap) server.Set(id, SetTimeCap{time.cap});
  if (time.guarantee != now.guarantee) server.Set(id, SetTimeGuarantee{time.guarantee});
  SetMemory(server, id, memory);
  return QuotasJson(server, {id}, {});
}

absl::Status CheckMemoryTogether(const State& state, const Owner& owner, Bytes guarantee) {
  for (const auto& [key, device] : state.devices) {
    Bytes promised = 0;
    for (const auto& [of, quota] : state.quotas) AddTo(promised, of == owner ? 0 : quota.memory_guarantee);
    for (const auto& [id, job] : state.jobs) {
      if (job.info.device == key && !job.gone) AddTo(promised, job.guarantee);
    }
    if (device.capacity > 0 && (promised > device.capacity || guarantee > device.capacity - promised))
      return absl::InvalidArgumentError(
          absl::StrCat("a guarantee of ", FormatBytes(guarantee), " cannot be kept: ", device.name, " has ",
                       FormatBytes(device.capacity), ", of which others are guaranteed ",
                       FormatBytes(promised), ". Give less, or lower theirs."));
  }
  return absl::OkStatus();
}

// 0 for null: as of everybody.
absl::StatusOr<double> UserWeight(const Owner& owner, const Json& arguments) {
  if (owner.kind != Owner::Kind::kUser)
    return absl::InvalidArgumentError("a weight is a user's against the others', or a job's (hocket set).");
  if (arguments["weight"].is_null()) return 0.0;
  HOCKET_ASSIGN_OR_RETURN(const double weight, Number(arguments, "weight"));
  HOCKET_RETURN_IF_ERROR(CheckWeight(weight));
  return weight;
}

// Of a group or a user: `whose`, for people.
Result QuotaTogether(Server& server, const Owner& owner, const std::string& whose, const Json& arguments) {
  const State& state = server.core().state();
  auto found = state.quotas.find(owner);
  Quota quota = found == state.quotas.end() ? Quota() : found->second;
  const Quota before = quota;
  HOCKET_ASSIGN_OR_RETURN(const TimeQuota time,
                          TimeQuotaFor(arguments, {quota.time_cap, quota.time_guarantee}));
  quota.time_cap = time.cap;
  quota.time_guarantee = time.guarantee;
  if (arguments.contains("memory_guarantee")) {
    HOCKET_ASSIGN_OR_RETURN(quota.memory_guarantee, SizeOrNone(arguments, "memory_guarantee"));
    if (quota.memory_guarantee > 0)
      HOCKET_RETURN_IF_ERROR(CheckMemoryTogether(state, owner, quota.memory_guarantee));
  }
  if (arguments.contains("memory_cap")) {
    HOCKET_ASSIGN_OR_RETURN(quota.memory_cap, SizeOrNone(arguments, "memory_cap"));
  }
  if (arguments.contains("weight")) {
    HOCKET_ASSIGN_OR_RETURN(quota.weight, UserWeight(owner, arguments));
  }
  HOCKET_RETURN_IF_ERROR(CheckMemoryCap(whose, quota.memory_cap, quota.memory_guarantee));
  double promised = TimePromised(state, "", owner);
  for (const auto& [key, device] : state.devices)
    promised = std::max(promised, TimePromised(state, key, owner));
  HOCKET_RETURN_IF_ERROR(CheckTimeQuota(whose, quota.time_cap, quota.time_guarantee, promised));
  if (quota != before) server.Set(SetQuota{.of = owner, .quota = quota});
  return QuotasJson(server, {}, {owner});
}

Result Quotas(Server& server, const Json& arguments) {
  if (arguments.contains("group")) {
    const std::string name = Text(arguments, "group");
    HOCKET_RETURN_IF_ERROR(CheckGroupName(name));
    return QuotaTogether(server, Owner::Group(name), absl::StrCat("group ", name), arguments);
  }
  if (arguments.contains("user")) {
    const Json& uid = arguments["user"];
    if (!uid.is_number_unsigned() || uid.get<std::uint64_t>() > std::numeric_limits<unsigned>::max())
      return absl::InvalidArgumentError("'user' is a uid.");
    return QuotaTogether(server, Owner::User(uid.get<unsigned>()), absl::StrCat("user ", uid.dump()),
                         arguments);
  }
  if (arguments.contains("job")) return JobQuota(server, arguments);
  std::vector<JobId> all;
  for (const auto& [id, job] : server.core().state().jobs) {
    if (!job.gone) all.push_back(id);
  }
  std::vector<Owner> owners;
  for (const auto& [of, quota] : server.core().state().quotas) owners.push_back(of);
  return QuotasJson(server, all, owners);
}

Result SwitchShare(Server& server, const Json& arguments) {
  if (arguments.contains("share")) {
    HOCKET_ASSIGN_OR_RETURN(const double share, Number(arguments, "share"));
    HOCKET_RETURN_IF_ERROR(CheckSwitchShare(share));
    server.Set(SetSwitchShare{share});
  }
  return Json{{"share", server.core().state().switch_share}};
}

Result Explain(Server& server, const Json& arguments) {
  HOCKET_ASSIGN_OR_RETURN(const JobId id, FindJob(server, arguments));
  server.Apply(0, Tick{});
  const Json job = JobJson(server, id);
  return Json{{"job", id},
              {"name", job["name"]},
              {"state", job["state"]},
              {"why", job["why"]},
              {"lacks", LackJson(server.core(), id)},
              {"measured", job["measured"]},
              {"moves", job["moves"]},
              {"allocator", job["allocator"]}};
}

// All that is added until now is on disk as soon as written + lost reach records.
Result Recorded(Server& server, const Json&) {
  Recorder* const recorder = server.recorder();
  if (recorder == nullptr) return Json{{"folder", nullptr}};
  server.RecordJobs();
  recorder->Flush();
  const Recorder::HowFar how_far = recorder->how_far();
  return Json{{"folder", server.options().runtime_dir + "/history"},
              {"most", server.options().history_size},
              {"keep_s", absl::ToDoubleSeconds(server.options().history_keep)},
              {"records", how_far.records},
              {"written", how_far.written},
              {"lost", how_far.lost},
              {"trouble", how_far.trouble}};
}

Result Turns(Server& server, const Json& arguments) {
  const auto since = arguments.value("since", Json(0u));
  if (!since.is_number_unsigned()) return absl::InvalidArgumentError("'since' is an index, 0 or more.");
  return server.history().turns.Page("turns", since.get<std::uint64_t>());
}

Result Spills(Server& server, const Json& arguments) {
  const auto since = arguments.value("since", Json(0u));
  if (!since.is_number_unsigned()) return absl::InvalidArgumentError("'since' is an index, 0 or more.");
  return server.history().spills.Page("spills", since.get<std::uint64_t>());
}

Result Jobs(Server& server, const Json&) {
  Json jobs = Json::array();
  for (const Json& record : server.ended()) jobs.push_back(record);
  for (const auto& [id, job] : server.core().state().jobs) jobs.push_back(RecordOf(job, server.Now()));
  return Json{{"jobs", std::move(jobs)}};
}

// The last `most` bytes of a file; "" of one that cannot be read.
std::string LastBytes(const std::string& path, std::streamoff most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  file.seekg(std::max<std::streamoff>(0, size - most));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result Logs(Server& server, const Json& arguments) {
  constexpr std::streamoff kTail = 64 * 1024;
  const std::string path = server.options().runtime_dir + "/hocketd.log";
  std::string tail = LastBytes(path, kTail);
  // Where it has just been begun anew, what went before lies aside (log.cc).
  const auto rest = kTail - static_cast<std::streamoff>(tail.size());
  if (rest > 0) tail.insert(0, LastBytes(server.options().runtime_dir + "/hocketd.1.log", rest));
  if (tail.size() >= kTail) tail.erase(0, tail.find('\n') + 1);
  return Json{{"path", path}, {"tail", std::move(tail)}};
}

Result Stop(Server& server, const Json& arguments) {
  std::vector<std::string> running;
  for (const auto& [id, job] : server.core().state().jobs) {
    if (!job.gone) running.push_back(job.info.name);
  }
  if (!running.empty() && arguments.value("force", Json()) != true) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot stop: ", running.size(), " job(s) take turns here (", absl::StrJoin(running, ", "),
        "). End them first, or use --force: they go on, and the first of them starts a coordinator again."));
  }
  if (arguments.value("restart", Json()) == true) {
    server.StopSoon();  // another takes its place at once
  } else {
    server.StopForGood();
  }
  return Json{{"stopped", true}};
}

struct Row {
  const char* name;
  Result (*run)(Server& server, const Json& arguments);
};
constexpr Row kCommands[] = {
    {"explain", Explain},
    {"history", Recorded},
    {"jobs", Jobs},
    {"logs", Logs},
    {"pause", Pause},
    {"policy", ChoosePolicy},
    {"quota", Quotas},
    {"resume", Resume},
    {"set", Set},
    {"spills", Spills},
    {"status", Status},
    {"stop", Stop},
    {"switch-share", SwitchShare},
    {"turns", Turns},
    {"version", Version},
};

}  // namespace

absl::StatusOr<std::string> RunCommand(Server& server, const Asker& asker, const std::string& command,
                                       const std::string& arguments) {
  Json parsed =
      arguments.empty() ? Json::object() : Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return absl::InvalidArgumentError("the arguments of a command are a JSON object.");
  for (const Row& row : kCommands) {
    if (command != row.name) continue;
    if (server.options().system) {
      HOCKET_ASSIGN_OR_RETURN(parsed, Permitted(asker, command, std::move(parsed), server.NamedJobs()));
    }
    HOCKET_ASSIGN_OR_RETURN(Json result, row.run(server, parsed));
    if (server.options().system) result = AsSeenBy(asker, command, std::move(result));
    return result.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const auto name = [](std::string* out, const Row& row) { out->append(row.name); };
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no command '", command, "'. The commands are: ", absl::StrJoin(kCommands, ", ", name), "."));
}

}  // namespace hocket::coordinator
