#include "coordinator/simulator/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/own/own_policy.h"
#include "coordinator/policies/registry.h"
#include "coordinator/simulator/cluster.h"
#include "coordinator/simulator/queue.h"
#include "csrc/base/status_macros.h"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

constexpr char kHelp[] =
    R"(hocketd simulate FILE: plays the jobs of FILE through the coordinator's own core, in virtual time.
FILE is CSV (its first line names the columns: name, arrival_s, steps, step_ms, gap_ms, away, startup_s,
persistent, user, weight, priority, told_steps, devices, kind, transient), or JSON as `hocket trace` writes it.
Prints JSON. For pack the JSON has to say what jobs run at beside each other, as a share of their speed alone:
{"jobs": [{"kind": "a", ...}, ...], "pairs": {"a": {"b": 0.7, ...}, "b": {"a": 0.8, ...}}}; 0, both ways: they do
not fit beside each other. Beside two others a job runs at the product of its shares beside each.

  --policy=NAME,...       policies to compare (default: queue,fair,srtf); queue: one job after the other. May be given
                          several times; one that begins with / is the command of a policy of your own, its words
                          separated by tabs (`hocket simulate --policy ./mine.py` makes it)
  --devices=N             how many (default 1)
  --memory=BYTES          of each device (default 16 GiB)
  --switch-share=X        as of the daemon (default 0.02)
  --hand-over-ms=X        what a turn's begin costs when nothing moves (default 0)
  --link-bytes-per-s=X    for bytes that move, each way (default 20e9)
  --starting=N            jobs that start up at once: cores of the host (default 0: any number)
  --at-once=N             jobs that a device works on at once; the others wait for a place, by the policy under
                          srtf, else by arrival (default 0: one under srtf and queue, else any number)
  --together=N            pack: so many in one turn (default 4)
  --plain                 jobs without Hocket: one starts up only where its bytes fit beside the others', and
                          nothing moves
  --nodes=N               a cluster: jobs of several devices (column `devices`) on N nodes of --devices each, placed
                          anew at every arrival and end, by the policy's order alone (srtf, fifo); --hand-over-ms is
                          what a restart costs
  --until-s=X             play no further than that; of jobs that have not ended only --each says something, with
                          their steps
  --every-s=X             with --each: also the device time that each job has had after X, 2X, ... seconds
  --each                  also when each job began and ended, and after which of its steps it was noticed that they
                          had become slower
)";

constexpr int kMostPrograms = 64;

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double Percentile(const std::vector<double>& sorted, double p) {
  const auto at = static_cast<size_t>(p * static_cast<double>(sorted.size()));
  return sorted.empty() ? 0 : sorted[std::min(at, sorted.size() - 1)];
}

struct Flags {
  std::string file;
  std::vector<std::string> policies;
  bool each = false;
  SimulationOptions options;
};

absl::Status WrongFlag(const std::string& argument) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", argument, "' is no flag of hocketd simulate, or no value for it. Try: hocketd simulate --help"));
}

absl::Status AddPolicy(const std::string& name, std::vector<std::string>& policies) {
  if (IsOwnPolicy(name)) {
    HOCKET_RETURN_IF_ERROR(CheckOwnPolicy(name));
  } else if (const absl::Status known = MakePolicy(name).status(); name != kQueue && !known.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(known.message(), " And, for simulations: ", kQueue, "."));
  }
  for (const std::string& other : policies) {
    if (other != name && PolicyTitle(other) == PolicyTitle(name))
      return absl::InvalidArgumentError(
          absl::StrCat("two of the policies are called ", PolicyTitle(name), ": rename one."));
  }
  policies.push_back(name);
  return absl::OkStatus();
}

absl::Status AddPolicies(const std::string& value, std::vector<std::string>& policies) {
  if (IsOwnPolicy(value)) return AddPolicy(value, policies);
  const std::vector<std::string> names = absl::StrSplit(value, ',');
  for (const std::string& name : names) HOCKET_RETURN_IF_ERROR(AddPolicy(name, policies));
  return absl::OkStatus();
}

