#include "coordinator/server/rights.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "csrc/base/status_macros.h"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

// Arguments that change something for all, by command. A command with none, and "*", is for those who govern
// whatever its arguments.
struct ForThoseWhoGovern {
  const char* command;
  const char* argument;
  const char* what;
};
constexpr ForThoseWhoGovern kGoverned[] = {
    {"history", "*", "read all that was recorded"},
    {"logs", "*", "read the daemon's log"},
    {"policy", "bound", "set the policy"},
    {"policy", "link_bound", "set the policy"},
    {"policy", "name", "set the policy"},
    {"policy", "overdue", "set the policy"},
    {"policy", "program", "set the policy"},
    {"policy", "switch_share", "set the policy"},
    {"policy", "together", "set the policy"},
    {"quota", "memory_guarantee", "guarantee memory"},
    {"quota", "time_guarantee", "guarantee time"},
    {"stop", "*", "end the daemon"},
    {"switch-share", "share", "set the share that goes into switching"},
};

absl::Status Denied(const std::string& what) {
  return absl::PermissionDeniedError(
      absl::StrCat("this daemon serves several users, and only root may ", what, "."));
}

absl::Status CheckGoverned(const std::string& command, const Json& arguments) {
  for (const auto& [of, argument, what] : kGoverned) {
    if (command == of && (std::string(argument) == "*" || arguments.contains(argument))) return Denied(what);
  }
  if (command == "quota" && arguments.contains("user") && arguments.size() > 1)
    return Denied("set what a user may have");
  if (command == "quota" && arguments.contains("group") && arguments.size() > 1)
    return Denied("set what a group may have");
  return absl::OkStatus();
}

std::string Text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

absl::StatusOr<NamedJob> Find(const Asker& asker, const std::string& wanted,
                              const std::vector<NamedJob>& jobs) {
  std::vector<std::string> own, numbers;
  std::vector<NamedJob> found;
  for (const NamedJob& job : jobs) {
    const bool named = job.name == wanted || absl::StrCat(job.id) == wanted;
    if (!asker.governs && job.user != asker.uid) {
      if (absl::StrCat(job.id) == wanted)
        return absl::PermissionDeniedError(
            absl::StrCat("job ", job.id, " is uid ", job.user, "'s: only that user, or root, may do that."));
      continue;
    }
    own.push_back(job.name);
    if (named) found.push_back(job);
  }
  const bool runs = std::any_of(found.begin(), found.end(), [](const NamedJob& job) { return !job.gone; });
  if (runs) std::erase_if(found, [](const NamedJob& job) { return job.gone; });
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "there is no job '", wanted, "' of ", asker.governs ? "anybody" : "yours", ". ",
        own.empty() ? "None runs." : absl::StrCat("There are: ", absl::StrJoin(own, ", "), ".")));
  }
  for (const NamedJob& job : found) numbers.push_back(absl::StrCat(job.id, " (uid ", job.user, ")"));
  const bool several = std::any_of(found.begin(), found.end(),
                                   [&](const NamedJob& job) { return job.user != found.front().user; });
  if (several)
    return absl::InvalidArgumentError(
        absl::StrCat("several users have a job '", wanted,
                     "'. Name one by its number: ", absl::StrJoin(numbers, ", "), "."));
  return found.back();
}

bool IsFullGroup(const std::string& group) {
  const size_t dot = group.find('.');
  unsigned uid = 0;
  return dot != std::string::npos && absl::SimpleAtoi(group.substr(0, dot), &uid) &&
         absl::StrCat(uid) == group.substr(0, dot) && dot + 1 < group.size();
}

// --- what is not his to see -----------------------------------------------------------------------

bool IsOthers(const Asker& asker, const Json& of) {
  auto user = of.find("user");
  return user != of.end() && *user != asker.uid;
}

std::string Somebody(const Json& of) { return absl::StrCat("a job of uid ", of["user"].dump()); }

