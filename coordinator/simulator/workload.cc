#include "coordinator/simulator/workload.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "csrc/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

// Larger values than these are no times and sizes of jobs; they would only overflow.
constexpr double kLargest = 1e15;

// A job that takes longer is a slip, and would be played for hours.
constexpr double kLongest = 100 * 365.25 * 86'400;  // seconds

// Brackets in brackets. What is read here has four; more would overflow the stack of who looks at it.
constexpr size_t kDeepest = 64;

constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";  // some editors begin UTF-8 with it

bool IsPriority(const std::string& text) { return text == "high" || text == "normal" || text == "low"; }

// Sets a member from text. False: the text is no such value.
using Setter = bool (*)(SimulatedJob& job, const std::string& text);

template <auto kMember>
bool SetNumber(SimulatedJob& job, const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value >= 0) || value > kLargest) return false;
  job.*kMember = static_cast<std::decay_t<decltype(job.*kMember)>>(value);
  return true;
}

bool SetName(SimulatedJob& job, const std::string& text) {
  job.name = text;
  return text.size() <= 128;
}
bool SetSteps(SimulatedJob& job, const std::string& text) {
  return SetNumber<&SimulatedJob::steps>(job, text) && job.steps > 0;
}
bool SetStepMs(SimulatedJob& job, const std::string& text) {
  const std::vector<std::string> values = absl::StrSplit(text, ' ', absl::SkipEmpty());
  double sum = 0;
  job.step_series_ms.clear();
  for (const std::string& value : values) {
    if (!SetNumber<&SimulatedJob::step_ms>(job, value)) return false;
    job.step_series_ms.push_back(job.step_ms);
    sum += job.step_ms;
  }
  job.step_ms = sum / static_cast<double>(std::max<size_t>(1, values.size()));
  if (values.size() == 1) job.step_series_ms.clear();
  return !values.empty();
}
bool SetWeight(SimulatedJob& job, const std::string& text) {
  return SetNumber<&SimulatedJob::weight>(job, text) && job.weight > 0;
}
bool SetDevices(SimulatedJob& job, const std::string& text) {
  return absl::SimpleAtoi(text, &job.devices) && job.devices >= 1 && job.devices <= 100'000;
}
bool SetUser(SimulatedJob& job, const std::string& text) { return absl::SimpleAtoi(text, &job.user); }
bool SetPriority(SimulatedJob& job, const std::string& text) {
  job.priority = text;
  return IsPriority(text);
}
bool SetToldSteps(SimulatedJob& job, const std::string& text) {
  return absl::SimpleAtoi(text, &job.told_steps.emplace());
}
bool SetKind(SimulatedJob& job, const std::string& text) {
  job.kind = text;
  return text.size() <= 128;
}
bool SetAway(SimulatedJob& job, const std::string& text) {
  job.away = text == "1";
  return text == "0" || text == "1";
}

const std::map<std::string, Setter>& Columns() {
  static const auto* const columns = new std::map<std::string, Setter>{
      {"name", SetName},
      {"arrival_s", SetNumber<&SimulatedJob::arrival_s>},
      {"steps", SetSteps},
      {"step_ms", SetStepMs},
      {"gap_ms", SetNumber<&SimulatedJob::gap_ms>},
      {"away", SetAway},
      {"startup_s", SetNumber<&SimulatedJob::startup_s>},
      {"persistent", SetNumber<&SimulatedJob::persistent>},
      {"user", SetUser},
      {"weight", SetWeight},
      {"priority", SetPriority},
      {"told_steps", SetToldSteps},
      {"devices", SetDevices},
      {"kind", SetKind},
      {"transient", SetNumber<&SimulatedJob::transient>},
  };
  return *columns;
}

