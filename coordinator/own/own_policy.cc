#include "coordinator/own/own_policy.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

std::string OrderQuestion(const std::vector<JobView>& jobs) {
  return Json{{"ask", "order"}, {"jobs", Views(jobs)}}.dump();
}

Json TellOf(const char* what, const JobView& job) { return {{"tell", what}, {"job", View(job)}}; }

std::string NoOrder(const std::string& line, const Json& answer) {
  const std::string error = TextOf(answer, "error");
  return !error.empty() ? error
                        : absl::StrCat("it answers ", Quoted(line), ", not with the order of the jobs");
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

OwnPolicy::OwnPolicy(const std::string& name, OwnPolicyOptions options)
    : name_(name), title_(PolicyTitle(name)), options_(std::move(options)) {
  Start();
}

void OwnPolicy::Start() const {
  stage_ = Stage::kStarts;
  since_ = options_.now();
  tried_on_.clear();
  keeps_ = false;
  auto program = LineProcess::Start(absl::StrSplit(name_, '\t'));
  if (program.ok()) {
    program_ = *std::move(program);
  } else {
    Fail(std::string(program.status().message()));
  }
}

void OwnPolicy::Fail(const std::string& why, absl::Duration cost) const {
  const absl::Time now = options_.now();
  const bool served_well = stage_ == Stage::kDecides && now - since_ >= kServesWell;
  pause_ = served_well ? kFirstPause : std::clamp(2 * pause_, kFirstPause, kLongestPause);
  pause_ = std::max(pause_, cost);
  program_.reset();
  answers_.clear();
  stage_ = Stage::kPauses;
  since_ = now;
  trouble_ = why;
  if (options_.give_up) return options_.give_up(why);
  options_.say(absl::StrCat("policy ", title_, ": ", why, ". Now fair decides", WhenAgain(),
                            " (`hocket policy FILE` does it at once)"));
}

std::string OwnPolicy::WhenAgain() const {
  if (options_.give_up) return "";
  if (stage_ == Stage::kStarts) return "; it is being started again";
  if (stage_ == Stage::kIsTried)
    return "; it has been started again, and has to answer once before it decides";
  const absl::Duration left = std::max(since_ + pause_ - options_.now(), absl::ZeroDuration());
  return absl::StrCat("; it is tried again in ", absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))));
}

bool OwnPolicy::Decides() const {
  if (stage_ == Stage::kPauses && !options_.give_up && options_.now() >= since_ + pause_) Start();
  if (stage_ == Stage::kStarts) HearReady(absl::ZeroDuration());
  if (stage_ == Stage::kIsTried) HearTrial();
  return stage_ == Stage::kDecides;
}

void OwnPolicy::Await(absl::Duration patience) const {
  if (stage_ == Stage::kStarts) HearReady(patience);
}

// Its first line says that it is ready, and which questions it answers.
void OwnPolicy::HearReady(absl::Duration patience) const {
  const absl::StatusOr<std::string> line = program_->Receive(patience);
  const absl::Duration most = std::max(kMostToStart, options_.patience);
  if (absl::IsDeadlineExceeded(line.status()) && patience < most && options_.now() - since_ < most) return;
  if (absl::IsDeadlineExceeded(line.status()))
    return Fail(absl::StrCat("it has not said within ", absl::FormatDuration(most), " that it is ready"));
  if (!line.ok()) return Fail(std::string(line.status().message()));
  const Json hello = Parse(*line);
  if (const std::string error = TextOf(hello, "error"); !error.empty()) return Fail(error);
  if (!hello.contains("hocket_policy") || hello["hocket_policy"] != 1)
    return Fail(absl::StrCat("its first line is ", Quoted(*line), ", not that of a policy"));
  keeps_ = hello.contains("keeps") && hello["keeps"] == true;
  stage_ = Stage::kIsTried;
  std::vector<std::string> lines;
  for (auto [id, job] : waiting_) {
    job.now = std::max(job.now, told_);
    lines.push_back(TellOf("asked", job).dump());
  }
  if (!lines.empty()) Send(absl::StrJoin(lines, "\n"));
  if (stage_ == Stage::kIsTried && trouble_.empty()) TakeOver();
}

void OwnPolicy::Try(const std::vector<JobView>& waiting) const {
  if (stage_ != Stage::kIsTried || !tried_on_.empty()) return;
  tried_on_ = waiting;
  since_ = options_.now();
  Send(OrderQuestion(waiting));
}

void OwnPolicy::HearTrial() const {
  if (tried_on_.empty()) return;
  const absl::StatusOr<std::string> line = program_->Receive(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(line.status())) {
    if (options_.now() - since_ > options_.patience)
      Fail(absl::StrCat("it has not answered within ", absl::FormatDuration(options_.patience)));
  } else if (!line.ok()) {
    Fail(std::string(line.status().message()));
  } else if (const Json answer = Parse(*line); Ordered(tried_on_, answer)) {
    TakeOver();
  } else {
    Fail(NoOrder(*line, answer));
  }
}

