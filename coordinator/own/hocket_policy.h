// A policy of your own in C++, for `hocket policy ./mine.cc`: it says who gets the GPU next.
//
//   #include "hocket_policy.h"
//
//   struct ShortStepsFirst : hocket_policy::Policy {
//     bool Before(const hocket_policy::Job& a, const hocket_policy::Job& b) override {
//       return a.step.value_or(0) < b.step.value_or(0);
//     }
//   };
//   HOCKET_POLICY(ShortStepsFirst)
//
// Before() is all that is needed. The other methods say more, or keep an account; their defaults do nothing.
// The program runs in a process of its own; the coordinator asks it over its standard input and output (the
// README beside this file has the lines), so it prints to standard error. An exception, an answer that takes
// longer than 1 s or the end of the process hands the decisions to `fair`, which `hocket status` says; it is
// started again after a pause, and then told Asked() of those who wait.
//
// Only this header is needed, and nlohmann's JSON (Debian: nlohmann-json3-dev). C++17. One thread.
#ifndef HOCKET_COORDINATOR_OWN_HOCKET_POLICY_H_
#define HOCKET_COORDINATOR_OWN_HOCKET_POLICY_H_

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace hocket_policy {

// What is known of a job, or of all ranks of one program. Times are in seconds; none: not known, or not.
struct Job {
  std::uint64_t id = 0;
  unsigned user = 0;  // uid
  double weight = 1;
  double user_weight = 1;         // of all its user's jobs
  std::string priority;           // "high", "normal" or "low"
  std::optional<double> waits;    // for so long
  std::optional<double> away;     // since the end of its last turn
  double served = 0;              // device time it has had
  std::uint64_t steps = 0;        // completed
  std::uint64_t total_steps = 0;  // 0: not known
  std::optional<double> step;     // usual time of a step
  std::optional<double> gap;      // usual time from the end of its turn until it asks again
};

// Derive from this. The coordinator makes one for each GPU.
class Policy {
 public:
  virtual ~Policy() = default;

  // Whether `a` gets its turn before `b`: a strict weak order. Where neither is before the other, the earlier
  // asker is.
  virtual bool Before(const Job& a, const Job& b) = 0;
  // Why `first` is next, for `hocket explain`.
  virtual std::string Reason(const Job&) { return ""; }
  // Whether it wants to be asked Keep(), which costs each hand-over its time.
  virtual bool Keeps() const { return false; }
  // For how many seconds more `holder` goes on, which has had the turn for `held` while others wait.
  virtual double Keep(const Job& /*holder*/, double /*held*/, const std::vector<Job>& /*waiting*/) {
    return 0;
  }
  // It begins to wait.
  virtual void Asked(const Job&) {}
  // It gets the turn.
  virtual void Granted(const Job&) {}
  // It has had the turn for `seconds` more; `contended`: somebody waited meanwhile.
  virtual void Charge(const Job&, double /*seconds*/, bool /*contended*/) {}
  // The job with this id has left.
  virtual void Forget(std::uint64_t) {}
};

namespace internal {

using Json = nlohmann::json;

inline std::optional<double> Known(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

inline Job ReadJob(const Json& job) {
  Job read;
  read.id = job.at("id");
  read.user = job.at("user");
  read.weight = job.at("weight");
  read.user_weight = job.at("user_weight");
  read.priority = job.at("priority");
  read.waits = Known(job.at("waits"));
  read.away = Known(job.at("away"));
  read.served = job.at("served");
  read.steps = job.at("steps");
  read.total_steps = job.at("total_steps");
  read.step = Known(job.at("step"));
  read.gap = Known(job.at("gap"));
  return read;
}

inline std::vector<Job> ReadJobs(const Json& jobs) {
  std::vector<Job> read;
  for (const Json& job : jobs) read.push_back(ReadJob(job));
  return read;
}

inline Json Answer(Policy& policy, const Json& question) {
  std::vector<Job> jobs = ReadJobs(question.at("jobs"));
  if (question.at("ask") == "keep")
    return {{"seconds", policy.Keep(ReadJob(question.at("holder")), question.at("held"), jobs)}};
  std::stable_sort(jobs.begin(), jobs.end(), [&](const Job& a, const Job& b) { return policy.Before(a, b); });
  Json order = Json::array();
  for (const Job& job : jobs) order.push_back(job.id);
  return {{"order", order}, {"reason", jobs.empty() ? "" : policy.Reason(jobs.front())}};
}

inline void Tell(Policy& policy, const Json& line) {
  const std::string what = line.at("tell");
  if (what == "forget") policy.Forget(line.at("id"));
  if (what == "asked") policy.Asked(ReadJob(line.at("job")));
  if (what == "granted") policy.Granted(ReadJob(line.at("job")));
  if (what == "charge") policy.Charge(ReadJob(line.at("job")), line.at("seconds"), line.at("contended"));
}

}  // namespace internal

// Answers line for line until the coordinator ends. What main() returns.
inline int Serve(Policy& policy) {
  const auto say = [](const internal::Json& what) { std::cout << what.dump() << std::endl; };
  try {
    say({{"hocket_policy", 1}, {"keeps", policy.Keeps()}});
    for (std::string text; std::getline(std::cin, text);) {
      const auto line = internal::Json::parse(text);
      if (line.contains("ask"))
        say(internal::Answer(policy, line));
      else
        internal::Tell(policy, line);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    say({{"error", error.what()}});
    return 1;
  }
  return 0;
}

}  // namespace hocket_policy

#define HOCKET_POLICY(Type)              \
  int main() {                           \
    Type policy;                         \
    return hocket_policy::Serve(policy); \
  }

#endif  // HOCKET_COORDINATOR_OWN_HOCKET_POLICY_H_
