// A policy that its user has written: a program of its own that the daemon asks. README.md in this folder
// says what is asked and answered; python/hocket_policy.py is its other side for policies in Python.
//
//   Core -> OwnPolicy -> line on a socket -> the user's program
//                 \----> Fair, which is told everything, too
//
// Nothing that the program does can harm the daemon: it is a process of its own, and the first time that it
// ends, does not answer in time or answers nonsense it is killed, and from then on fair decides, which knows
// what everybody has had. Until it has said that it is ready, fair decides as well.
//
// The daemon waits for an answer, for kPatience at most and, of a program that does not answer, once.
#ifndef HOCKET_COORDINATOR_OWN_OWN_POLICY_H_
#define HOCKET_COORDINATOR_OWN_OWN_POLICY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/own/line_process.h"
#include "coordinator/policies/fair.h"
#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

// The name of an own policy is its command: the path of a program and its arguments, separated by tabs.
bool IsOwnPolicy(const std::string& name);
// kInvalidArgument: the program does not exist or may not be run.
absl::Status CheckOwnPolicy(const std::string& name);

class OwnPolicy final : public Policy {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Starts the program. `say` is told, in a sentence, when it takes over and when it has failed.
  OwnPolicy(const std::string& name, std::function<void(const std::string&)> say,
            absl::Duration patience = kPatience);

  std::vector<JobView> Order(std::vector<JobView> waiting) const override;
  bool Before(const JobView& a, const JobView& b) const override;
  std::string Reason(const JobView& next) const override;
  std::string Standing(const JobView& job) const override;
  absl::Duration Keep(const JobView& holder, absl::Duration held, const GpuView& gpu) const override;
  void Asked(const JobView& job) override;
  void Granted(const JobView& job) override;
  void Charge(const JobView& job, absl::Duration device_time, bool contended) override;
  void Forget(EntityId job) override;
  // Also of a program that nobody has asked yet: what it has said by itself is heard.
  std::string Trouble() const override;

 private:
  // Questions change nothing that the core knows of, so they are const; the conversation goes on in them.
  bool Decides() const;
  void Tell(const std::string& line, absl::Duration patience = absl::ZeroDuration()) const;
  // The answer to `question`; none: the program has failed, now or before, or is not ready.
  std::optional<std::string> Ask(const std::string& question) const;
  void Fail(const std::string& why) const;

  const std::string title_;
  const std::function<void(const std::string&)> say_;
  const absl::Duration patience_;
  Fair fair_;
  mutable std::unique_ptr<LineProcess> program_;  // none: it has failed
  mutable bool ready_ = false;
  mutable bool keeps_ = false;   // it wants to be asked how long a holder goes on
  mutable std::string trouble_;  // why it has failed
  mutable std::string reason_;   // of its last order
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_OWN_OWN_POLICY_H_
