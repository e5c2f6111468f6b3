// A policy that its user has written: a program of its own that the daemon asks. README.md in this folder
// says what is asked and answered; python/hocket_policy.py is its other side for policies in Python.
//
//   Core -> OwnPolicy -> line on a socket -> the user's program
//                 \----> Fair, which is told everything, too
//
// Nothing that the program does can harm the daemon: it is a process of its own, and when it ends, does not
// answer in time or answers nonsense it is killed, and fair decides, which knows what everybody has had.
// After a pause it is tried again:
//
//                       says that it is ready, at first
//             +-----------------------------------------------+
//             |                                               v
//   start -> starts --------> is tried ------------------> decides
//             ^    is ready,     |    answers a choice        |
//             |    after that    |    that fair makes         | fails
//             |                  v fails                      |
//             +-- 1 s, 2 s, 4 s, ... later -- pauses <--------+
//
// The pauses grow to kLongestPause, and begin anew once it has decided for kServesWell. Nobody waits for it
// while it starts and while it is tried. When it decides, the daemon waits for an answer, for the patience it
// is given at most and, of a program that does not answer, once in a pause.
//
// What it was told before is gone with a process. The next one is told who waits, before anything else.
//
// The same question is asked once in a moment, as long as nothing is told meanwhile: the core, which looks at
// the time of a turn's end several times in an event, is not to hear one thing and then another.
#ifndef HOCKET_COORDINATOR_OWN_OWN_POLICY_H_
#define HOCKET_COORDINATOR_OWN_OWN_POLICY_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/own/line_process.h"
#include "coordinator/policies/fair.h"
#include "coordinator/policies/policy.h"
#include "csrc/base/steady.h"

namespace hocket::coordinator {

// The name of an own policy is its command: the path of a program and its arguments, separated by tabs.
bool IsOwnPolicy(const std::string& name);
// kInvalidArgument: the program does not exist or may not be run.
absl::Status CheckOwnPolicy(const std::string& name);

struct OwnPolicyOptions {
  // Told, in a sentence, when it takes over and when it has failed.
  std::function<void(const std::string&)> say = [](const std::string&) {};
  absl::Duration patience = absl::Seconds(1);  // for an answer
  std::function<absl::Time()> now = SteadyNow;
  // Where this is set, one that has failed is not tried again: this is told why, and nobody else.
  std::function<void(const std::string& why)> give_up = nullptr;
};

class OwnPolicy final : public Policy {
 public:
  static constexpr absl::Duration kFirstPause = absl::Seconds(1);
  static constexpr absl::Duration kLongestPause = absl::Minutes(5);
  static constexpr absl::Duration kServesWell = absl::Minutes(1);
  static constexpr absl::Duration kMostToStart = absl::Minutes(1);  // or its patience, where that is more

  // Starts the program.
  OwnPolicy(const std::string& name, OwnPolicyOptions options);

  // Waits until it decides or has failed: where no daemon stands still meanwhile.
  void Await(absl::Duration patience) const;

  std::vector<JobView> Order(std::vector<JobView> waiting) const override;
  bool Before(const JobView& a, const JobView& b) const override;
  std::string Reason(const JobView& next) const override;
  std::string Standing(const JobView& job) const override;
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override;
  void Asked(const JobView& job) override;
  void Granted(const JobView& job) override;
  void Charge(const JobView& job, absl::Duration device_time, bool contended) override;
  void Forget(EntityId job) override;
  // Why it has failed, and when it is tried again. Also of a program that nobody has asked yet: what it has
  // said by itself is heard, and where its pause is over it is started.
  std::string Trouble() const override;

 private:
  enum class Stage { kPauses, kStarts, kIsTried, kDecides };

  // Questions change nothing that the core knows of, so they are const; the conversation goes on in them.
  void Start() const;
  bool Decides() const;
  void HearReady(absl::Duration patience) const;
  void HearTrial() const;
  void HearUnasked() const;
  // Where it is tried, and has no question yet: fair makes this choice.
  void Try(const std::vector<JobView>& waiting) const;
  void TakeOver() const;
  void Tell(const std::string& line);
  void Send(const std::string& line, absl::Duration patience = absl::ZeroDuration()) const;
  // The answer to `question` at `now`; none: it does not decide, or has failed now.
  std::optional<std::string> Ask(absl::Time now, const std::string& question) const;
  // `cost`: for so long the daemon has waited for it.
  void Fail(const std::string& why, absl::Duration cost = absl::ZeroDuration()) const;
  std::string WhenAgain() const;

  const std::string name_;
  const std::string title_;
  const OwnPolicyOptions options_;
  Fair fair_;
  std::map<EntityId, JobView> waiting_;  // as they were when they began to
  absl::Time told_;                      // when we were told of a job last
  mutable Stage stage_ = Stage::kStarts;
  mutable absl::Time since_;      // it is in this stage; kIsTried: it has been asked
  mutable absl::Duration pause_;  // the last one; zero: it has not failed, or has served well since
  mutable std::unique_ptr<LineProcess> program_;        // none: kPauses
  mutable std::vector<JobView> tried_on_;               // kIsTried: it has been asked for their order
  mutable absl::Time asked_;                            // of this moment are
  mutable std::map<std::string, std::string> answers_;  // to what it was asked since it was told something
  mutable bool keeps_ = false;                          // it wants to be asked how long a holder goes on
  mutable std::string trouble_;                         // why it has failed; empty once it decides
  mutable std::string reason_;                          // of its last order
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_OWN_OWN_POLICY_H_
