#include "coordinator/own/own_policy.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestText = 300;

Json Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

// Since then; null: not, or never.
Json Since(absl::Time then, absl::Time now) {
  if (then == absl::InfinitePast() || then == absl::InfiniteFuture()) return nullptr;
  return Seconds(now - then);
}

Json MeanOf(const Estimate& estimate) { return estimate.known() ? Seconds(estimate.mean()) : Json(nullptr); }

const char* NameOf(Priority priority) {
  return priority == Priority::kHigh ? "high" : priority == Priority::kLow ? "low" : "normal";
}

Json View(const JobView& job) {
  return {{"id", job.id},
          {"user", job.user},
          {"user_weight", job.user_weight},
          {"weight", job.weight},
          {"priority", NameOf(job.priority)},
          {"waits", Since(job.asked, job.now)},
          {"away", Since(job.left, job.now)},
          {"served", Seconds(job.served)},
          {"steps", job.steps},
          {"total_steps", job.total_steps},
          {"step", MeanOf(job.step)},
          {"gap", MeanOf(job.gap)}};
}

Json Views(const std::vector<JobView>& jobs) {
  Json views = Json::array();
  for (const JobView& job : jobs) views.push_back(View(job));
  return views;
}

// Never throws; what is no object is an empty one.
Json Parse(const std::string& line) {
  Json parsed = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : Json::object();
}

// A text of the program's, at most so long; what is cut off is not cut in the middle of a character.
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  std::string text = found->get<std::string>();
  std::size_t length = std::min(text.size(), kLongestText);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80)
    --length;
  return text.substr(0, length);
}

// What it has said, for people: it may be anything.
std::string Quoted(const std::string& line) {
  std::string text = line.substr(0, 80);
  for (char& byte : text) byte = byte >= 0x20 && byte < 0x7f ? byte : '?';
  return absl::StrCat("\"", text, line.size() > text.size() ? "...\"" : "\"");
}

// `jobs` as `ids` say; none where it does not name each of them once.
std::optional<std::vector<JobView>> Ordered(const std::vector<JobView>& jobs, const Json& answer) {
  const auto ids = answer.find("order");
  if (ids == answer.end() || !ids->is_array() || ids->size() != jobs.size()) return std::nullopt;
  std::map<EntityId, const JobView*> left;
  for (const JobView& job : jobs) left[job.id] = &job;
  std::vector<JobView> ordered;
  for (const Json& id : *ids) {
    const auto job = id.is_number_unsigned() ? left.find(id.get<EntityId>()) : left.end();
    if (job == left.end()) return std::nullopt;
    ordered.push_back(*job->second);
    left.erase(job);
  }
  return ordered;
}

}  // namespace

bool IsOwnPolicy(const std::string& name) { return !name.empty() && name[0] == '/'; }

absl::Status CheckOwnPolicy(const std::string& name) {
  const std::vector<std::string> command = absl::StrSplit(name, '\t');
  if (name.find('\n') != std::string::npos)
    return absl::InvalidArgumentError("the path of a policy cannot contain the end of a line.");
  if (access(command.front().c_str(), X_OK) != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("the policy ", command.front(), " cannot be run: no such program, or not executable."));
  if (access(command.back().c_str(), R_OK) != 0)
    return absl::InvalidArgumentError(absl::StrCat("the policy ", command.back(), " cannot be read."));
  return absl::OkStatus();
}

OwnPolicy::OwnPolicy(const std::string& name, std::function<void(const std::string&)> say,
                     absl::Duration patience)
    : title_(PolicyTitle(name)), say_(std::move(say)), patience_(patience) {
  auto program = LineProcess::Start(absl::StrSplit(name, '\t'));
  if (program.ok()) {
    program_ = *std::move(program);
  } else {
    Fail(std::string(program.status().message()));
  }
}

void OwnPolicy::Fail(const std::string& why) const {
  program_.reset();
  trouble_ = why;
  say_(absl::StrCat("policy ", title_, ": ", why,
                    ". From now on fair decides; correct it, then give it again with `hocket policy`."));
}

// Its first line says that it is ready, and which questions it answers.
bool OwnPolicy::Decides() const {
  if (program_ == nullptr || ready_) return program_ != nullptr;
  const absl::StatusOr<std::string> line = program_->Receive(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(line.status())) return false;  // still starting
  const Json hello = line.ok() ? Parse(*line) : Json::object();
  if (!line.ok()) {
    Fail(std::string(line.status().message()));
  } else if (const std::string error = TextOf(hello, "error"); !error.empty()) {
    Fail(error);
  } else if (!hello.contains("hocket_policy") || hello["hocket_policy"] != 1) {
    Fail(absl::StrCat("its first line is ", Quoted(*line), ", not that of a policy"));
  } else {
    ready_ = true;
    keeps_ = hello.contains("keeps") && hello["keeps"] == true;
    say_(absl::StrCat("policy ", title_, " decides (pid ", program_->pid(), ")"));
  }
  return program_ != nullptr;
}

