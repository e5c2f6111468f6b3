// What is let through at the door leaves the core sound, whatever numbers and texts it is made of.
#include "coordinator/server/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "coordinator/core/core.h"
#include "coordinator/policies/registry.h"
#include "tests/wire/random_message.h"

namespace hocket::coordinator {
namespace {

// Fields at the ends of their ranges, and beyond. Texts stay as they are where `with_texts` is false.
class EdgeFields {
 public:
  explicit EdgeFields(std::mt19937_64& random, bool with_texts = true)
      : random_(random), with_texts_(with_texts) {}
  void operator()(uint16_t, uint64_t& value) {
    constexpr uint64_t kEdges[] = {0,
                                   1,
                                   2,
                                   3,
                                   100,
                                   std::numeric_limits<int32_t>::max(),
                                   (uint64_t{1} << 50) - 1,
                                   (uint64_t{1} << 62) - 1,
                                   uint64_t{1} << 63,
                                   std::numeric_limits<uint64_t>::max() - 1,
                                   std::numeric_limits<uint64_t>::max()};
    value = kEdges[random_() % std::size(kEdges)];
  }
  void operator()(uint16_t, double& value) { value = 1; }
  void operator()(uint16_t, bool& value) { value = random_() % 2 == 1; }
  void operator()(uint16_t, std::string& value) {
    static const std::string texts[] = {"", "g", "h", "a\nb", "\xc2\x9b", std::string(5000, 'x')};
    const std::string& text = texts[random_() % std::size(texts)];
    if (with_texts_) value = text;
  }

 private:
  std::mt19937_64& random_;
  const bool with_texts_;
};

// Everybody at the same time.
class TogetherPolicy final : public Policy {
 public:
  bool Before(const JobView& a, const JobView& b) const override { return a.asked < b.asked; }
  std::string Reason(const JobView&) const override { return "is next"; }
  bool RunsSeveral() const override { return true; }
  bool Together(const std::vector<JobView>&) const override { return true; }
};

std::unique_ptr<Policy> Make(const std::string& name) {
  return name == "together" ? std::make_unique<TogetherPolicy>() : *MakePolicy(name);
}

class Node {
 public:
  explicit Node(std::uint64_t seed)
      : random_(seed), core_({.policy = "fair", .runtime_dir = "/run/test", .make_policy = Make}) {}

  // Whatever peers may do next; how many of the messages got through is counted.
  void Goes() {
    if (jobs_.size() < 4 || random_() % 50 == 0) return Joins();
    const size_t who = random_() % jobs_.size();
    if (random_() % 50 == 0) {
      Handle(jobs_[who], JobDied{});
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(who));
      return;
    }
    if (random_() % 10 == 0) return Handle(0, Tick{});
    if (random_() % 10 == 0) return PeopleSet(jobs_[who]);
    std::vector<wire::Message> messages = wire::OneOfEach(random_);
    wire::Message& message = messages[random_() % messages.size()];
    EdgeFields edges(random_);
    std::visit([&](auto& m) { m.VisitFields(edges); }, message);
    if (!CheckSaidByJob(message).ok()) return;
    ++let_through_;
    std::visit(
        [&](auto& m) {
          if constexpr (std::is_constructible_v<decltype(Event::what), decltype(m)>)
            Handle(jobs_[who], std::move(m));
        },
        message);
  }

  int let_through() const { return let_through_; }

 private:
  void Joins() {
    wire::Join join;
    do {
      EdgeFields edges(random_, /*with_texts=*/false);
      join.VisitFields(edges);
      join.device = random_() % 2 == 0 ? "gpu0" : "gpu1";
      join.priority = "low";
    } while (!CheckJoin(join).ok());
    join.job = next_++;
    jobs_.push_back(join.job);
    Handle(join.job, JobJoins{.join = join});
  }

  void PeopleSet(JobId job) {
    constexpr double kCaps[] = {0, 1e-6, 0.1, 0.5, 1};
    switch (random_() % 6) {
      case 0:
        return Handle(job, SetTimeCap{kCaps[random_() % std::size(kCaps)]});
      case 1:
        return Handle(job, SetPaused{random_() % 2 == 0});
      case 2:
        return Handle(job, SetMemoryGuarantee{random_() % (uint64_t{1} << 50)});
      case 3:
        return Handle(0, SetOverdue{random_() % 2 == 0});
      case 4:
        return Handle(0, SetPolicy{"together"});
      default:
        return Handle(0, SetPolicy{AllPolicies()[random_() % AllPolicies().size()].name});
    }
  }

  void Handle(JobId job, decltype(Event::what) what) {
    now_ += absl::Milliseconds(random_() % 300);
    const std::vector<Action> actions = core_.Handle({.at = now_, .job = job, .what = std::move(what)});
    core_.CheckInvariants();
    for (const Action& action : actions) {
      if (auto* look = std::get_if<LookAt>(&action))
        Handle(look->job,
               StepsSeen{.steps = random_() % 100, .at = now_ - absl::Milliseconds(random_() % 300)});
    }
    for (const auto& [key, device] : core_.state().devices) ASSERT_LE(core_.Free(device), device.capacity);
  }

  std::mt19937_64 random_;
  Core core_;
  std::vector<JobId> jobs_;
  JobId next_ = 1;
  absl::Time now_ = absl::UnixEpoch();
  int let_through_ = 0;
};

TEST(AdmissionFuzzTest, WhatIsLetThroughLeavesTheCoreSound) {
  int let_through = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Node node(seed);
    for (int i = 0; i < 1000; ++i) node.Goes();
    let_through += node.let_through();
  }
  EXPECT_GT(let_through, 1000);
}

}  // namespace
}  // namespace hocket::coordinator