void OwnPolicy::TakeOver() const {
  options_.say(absl::StrCat("policy ", title_, " decides", trouble_.empty() ? "" : " again", " (pid ",
                            program_->pid(), ")"));
  stage_ = Stage::kDecides;
  since_ = options_.now();
  trouble_.clear();
}

void OwnPolicy::Tell(const std::string& line) {
  answers_.clear();
  Send(line);
}

void OwnPolicy::Send(const std::string& line, absl::Duration patience) const {
  if (stage_ != Stage::kIsTried && stage_ != Stage::kDecides) return;
  const absl::Time begin = options_.now();
  const absl::Status sent = program_->Send(line, patience);
  if (sent.ok()) return;
  std::string why(sent.message());
  for (auto word = program_->Receive(absl::ZeroDuration()); word.ok();
       word = program_->Receive(absl::ZeroDuration())) {
    if (std::string error = TextOf(Parse(*word), "error"); !error.empty()) why = std::move(error);
  }
  Fail(why, options_.now() - begin);
}

std::optional<std::string> OwnPolicy::Ask(absl::Time now, const std::string& question) const {
  if (std::exchange(asked_, now) != now) answers_.clear();
  if (const auto known = answers_.find(question); known != answers_.end()) return known->second;
  Send(question, options_.patience);
  if (stage_ != Stage::kDecides) return std::nullopt;
  const absl::Time begin = options_.now();
  const absl::StatusOr<std::string> answer = program_->Receive(options_.patience);
  if (answer.ok()) return answers_[question] = *answer;
  Fail(std::string(answer.status().message()), options_.now() - begin);
  return std::nullopt;
}

std::vector<JobView> OwnPolicy::Order(std::vector<JobView> waiting) const {
  if (waiting.empty()) return waiting;
  if (!Decides()) {
    Try(waiting);
    return fair_.Order(std::move(waiting));
  }
  const std::optional<std::string> line = Ask(waiting.front().now, OrderQuestion(waiting));
  if (!line) return fair_.Order(std::move(waiting));
  const Json answer = Parse(*line);
  if (auto ordered = Ordered(waiting, answer)) {
    reason_ = TextOf(answer, "reason");
    return *std::move(ordered);
  }
  Fail(NoOrder(*line, answer));
  return fair_.Order(std::move(waiting));
}

bool OwnPolicy::Before(const JobView& a, const JobView& b) const {
  return a.id != b.id && Order({a, b}).front().id == a.id;
}

std::string OwnPolicy::Reason(const JobView& next) const {
  if (stage_ == Stage::kDecides) return reason_.empty() ? absl::StrCat("first by ", title_) : reason_;
  return fair_.Reason(next);
}

std::string OwnPolicy::Standing(const JobView& job) const {
  if (stage_ == Stage::kDecides) return "";
  const std::string how = trouble_.empty() ? " is starting, until then"
                                           : absl::StrCat(" has failed (", trouble_, WhenAgain(), "),");
  return absl::StrCat(title_, how, " fair decides; ", fair_.Standing(job));
}

std::string OwnPolicy::Trouble() const {
  if (Decides()) HearUnasked();
  return trouble_.empty() ? "" : absl::StrCat(trouble_, WhenAgain());
}

// It has ended, say, and nobody is to be chosen just now.
void OwnPolicy::HearUnasked() const {
  const absl::StatusOr<std::string> line = program_->Receive(absl::ZeroDuration());
  if (absl::IsDeadlineExceeded(line.status())) return;
  if (!line.ok()) return Fail(std::string(line.status().message()));
  const std::string error = TextOf(Parse(*line), "error");
  Fail(!error.empty() ? error : absl::StrCat("it says ", Quoted(*line), " and was asked nothing"));
}

absl::Duration OwnPolicy::Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const {
  if (!Decides()) return fair_.Keep(holder, held, gpu);
  if (!keeps_) return absl::ZeroDuration();
  const Json question = {
      {"ask", "keep"}, {"holder", View(holder)}, {"held", Seconds(held)}, {"jobs", Views(gpu.waiting)}};
  const std::optional<std::string> line = Ask(holder.now, question.dump());
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
  told_ = job.now;
  waiting_[job.id] = job;
  Tell(TellOf("asked", job).dump());
}

void OwnPolicy::Granted(const JobView& job) {
  fair_.Granted(job);
  told_ = job.now;
  waiting_.erase(job.id);
  Tell(TellOf("granted", job).dump());
}

void OwnPolicy::Charge(const JobView& job, absl::Duration device_time, bool contended) {
  fair_.Charge(job, device_time, contended);
  told_ = job.now;
  Json line = TellOf("charge", job);
  line["seconds"] = Seconds(device_time);
  line["contended"] = contended;
  Tell(line.dump());
}

void OwnPolicy::Forget(EntityId job) {
  fair_.Forget(job);
  waiting_.erase(job);
  Tell(Json{{"tell", "forget"}, {"id", job}}.dump());
}

}  // namespace hocket::coordinator