absl::Status SetFlag(const std::string& name, const std::string& value, Flags& flags) {
  if (name == "policy") return AddPolicies(value, flags.policies);
  double number = 0;
  if (!absl::SimpleAtod(value, &number) || !(number >= 0) || number > 1e15) return WrongFlag("--" + name);
  SimulationOptions& options = flags.options;
  if (name == "devices" && number >= 1 && number <= 100'000)
    return options.devices = static_cast<int>(number), absl::OkStatus();
  if (name == "memory" && number >= 1) return options.capacity = static_cast<Bytes>(number), absl::OkStatus();
  if (name == "switch-share" && number > 0 && number <= 1)
    return options.switch_share = number, absl::OkStatus();
  if (name == "hand-over-ms") return options.hand_over = absl::Milliseconds(number), absl::OkStatus();
  if (name == "link-bytes-per-s" && number > 0) return options.link = number, absl::OkStatus();
  if (name == "starting" && number <= 1'000'000)
    return options.starting = static_cast<int>(number), absl::OkStatus();
  if (name == "at-once" && number <= 1'000'000)
    return options.at_once = static_cast<int>(number), absl::OkStatus();
  if (name == "until-s" && number > 0) return options.until = absl::Seconds(number), absl::OkStatus();
  if (name == "every-s" && number > 0) return options.every = absl::Seconds(number), absl::OkStatus();
  if (name == "together" && number >= 1 && number <= 16 && number == std::floor(number))
    return options.together = static_cast<int>(number), absl::OkStatus();
  if (name == "nodes" && number <= 100'000) return options.nodes = static_cast<int>(number), absl::OkStatus();
  return WrongFlag("--" + name + "=" + value);
}

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (argument == "--each") {
      flags.each = true;
    } else if (argument == "--plain") {
      flags.options.plain = true;
    } else if (argument.rfind("--", 0) == 0 && equals != std::string::npos) {
      HOCKET_RETURN_IF_ERROR(SetFlag(argument.substr(2, equals - 2), argument.substr(equals + 1), flags));
    } else if (argument.rfind("-", 0) != 0 && flags.file.empty()) {
      flags.file = argument;
    } else {
      return WrongFlag(argument);
    }
  }
  if (flags.file.empty())
    return absl::InvalidArgumentError("name the file to simulate. Try: hocketd simulate --help");
  if (flags.policies.empty()) flags.policies = {kQueue, "fair", "srtf"};
  return flags;
}

// Whether the cluster can hold it: on one node, or on whole nodes.
absl::Status CheckGang(const SimulatedJob& job, const SimulationOptions& options) {
  const int all = options.devices * std::max(1, options.nodes);
  if (job.devices == 1) return absl::OkStatus();
  if (options.nodes > 0 && job.devices <= all &&
      (job.devices <= options.devices || job.devices % options.devices == 0))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "job '", absl::CEscape(job.name), "' needs ", job.devices, " devices at once: that takes --nodes=N, ",
      "and so many as are on one node of --devices=", options.devices, ", or on whole nodes."));
}

absl::Status CheckCluster(const Flags& flags) {
  if (flags.options.nodes > 0 && flags.options.until != absl::InfiniteDuration())
    return absl::InvalidArgumentError("--nodes plays to the end: it does not go with --until-s.");
  for (const std::string& name : flags.policies) {
    if (flags.options.nodes > 0 && name != "srtf" && name != "fifo")
      return absl::InvalidArgumentError(
          absl::StrCat("--nodes goes with the policies srtf and fifo, not with ", PolicyTitle(name), "."));
    if (IsOwnPolicy(name) && flags.options.devices > kMostPrograms)
      return absl::InvalidArgumentError(
          absl::StrCat("a policy of your own is a program for each device: it goes with ", kMostPrograms,
                       " devices at most, not with ", flags.options.devices, "."));
  }
  return absl::OkStatus();
}

absl::Status NotSaid(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "pack cannot be simulated: it goes by how much jobs slow each other down when they run at the same "
      "time, and ",
      what, " Say it in \"pairs\", see: hocketd simulate --help"));
}

// Whether it is known what they run at beside each other.
absl::Status CheckPairs(const Workload& workload) {
  std::map<std::string, int> kinds;
  for (const SimulatedJob& job : workload.jobs) {
    ++kinds[job.kind];
    if (job.kind.empty()) return NotSaid(absl::StrCat("job '", absl::CEscape(job.name), "' has no kind."));
  }
  for (const auto& [kind, jobs] : kinds) {
    const auto beside = workload.pairs.find(kind);
    for (const auto& [other, others] : kinds) {
      if (kind == other && jobs == 1) continue;
      if (beside == workload.pairs.end() || !beside->second.contains(other))
        return NotSaid(absl::StrCat("nothing says what '", absl::CEscape(kind), "' runs at beside '",
                                    absl::CEscape(other), "'."));
    }
  }
  return absl::OkStatus();
}

