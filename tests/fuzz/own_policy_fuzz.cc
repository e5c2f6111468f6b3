// A policy of the user's own that answers anything: the core goes on, with fair where the answers are
// nonsense. The program's lines are the input's; LineProcess is replaced by one that says them (a link seam,
// so nothing is started).
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/own/line_process.h"
#include "coordinator/own/own_policy.h"
#include "csrc/base/check.h"

namespace hocket::coordinator {
namespace {

std::string said;  // what the program has not said yet

}  // namespace

absl::StatusOr<std::unique_ptr<LineProcess>> LineProcess::Start(const std::vector<std::string>& command) {
  return std::unique_ptr<LineProcess>(new LineProcess(UniqueFd(), 1));
}
LineProcess::~LineProcess() = default;
absl::Status LineProcess::Send(const std::string& line, absl::Duration patience) { return absl::OkStatus(); }
absl::StatusOr<std::string> LineProcess::Receive(absl::Duration patience) {
  if (said.empty()) return absl::UnavailableError("it has ended");
  const size_t end = said.find('\n');
  std::string line = said.substr(0, end);
  said.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

namespace {

void Hear(const std::string& sentence) { HOCKET_CHECK(!sentence.empty()) << "nothing is said"; }

class Node {
 public:
  Node()
      : core_({.policy = "/own", .runtime_dir = "/run", .make_policy = [this](const std::string& name) {
                 return std::make_unique<OwnPolicy>(
                     name, OwnPolicyOptions{.say = Hear, .now = [this] { return now_; }});
               }}) {}

  void Play() {
    for (JobId job = 1; job <= 3; ++job)
      Apply(job,
            JobJoins{.join = {.name = absl::StrCat("j", job), .device = "gpu", .capacity = 100, .job = job}});
    for (int round = 0; round < 16; ++round) {  // in which it is tried again, too
      for (JobId job = 1; job <= 3; ++job) {
        if (core_.state().jobs.at(job).turn == 0) Apply(job, wire::Wait{.number = ++waits_});
      }
      now_ += absl::Milliseconds(200);
      Apply(0, Tick{});
      for (JobId job = 1; job <= 3; ++job) {
        (void)core_.Explain(job);
        const TurnNumber turn = core_.state().jobs.at(job).turn;
        if (turn != 0) Apply(job, wire::TurnOver{.turn = turn, .steps = ++steps_, .turn_steps = 1});
      }
    }
    HOCKET_CHECK(steps_ >= 4) << "nobody had a turn";
  }

 private:
  void Apply(JobId job, decltype(Event::what) what) {
    core_.Handle({.at = now_, .job = job, .what = std::move(what)});
    core_.CheckInvariants();
  }

  Core core_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::uint64_t waits_ = 0, steps_ = 0;
};

}  // namespace
}  // namespace hocket::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::coordinator::said.assign(reinterpret_cast<const char*>(data), size);
  hocket::coordinator::Node().Play();
  return 0;
}