void OwnPolicy::Tell(const std::string& line, absl::Duration patience) const {
  if (program_ == nullptr) return;
  const absl::Status sent = program_->Send(line, patience);
  if (sent.ok()) return;
  std::string why(sent.message());
  for (auto word = program_->Receive(absl::ZeroDuration()); word.ok();
       word = program_->Receive(absl::ZeroDuration())) {
    if (std::string error = TextOf(Parse(*word), "error"); !error.empty()) why = std::move(error);
  }
  Fail(why);
}

std::optional<std::string> OwnPolicy::Ask(const std::string& question) const {
  if (!Decides()) return std::nullopt;
  Tell(question, patience_);
  if (program_ == nullptr) return std::nullopt;
  const absl::StatusOr<std::string> answer = program_->Receive(patience_);
  if (answer.ok()) return *answer;
  Fail(std::string(answer.status().message()));
  return std::nullopt;
}

std::vector<JobView> OwnPolicy::Order(std::vector<JobView> waiting) const {
  if (waiting.empty()) return waiting;
  const std::optional<std::string> line = Ask(Json{{"ask", "order"}, {"jobs", Views(waiting)}}.dump());
  if (!line) return fair_.Order(std::move(waiting));
  const Json answer = Parse(*line);
  if (auto ordered = Ordered(waiting, answer)) {
    reason_ = TextOf(answer, "reason");
    return *std::move(ordered);
  }
  const std::string error = TextOf(answer, "error");
  Fail(!error.empty() ? error
                      : absl::StrCat("it answers ", Quoted(*line), ", not with the order of the jobs"));
  return fair_.Order(std::move(waiting));
}

bool OwnPolicy::Before(const JobView& a, const JobView& b) const {
  return a.id != b.id && Order({a, b}).front().id == a.id;
}

std::string OwnPolicy::Reason(const JobView& next) const {
  if (program_ != nullptr && ready_) return reason_.empty() ? absl::StrCat("first by ", title_) : reason_;
  return fair_.Reason(next);
}

std::string OwnPolicy::Standing(const JobView& job) const {
  if (trouble_.empty()) return "";
  return absl::StrCat(title_, " has failed (", trouble_, "), fair decides; ", fair_.Standing(job));
}

std::string OwnPolicy::Trouble() const {
  (void)Decides();
  return trouble_;
}

absl::Duration OwnPolicy::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  if (!Decides()) return fair_.Keep(holder, held, gpu);
  if (!keeps_) return absl::ZeroDuration();
  const std::optional<std::string> line = Ask(Json{
      {"ask", "keep"},
      {"holder", View(holder)},
      {"held", Seconds(held)},
      {"jobs", Views(gpu.waiting)}}.dump());
  if (!line) return fair_.Keep(holder, held, gpu);
  const Json answer = Parse(*line);
  const auto seconds = answer.find("seconds");
  if (seconds != answer.end() && seconds->is_number() && seconds->get<double>() >= 0)
    return absl::Seconds(std::min(seconds->get<double>(), 3600.0));
  const std::string error = TextOf(answer, "error");
  Fail(!error.empty() ? error : absl::StrCat("it answers ", Quoted(*line), ", not with seconds"));
  return fair_.Keep(holder, held, gpu);
}

void OwnPolicy::Asked(const JobView& job) {
  fair_.Asked(job);
  Tell(Json{{"tell", "asked"}, {"job", View(job)}}.dump());
}

void OwnPolicy::Granted(const JobView& job) {
  fair_.Granted(job);
  Tell(Json{{"tell", "granted"}, {"job", View(job)}}.dump());
}

void OwnPolicy::Charge(const JobView& job, absl::Duration device_time, bool contended) {
  fair_.Charge(job, device_time, contended);
  Tell(Json{
      {"tell", "charge"}, {"job", View(job)}, {"seconds", Seconds(device_time)}, {"contended", contended}}
           .dump());
}

void OwnPolicy::Forget(EntityId job) {
  fair_.Forget(job);
  Tell(Json{{"tell", "forget"}, {"id", job}}.dump());
}

}  // namespace hocket::coordinator