// What it says of a process, a program, or its user's reasons.
void Blank(Json& job) {
  job["name"] = Somebody(job);
  for (const char* key : {"program", "why", "silent", "group", "hocket_version", "torch_version", "reason"}) {
    if (job.contains(key)) job[key] = "";
  }
  for (const char* key : {"gang", "slower", "to_go_s"}) {
    if (job.contains(key)) job[key] = nullptr;
  }
  for (const char* key : {"pid", "total_steps", "told_steps"}) {
    if (job.contains(key)) job[key] = 0;
  }
  if (job.contains("beside")) job["beside"] = Json::array();
}

Json& BlankOthers(const Asker& asker, Json& jobs) {
  for (Json& job : jobs) {
    if (IsOthers(asker, job)) Blank(job);
  }
  return jobs;
}

void SeeDevice(Json& device, const Json& jobs) {
  std::vector<std::string> holders;
  std::set<std::string> names;
  for (const Json& job : jobs) {
    if (job["device"] != device["uuid"]) continue;
    names.insert(Text(job["name"]));
    if (!job["turn_s"].is_null()) holders.push_back(Text(job["name"]));
  }
  device["holder"] = absl::StrJoin(holders, ", ");
  Json stand_by = Json::array();
  for (const Json& name : device["stand_by"]) {
    if (names.contains(Text(name))) stand_by.push_back(name);
  }
  device["stand_by"] = std::move(stand_by);
}

void OnlyOwnQuotas(const Asker& asker, Json& answer) {
  const auto keep = [](Json& list, const auto& his) {
    Json kept = Json::array();
    for (Json& entry : list) {
      if (his(entry)) kept.push_back(std::move(entry));
    }
    list = std::move(kept);
  };
  keep(answer["quotas"], [&](const Json& quota) { return !IsOthers(asker, quota); });
  const std::string own = absl::StrCat(asker.uid, ".");
  keep(answer["together"], [&](const Json& quota) {
    return quota["kind"] == "user" ? quota["uid"] == asker.uid
                                   : Text(quota["name"]).compare(0, own.size(), own) == 0;
  });
}

}  // namespace

std::string FullGroup(unsigned uid, const std::string& group) { return absl::StrCat(uid, ".", group); }

absl::StatusOr<Json> Permitted(const Asker& asker, const std::string& command, Json arguments,
                               const std::vector<NamedJob>& jobs) {
  if (!asker.governs) HOCKET_RETURN_IF_ERROR(CheckGoverned(command, arguments));
  unsigned whose = asker.uid;
  if (arguments.contains("job")) {
    HOCKET_ASSIGN_OR_RETURN(const NamedJob job, Find(asker, Text(arguments["job"]), jobs));
    arguments["job"] = job.id;
    whose = job.user;
  }
  auto group = arguments.find("group");
  if (group == arguments.end() || !group->is_string() || group->get<std::string>().empty()) return arguments;
  const std::string given = group->get<std::string>();
  const bool named_in_full = asker.governs && command == "quota";
  if (named_in_full && !IsFullGroup(given))
    return absl::InvalidArgumentError(absl::StrCat(
        "here a group is one user's: give his uid and its name, such as ", FullGroup(1000, given), "."));
  if (!named_in_full) *group = FullGroup(whose, given);
  return arguments;
}

Json AsSeenBy(const Asker& asker, const std::string& command, Json answer) {
  if (asker.governs) return answer;
  if (answer.contains("jobs") && answer["jobs"].is_array()) BlankOthers(asker, answer["jobs"]);
  if (command == "turns") BlankOthers(asker, answer["turns"]);
  if (command == "spills") {
    for (Json& spill : BlankOthers(asker, answer["spills"])) {
      if (spill["for_job"] != 0 && spill["for_user"] != asker.uid)
        spill["for"] = absl::StrCat("a job of uid ", spill["for_user"].dump());
    }
  }
  if (command == "quota") OnlyOwnQuotas(asker, answer);
  if (command == "status") {
    for (Json& device : answer["devices"]) SeeDevice(device, answer["jobs"]);
  }
  return answer;
}

bool MayConnect(const Asker& asker, size_t own, size_t all, size_t most) {
  if (asker.governs) return all < most;
  return own < std::max<size_t>(1, most / 4) && all < most - most / 8;
}

}  // namespace hocket::coordinator