absl::Status Set(SimulatedJob& job, const std::string& where, const std::string& column,
                 const std::string& value) {
  auto known = Columns().find(column);
  if (known == Columns().end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": there is no column '", absl::CEscape(column), "'. The columns are: ",
        absl::StrJoin(Columns(), ", ", [](std::string* out, const auto& entry) { out->append(entry.first); }),
        "."));
  }
  if (known->second(job, value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": '", absl::CEscape(value.substr(0, 100)), "' is no ", column, "."));
}

std::string Years(double seconds) { return absl::StrFormat("%.3g years", seconds / (365.25 * 86'400)); }

absl::Status CheckLength(const SimulatedJob& job, const std::string& where) {
  using Time = std::pair<const char*, double>;
  for (const auto& [column, seconds] : {Time("arrival_s", job.arrival_s), Time("startup_s", job.startup_s)}) {
    if (seconds <= kLongest) continue;
    return absl::InvalidArgumentError(absl::StrFormat("%s: %s of %g is %s; give %g (%s) at most.", where,
                                                      column, seconds, Years(seconds), kLongest,
                                                      Years(kLongest)));
  }
  const double all = static_cast<double>(job.steps) * (job.step_ms + job.gap_ms) / 1e3;
  if (all <= kLongest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: steps of %d, with a step_ms of %g and a gap_ms of %g, take %s; a job may take %s. Give "
      "fewer, or shorter ones.",
      where, job.steps, job.step_ms, job.gap_ms, Years(all), Years(kLongest)));
}

std::string Trimmed(absl::string_view text) { return std::string(absl::StripAsciiWhitespace(text)); }

absl::StatusOr<Workload> ParseCsv(const std::string& text) {
  Workload workload;
  std::vector<std::string> columns;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::string where = absl::StrCat("line ", number);
    if (Trimmed(line).empty() || line[0] == '#') continue;
    std::vector<std::string> values;
    for (absl::string_view value : absl::StrSplit(line, ',')) values.push_back(Trimmed(value));
    if (columns.empty()) {
      columns = values;
      continue;
    }
    if (values.size() != columns.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, " has ", values.size(), " values, the first line names ", columns.size(), " columns."));
    }
    SimulatedJob& job = workload.jobs.emplace_back();
    for (size_t i = 0; i < values.size(); ++i) HOCKET_RETURN_IF_ERROR(Set(job, where, columns[i], values[i]));
    HOCKET_RETURN_IF_ERROR(CheckLength(job, where));
  }
  return workload;
}

// More than ten times its speed alone is no measurement.
absl::StatusOr<Pairs> ParsePairs(const Json& entries) {
  Pairs pairs;
  if (!entries.is_object()) return absl::InvalidArgumentError("its \"pairs\" are no JSON object.");
  for (const auto& [kind, others] : entries.items()) {
    const std::string where = absl::StrCat("pairs of '", absl::CEscape(kind), "'");
    if (!others.is_object())
      return absl::InvalidArgumentError(absl::StrCat(where, ": they are no JSON object."));
    for (const auto& [other, share] : others.items()) {
      if (!share.is_number() || !(share.get<double>() >= 0) || share.get<double>() > 10)
        return absl::InvalidArgumentError(absl::StrCat(where, ": what it runs at beside '",
                                                       absl::CEscape(other),
                                                       "' is no share of its speed alone (0 to 10)."));
      pairs[kind][other] = share.get<double>();
    }
  }
  for (const auto& [kind, others] : pairs) {
    for (const auto& [other, share] : others) {
      if (share == 0 && pairs.contains(other) && pairs[other].contains(kind) && pairs[other][kind] > 0)
        return absl::InvalidArgumentError(
            absl::StrCat("pairs: '", absl::CEscape(kind), "' does nothing beside '", absl::CEscape(other),
                         "', which does something beside it: 0 says that they do not fit, and both ways."));
    }
  }
  return pairs;
}

