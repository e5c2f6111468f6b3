// What is simulated: jobs with their arrivals and sizes, read from a file.
//
// Two kinds of file: CSV, whose first line names the columns; and JSON, {"jobs": [{...}]} with the same names
// as keys, which is what `hocket trace` writes. Known columns, in any order, all but steps optional:
//
//   name, arrival_s, steps, step_ms (device time; several values with blanks between them are the times of
//   one step after the other, over and over), gap_ms (host time between two steps), away (1: the job waits
//   for data then, and gives its turn at once to one who asks; 0: its own thread works, and Hocket waits for
//   the idle limit; default 1), startup_s (host time before the first step), persistent (bytes), user (uid),
//   weight, priority, told_steps (how many the policy is told that there will be; 0: nothing; default: the
//   truth), devices (how many it needs at once; more than one only on a cluster), kind (what it is, for
//   "pairs"), transient (bytes that it needs in its turns only: they decide who fits beside whom)
//
// Of JSON nothing is read from "turns" on, if "jobs" came before: a recorded day has millions of them. The
// JSON may have "pairs" beside "jobs": {kind: {other kind: share}}, what a job of the first kind runs at
// beside one of the second, as a share of its speed alone. 0, both ways: they do not fit beside each other.
#ifndef HOCKET_COORDINATOR_SIMULATOR_WORKLOAD_H_
#define HOCKET_COORDINATOR_SIMULATOR_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "csrc/base/bytes.h"

namespace hocket::coordinator {

struct SimulatedJob {
  std::string name;
  double arrival_s = 0;
  std::uint64_t steps = 1;
  double step_ms = 100;                // of a series, the mean
  std::vector<double> step_series_ms;  // empty: all steps alike
  double gap_ms = 0;
  bool away = true;
  double startup_s = 0;
  Bytes persistent = 0;
  unsigned user = 0;
  double weight = 1;
  std::string priority = "normal";
  std::optional<std::uint64_t> told_steps;
  int devices = 1;
  std::string kind;
  Bytes transient = 0;

  std::uint64_t told() const { return told_steps.value_or(steps); }
};

// pairs[a][b]: what a job of kind a runs at beside one of kind b, as a share of its speed alone.
using Pairs = std::map<std::string, std::map<std::string, double>>;

struct Workload {
  std::vector<SimulatedJob> jobs;  // in the order of arrival
  Pairs pairs;
};

// kInvalidArgument names line (or entry), column and value of what is wrong; an unknown column is an error
// too, and so is a job that arrives after, starts up for, or takes more than a hundred years. A byte order
// mark at the begin is passed over. Never crashes, whatever the text.
absl::StatusOr<Workload> ParseWorkload(const std::string& text);

// The same from a file; kNotFound when it cannot be read.
absl::StatusOr<Workload> ReadWorkload(const std::string& path);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SIMULATOR_WORKLOAD_H_
