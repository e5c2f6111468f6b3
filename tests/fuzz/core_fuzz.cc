// Jobs that say anything to the coordinator's core, in any order: what is refused changes nothing, what is
// taken keeps every invariant, and what the core says can be sent.
//
// The input is a list of moves; a byte says whose and which (Move), what follows is read by it. Messages come
// as frames and pass the same checks as in the server.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/policies/registry.h"
#include "coordinator/server/admission.h"
#include "csrc/base/check.h"
#include "csrc/wire/codec.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/moves.h"

namespace hocket::fuzz {
namespace {

using namespace coordinator;

constexpr int kMostMoves = 200;

class Node {
 public:
  explicit Node(Input& input)
      : input_(input),
        core_({.policy = PolicyNamed(input.Byte()),
               .overdue_go_on = input.Byte() % 2 == 1,
               .runtime_dir = "/run"}) {}

  void Play() {
    for (int move = 0; move < kMostMoves && !input_.ended(); ++move) {
      const uint8_t byte = input_.Byte();
      Take(static_cast<Move>(byte & 0x0f), byte >> 4);
    }
    for (const auto& [id, job] : core_.state().jobs) (void)core_.Explain(id);
  }

 private:
  static std::string PolicyNamed(uint8_t byte) {
    const auto& policies = AllPolicies();
    return policies[byte % policies.size()].name;
  }

  void Take(Move move, int slot) {
    switch (move) {
      case Move::kFrame:
        return Hear(slot, input_.Text());
      case Move::kGoodFrame:
        return Hear(slot, WithGoodHeader(input_.Text()));
      case Move::kDies:
        return End(slot, JobDied{});
      case Move::kHangsUp:
        return End(slot, JobHungUp{});
      case Move::kTime:
        now_ += absl::Milliseconds(input_.Short());
        return Apply(0, Tick{});
      case Move::kLongTime:
        now_ += absl::Seconds(input_.Short());
        return Apply(0, Tick{});
      case Move::kReads:
        answers_ = input_.Byte();
        return;
      case Move::kPeople:
        return People(slot);
      case Move::kRestarts:
        // Only the first event may be one.
        if (!begun_) Restart();
        return;
      case Move::kPage:
        page_steps_ = input_.Short();
        return;
      case Move::kCount:
        return;
    }
  }

  void Restart() {
    Restarted restarted;
    restarted.expected[1] = {.pid = 1, .locks = {"/run/lane-gpu0-0.lock"}};
    restarted.expected[2] = restarted.expected[input_.Byte()] = {};
    Apply(0, std::move(restarted));
  }

  double Share() { return (1 + input_.Byte() % 100) / 100.0; }

  // What people set, as commands.cc lets them.
  void People(int slot) {
    const JobId job = JobAt(slot);
    const uint8_t what = input_.Byte();
    if (what >= 16 || job == 0) return SetForAll(what);
    const Job& known = core_.state().jobs.at(job);
    const Bytes bytes = Bytes{input_.Byte()} << 20;
    switch (what % 7) {
      case 0:
        return Apply(job, SetPaused{input_.Byte() % 2 == 1});
      case 1:
        return Apply(job, SetShare{1.0 + input_.Byte(), input_.Byte() % 2 ? "high" : "low", input_.Short()});
      case 2:
        return Apply(job, SetTimeCap{Share()});
      case 3:
        return Apply(job, SetTimeGuarantee{Share()});
      case 4:
        return Apply(job, SetGroup{input_.Byte() % 2 ? "a" : ""});
      default:
        break;
    }
    const Device& device = core_.state().devices.at(known.info.device);
    const MemoryQuota quota{.limit = what % 7 == 5 ? bytes : 0, .guarantee = what % 7 == 6 ? bytes : 0};
    if (!CheckMemoryQuota(known, device, quota, 0).ok()) return;
    Apply(job, SetMemoryLimit{quota.limit});
    Apply(job, SetMemoryGuarantee{quota.guarantee});
  }

  void SetForAll(uint8_t what) {
    switch (what % 7) {
      case 0:
        return Apply(0, SetPolicy{PolicyNamed(input_.Byte())});
      case 1:
        return Apply(0, SetSwitchShare{Share()});
      case 2:
        return Apply(0, SetProductionBound{Share() * 0.9});
      case 3:
        return Apply(0, SetMostTogether{1 + input_.Byte() % 16});
      case 4:
        return Apply(0, SetLinkBound{Share()});
      case 5:
        return Apply(0, SetOverdue{input_.Byte() % 2 == 1});
      default:
        return Apply(0, SetQuota{.of = input_.Byte() % 2 ? Owner::Group("a") : Owner::User(7),
                                 .quota = {.time_cap = Share(), .memory_cap = Bytes{input_.Byte()} << 20}});
    }
  }

  JobId JobAt(int slot) const {
    auto job = connections_.find(slot);
    return job == connections_.end() ? 0 : job->second;
  }