// Makes a value of JSON, but stops before the turns of a recorded day: they come last, there may be millions
// of them, and nothing here reads them.
class HeadOfDay : public nlohmann::json_sax<Json> {
 public:
  const Json& value() const { return value_; }
  bool stopped() const { return stopped_; }
  bool too_deep() const { return too_deep_; }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t&) override { return Put(value); }
  bool string(string_t& value) override { return Put(value); }
  bool binary(binary_t& value) override { return Put(Json::binary(value)); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    key_ = value;
    stopped_ = open_.size() == 1 && value == "turns" && value_.contains("jobs");
    return !stopped_;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  Json* Place(Json value) {
    if (open_.empty()) return &(value_ = std::move(value));
    Json& in = *open_.back();
    if (in.is_object()) return &(in[key_] = std::move(value));
    in.push_back(std::move(value));
    return &in.back();
  }
  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json value) {
    too_deep_ = open_.size() >= kDeepest;
    if (too_deep_) return false;
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json value_;
  std::vector<Json*> open_;
  std::string key_;
  bool stopped_ = false, too_deep_ = false;
};

absl::StatusOr<Workload> FromJson(bool read, const HeadOfDay& head) {
  const Json& parsed = head.value();
  if (head.too_deep())
    return absl::InvalidArgumentError(absl::StrCat("its brackets are nested more than ", kDeepest, " deep."));
  if ((!read && !head.stopped()) || !parsed.is_object() || !parsed.contains("jobs") ||
      !parsed["jobs"].is_array())
    return absl::InvalidArgumentError("it is no JSON object with a list of \"jobs\".");
  Workload workload;
  if (parsed.contains("pairs")) {
    HOCKET_ASSIGN_OR_RETURN(workload.pairs, ParsePairs(parsed["pairs"]));
  }
  for (const Json& entry : parsed["jobs"]) {
    const std::string where = absl::StrCat("job ", workload.jobs.size());
    if (!entry.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, " is no JSON object."));
    SimulatedJob& job = workload.jobs.emplace_back();
    for (const auto& [key, value] : entry.items()) {
      if (!Columns().contains(key)) continue;  // a recorded trace says more than is simulated
      HOCKET_RETURN_IF_ERROR(Set(job, where, key,
                                 value.is_string()
                                     ? value.get<std::string>()
                                     : value.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
    HOCKET_RETURN_IF_ERROR(CheckLength(job, where));
  }
  return workload;
}

// `input`: a text or a stream.
template <typename Input>
absl::StatusOr<Workload> ParseJson(Input&& input) {
  HeadOfDay head;
  const bool read = Json::sax_parse(input, &head);
  return FromJson(read, head);
}

absl::StatusOr<Workload> InOrder(absl::StatusOr<Workload> workload) {
  HOCKET_RETURN_IF_ERROR(workload.status());
  if (workload->jobs.empty()) return absl::InvalidArgumentError("there are no jobs in it.");
  std::stable_sort(workload->jobs.begin(), workload->jobs.end(),
                   [](const auto& a, const auto& b) { return a.arrival_s < b.arrival_s; });
  return workload;
}

}  // namespace

absl::StatusOr<Workload> ParseWorkload(const std::string& marked) {
  const std::string text(absl::StripPrefix(marked, kByteOrderMark));
  const size_t first = text.find_first_not_of(" \t\r\n");
  return InOrder(first != std::string::npos && text[first] == '{' ? ParseJson(text) : ParseCsv(text));
}

absl::StatusOr<Workload> ReadWorkload(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path, "."));
  // Where it does not begin as a mark does, the columns' names are wrong, and that is said.
  for (const char mark : absl::string_view(kByteOrderMark)) {
    if (file.peek() == std::char_traits<char>::to_int_type(mark)) file.get();
  }
  file >> std::ws;
  auto workload = file.peek() == '{' ? InOrder(ParseJson(file))
                                     : ParseWorkload(std::string(std::istreambuf_iterator<char>(file), {}));
  if (workload.ok()) return workload;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", workload.status().message()));
}

}  // namespace hocket::coordinator