// Whether they can be simulated so.
absl::Status CheckJobs(const std::vector<SimulatedJob>& jobs, const SimulationOptions& options) {
  for (const SimulatedJob& job : jobs) {
    HOCKET_RETURN_IF_ERROR(CheckGang(job, options));
    if (!options.plain || job.persistent <= options.capacity) continue;
    return absl::InvalidArgumentError(absl::StrCat("job '", absl::CEscape(job.name), "' needs ",
                                                   job.persistent, " bytes, a device has ", options.capacity,
                                                   ": --plain jobs must fit by themselves."));
  }
  return absl::OkStatus();
}

Json OptionsJson(const SimulationOptions& options) {
  return {{"devices", options.devices},
          {"memory", options.capacity},
          {"switch_share", options.switch_share},
          {"hand_over_ms", Seconds(options.hand_over) * 1e3},
          {"link_bytes_per_s", options.link},
          {"starting", options.starting},
          {"at_once", options.at_once},
          {"together", options.together},
          {"plain", options.plain},
          {"nodes", options.nodes}};
}

int Fail(const absl::Status& status, int exit_status) {
  std::fprintf(stderr, "hocketd simulate: %s\n", std::string(status.message()).c_str());
  return exit_status;
}

}  // namespace

Json Report(const SimulationResult& result, int devices, bool each) {
  std::vector<double> completion, queue, slowdown;
  Json ends = Json::array();
  for (const SimulatedEnd& job : result.jobs) {
    if (each)
      ends.push_back({{"name", job.name},
                      {"arrival_s", Seconds(job.arrival)},
                      {"first_step_s", Seconds(job.first_step)},
                      {"end_s", Seconds(job.end)},
                      {"alone_s", Seconds(job.alone)},
                      {"steps", job.steps},
                      {"slower_at", job.slower}});
    if (each && !job.served.empty()) {
      for (absl::Duration served : job.served) ends.back()["served_s"].push_back(Seconds(served));
    }
    if (job.end == absl::InfiniteDuration()) continue;
    completion.push_back(Seconds(job.end - job.arrival));
    queue.push_back(Seconds(job.first_step - job.arrival));
    slowdown.push_back(absl::FDivDuration(job.end - job.arrival, std::max(job.alone, absl::Nanoseconds(1))));
  }
  std::sort(completion.begin(), completion.end());
  Json report{{"jobs", result.jobs.size()},
              {"mean_jct_s", Mean(completion)},
              {"median_jct_s", Percentile(completion, 0.5)},
              {"p95_jct_s", Percentile(completion, 0.95)},
              {"p99_jct_s", Percentile(completion, 0.99)},
              {"mean_queue_s", Mean(queue)},
              {"makespan_s", Seconds(result.makespan)},
              {"mean_slowdown", Mean(slowdown)},
              {"busy", Seconds(result.busy) / std::max(1e-9, Seconds(result.makespan) * devices)},
              {"turns", result.turns},
              {"moved", result.moved},
              {"peak", result.peak}};
  if (each) report["ends"] = std::move(ends);
  return report;
}

int SimulateMain(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--help") return std::fputs(kHelp, stdout) < 0;
  }
  auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) return Fail(flags.status(), 2);
  if (const absl::Status cluster = CheckCluster(*flags); !cluster.ok()) return Fail(cluster, 2);
  const auto workload = ReadWorkload(flags->file);
  if (!workload.ok()) return Fail(workload.status(), 1);
  const auto& jobs = workload->jobs;
  if (const absl::Status possible = CheckJobs(jobs, flags->options); !possible.ok()) return Fail(possible, 1);
  const bool packs = std::count(flags->policies.begin(), flags->policies.end(), "pack") > 0;
  if (const absl::Status told = packs ? CheckPairs(*workload) : absl::OkStatus(); !told.ok())
    return Fail(told, 1);
  flags->options.pairs = workload->pairs;
  Json policies = Json::object();
  for (const std::string& policy : flags->policies) {
    flags->options.policy = policy;
    const SimulationOptions& options = flags->options;
    const auto result = options.nodes > 0 ? SimulateCluster(jobs, options) : Simulate(jobs, options);
    if (!result.trouble.empty())
      return Fail(absl::UnavailableError(absl::StrCat("the policy ", PolicyTitle(policy),
                                                      " has failed: ", result.trouble,
                                                      ". Correct it; `hocket policy FILE` tries it, too.")),
                  1);
    policies[PolicyTitle(policy)] = Report(result, options.devices * std::max(1, options.nodes), flags->each);
  }
  const Json answer{
      {"simulated", true}, {"options", OptionsJson(flags->options)}, {"policies", std::move(policies)}};
  const std::string text = answer.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  return std::fputs(text.c_str(), stdout) < 0;
}

}  // namespace hocket::coordinator