  void Hear(int slot, const std::string& frame) {
    auto decoded = wire::Decode(frame);
    if (!decoded.ok()) return Break(slot);
    if (!*decoded) return;
    wire::Message message = **std::move(decoded);
    const JobId job = JobAt(slot);
    if (auto* join = std::get_if<wire::Join>(&message))
      return job == 0 ? Admit(slot, *std::move(join)) : Break(slot);
    if (job == 0) return;
    if (!CheckSaidByJob(message).ok()) return Break(slot);
    std::visit(
        [&](auto& said) {
          if constexpr (std::is_constructible_v<decltype(Event::what), decltype(said)>)
            Apply(job, std::move(said));
        },
        message);
    BreakRejected();
  }

  void Admit(int slot, wire::Join join) {
    if (!CheckJoin(join).ok()) return;
    join.pid = static_cast<uint64_t>(slot) + 100;
    JobJoins joins{.join = std::move(join), .user = 7};
    for (const auto& [id, job] : core_.state().jobs) {
      if (job.info.pid == joins.join.pid && job.info.device == joins.join.device &&
          (job.gone || (joins.join.rejoin && joins.join.job == id)))
        joins.replaces.push_back(id);
    }
    for (JobId former : joins.replaces)
      std::erase_if(connections_, [&](const auto& c) { return c.second == former; });
    const JobId id = joins.join.job = IdFor(joins);
    processes_.insert_or_assign(id, slot);
    connections_[slot] = id;
    Apply(id, std::move(joins));
    BreakRejected();
  }

  // As Server::IdFor().
  JobId IdFor(const JobJoins& joins) {
    const wire::Join& join = joins.join;
    const bool own =
        std::find(joins.replaces.begin(), joins.replaces.end(), join.job) != joins.replaces.end();
    if (join.rejoin && join.job != 0 && join.job < kMaxJobId &&
        (own || !core_.state().jobs.contains(join.job))) {
      next_job_ = std::max(next_job_, join.job + 1);
      return join.job;
    }
    return next_job_++;
  }

  void Break(int slot) { End(slot, JobHungUp{}); }

  // The process of a job that has hung up may still die.
  template <typename Ending>
  void End(int slot, Ending ending) {
    if (std::is_same_v<Ending, JobDied>) {
      std::set<JobId> jobs;
      for (const auto& [id, process] : processes_) {
        if (process == slot) jobs.insert(id);
      }
      connections_.erase(slot);
      for (JobId id : jobs) {
        processes_.erase(id);
        Apply(id, ending);
      }
      return BreakRejected();
    }
    const JobId job = JobAt(slot);
    connections_.erase(slot);
    if (job != 0) Apply(job, ending);
    BreakRejected();
  }

  // The server closes such a connection once the actions are done.
  void BreakRejected() {
    while (!rejected_.empty()) {
      const JobId job = *rejected_.begin();
      rejected_.erase(rejected_.begin());
      for (auto connection = connections_.begin(); connection != connections_.end(); ++connection) {
        if (connection->second != job) continue;
        connections_.erase(connection);
        Apply(job, JobHungUp{});
        break;
      }
    }
  }

  void Apply(JobId job, decltype(Event::what) what) {
    begun_ = true;
    const auto actions = core_.Handle({.at = now_, .job = job, .what = std::move(what)});
    core_.CheckInvariants();
    for (const Action& action : actions) {
      if (const auto* send = std::get_if<Send>(&action))
        HOCKET_CHECK(wire::Encode(send->message).ok()) << wire::NameOf(send->message) << " cannot be sent";
      if (const auto* reject = std::get_if<Reject>(&action)) {
        HOCKET_CHECK(!reject->reason.empty()) << "rejected without a word";
        rejected_.insert(reject->job);
      }
    }
    // Whether a job has read its Grant it decides itself, and how far it is it says itself.
    for (const Action& action : actions) {
      const auto* back = std::get_if<TakeBack>(&action);
      if (back != nullptr && Answer()) Apply(back->job, GrantTakenBack{back->wait});
    }
    for (const Action& action : actions) {
      const auto* look = std::get_if<LookAt>(&action);
      if (look != nullptr)
        Apply(look->job, StepsSeen{page_steps_, page_steps_ ? now_ : absl::InfinitePast()});
    }
  }

  bool Answer() {
    answers_ = static_cast<uint8_t>(answers_ << 1 | answers_ >> 7);
    return answers_ & 1;
  }

  Input& input_;
  Core core_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::map<int, JobId> connections_;  // by slot
  std::map<JobId, int> processes_;    // their slots; until they have died
  std::set<JobId> rejected_;
  JobId next_job_ = 1;
  uint8_t answers_ = 0;
  std::uint64_t page_steps_ = 0;
  bool begun_ = false;
};

}  // namespace
}  // namespace hocket::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::fuzz::Input input(data, size);
  hocket::fuzz::Node(input).Play();
  return 0;
}
