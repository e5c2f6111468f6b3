// The daemon: sockets, processes and the clock around the core.
//
//   epoll: listener, sessions, a pidfd per job, one timer, one eventfd to stop
//
// Whatever a peer does (garbage, silence, a flood, sudden death), only its own connection ends. Every
// message is one event for the core; the core's actions are done at once, in order. Descriptors are passed on
// and none is kept.
//
// With `system` it serves all users of the machine (rights.h says who may do what); a job's lane, its name,
// its gang and its group are then its user's, and the lane's lock lies in a folder that only he can open:
// <runtime dir>/users/<uid>.
//
// Run() and everything it calls use one thread. Stop() may be called from any thread and from a signal
// handler.
#ifndef HOCKET_COORDINATOR_SERVER_SERVER_H_
#define HOCKET_COORDINATOR_SERVER_SERVER_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/core.h"
#include "coordinator/own/own_policy.h"
#include "coordinator/recording/recorder.h"
#include "coordinator/server/endpoint.h"
#include "coordinator/server/history.h"
#include "coordinator/server/log.h"
#include "coordinator/server/needs.h"
#include "coordinator/server/rights.h"
#include "coordinator/server/session.h"
#include "coordinator/server/state_files.h"
#include "csrc/base/unique_fd.h"
#include "csrc/wire/shared_page.h"
#include "csrc/wire/sign.h"

namespace hocket::coordinator {

struct ServerOptions {
  std::string runtime_dir;             // exists
  std::string state_dir;               // the same; for what people set. May be the runtime folder
  std::string read_only_state_dir;     // of settings that hold until others are made; empty: none
  std::string policy;                  // a known one; empty: as people set it last
  double switch_share = 0;             // up to 1; 0: as people set it last
  std::string first_policy = "fair";   // until people set one, if `policy` is empty
  std::string first_overdue = "wait";  // likewise: "wait" or "go-on"
  double first_switch_share = 0.02;    // likewise
  double first_link_bound = 0.02;      // likewise
  absl::Duration policy_patience =
      OwnPolicyOptions().patience;           // for each answer of a policy of the user's own
  absl::Duration grace = absl::Seconds(30);  // without a job; infinite: until stopped
  absl::Duration mute = absl::Seconds(10);   // a connection that has said nothing for so long is closed
  Bytes history_size = 256_MiB;              // on disk, in <runtime_dir>/history; 0: none
  absl::Duration history_keep = absl::Hours(24 * 7);
  bool system = false;  // serves all users; the daemon may give files away (root)
  std::string version;
};

class Server {
 public:
  static constexpr size_t kMaxRecords = 10'000;

  // `log` is borrowed and must outlive the server. Errors as for Endpoint::Open().
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options, Logger& log);
  ~Server();

  // Serves until Stop(), or until nobody has taken part for the grace period.
  absl::Status Run();
  void Stop();

  // For commands (commands.cc).
  Core& core() { return core_; }
  const History& history() const { return history_; }
  // null: only memory has any.
  Recorder* recorder() { return recorder_.get(); }
  // Writes down what is known of each job now.
  void RecordJobs();
  const ServerOptions& options() const { return options_; }
  std::uint64_t epoch() const { return epoch_; }
  absl::Duration uptime() const { return Now() - started_; }
  // CLOCK_MONOTONIC, as in the events.
  absl::Time Now() const;
  // Jobs that have ended, the last kMaxRecords, as RecordOf() (status.h) describes them.
  const std::deque<nlohmann::json>& ended() const { return ended_; }
  // What stands in the job's shared page; none without one.
  std::optional<wire::PageValues> PageOf(JobId job) const;
  // The steps it has done, by that page.
  std::uint64_t StepsDone(JobId job) const;
  // WhySilent() of a job that has a turn (empty for others); the first time in a turn it goes to the log.
  std::string Silence(JobId job);
  // Hands an event of people's making to the core. What they set is remembered beyond a restart.
  void Apply(JobId job, decltype(Event::what) what);
  void Set(JobId job, decltype(Event::what) what);
  void Set(const SetPolicy& policy);
  void Set(const SetSwitchShare& share);
  void Set(const SetLinkBound& bound);
  void Set(const SetProductionBound& bound);
  void Set(const SetMostTogether& together);
  void Set(const SetOverdue& overdue);
  void Set(const SetQuota& quota);
  void StopSoon() { stopping_ = true; }
  // By somebody who wants it to end, and not to be waited for.
  void StopForGood();
  std::vector<NamedJob> NamedJobs() const;

 private:
  // What is kept of a job beside the core's view, until its process is dead.
  struct Process {
    UniqueFd pidfd;
    std::optional<wire::SharedPageView> page;
    int session = -1;           // -1: hung up
    std::uint64_t program = 0;  // ProgramKey()
  };

  struct Former {
    JobId id = 0;
    UniqueFd pidfd;
  };

  Server(const ServerOptions& options, Logger& log, Endpoint endpoint, std::uint64_t epoch);

  std::unique_ptr<Policy> MakePolicyNamed(const std::string& name);
  absl::Status Watch(int fd, uint32_t events);
  void Dispatch(int fd, uint32_t events);
  void RetryStalled();
  void Accept();
  void TurnAwayWithSpare();
  void Read(int fd);
  void Received(int fd, wire::Received received);
  Asker AskerAt(const Session& session) const;
  std::string LockFolder(unsigned user) const;
  absl::Status MakeLockFolder(unsigned user);
  absl::Status CheckJobCount(const Session& session) const;
  void Admit(int fd, wire::Join join, UniqueFd page);
  void Refuse(int fd, const std::string& reason);
  void Close(int fd, const std::string& why);
  void ProcessEnded(JobId job);
  static constexpr int kMostUnread = 512;  // messages in a socket
  void HearOut(JobId job);
  bool HearOne(JobId job);
  void Forget(JobId job);
  std::vector<JobId> FormerJobs(const JobJoins& joins) const;
  JobId IdFor(const wire::Join& join, const std::vector<JobId>& former);
  void TakeUpSettings(JobJoins& joins) const;
  void ShowSigns();
  void Remember(JobId job);
  void LearnNeed(const Job& job);
  void RememberTime(JobId job);
  void RememberSettings();
  void AnswerCommand(int fd, const wire::Command& command);

  void Apply(JobId job, decltype(Event::what) what, const UniqueFd& descriptor);
  void Do(JobId from, const Send& action, const UniqueFd& descriptor);
  void Do(const Send&) {}  // before all others
  void Do(const SetTimer& action);
  void ArmTimer();
  void TimeIsUp();
  // Event::due of what is heard now: just before the core wanted to be woken, while that is still to come.
  absl::Time Due() const;
  void Do(const TakeBack&) {}  // Apply() does it, last
  void Do(const LookAt&) {}    // the same
  bool TakeBackGrant(const TakeBack& action);
  StepsSeen StepsOf(JobId job) const;
  void Do(const Reject& action);
  void Do(const Log& action);
  void Do(TurnEnded turn);
  void Do(const SpillEnded& action);
  void SendOn(int fd, const wire::Message& message, const UniqueFd& descriptor);
  void CloseBroken();

  static constexpr absl::Duration kStall = absl::Milliseconds(10);
  int TimeoutMs() const;
  void LookForSilence();
  void CloseMute();
  bool Idle() const;
  void ExpectFormerJobs();
  using HeldIn = std::map<std::string, std::map<int, std::vector<std::string>>>;  // HeldLocks() of a folder
  std::vector<std::string> LocksOf(int pid, HeldIn& known) const;
  void AwaitEnd(const JobFile& former);
  std::string WhoKeepsUs() const;
  void RecordJob(const Job& job);
  static LogSubject About(const Job& job, const std::string& event);

  const ServerOptions options_;
  Logger& log_;
  Endpoint endpoint_;
  const std::uint64_t epoch_;
  const absl::Time started_;
  const size_t most_sessions_;  // and as many jobs, whether they are connected or not: each has a descriptor
  StateFiles files_;
  Needs needs_;
  Settings settings_;  // as people have set them, this daemon's or one before
  Core core_;
  History history_;
  std::unique_ptr<Recorder> recorder_;
  std::deque<nlohmann::json> ended_;
  UniqueFd epoll_;
  UniqueFd timer_;
  absl::Time deadline_ = absl::InfiniteFuture();  // when the core wants to be woken
  absl::Time armed_ = absl::InfiniteFuture();     // when timer_ fires; never after deadline_
  absl::Duration late_;                           // so long we have run since deadline_
  UniqueFd stop_;
  wire::Signs signs_;
  UniqueFd spare_;  // given up for a moment to turn somebody away when there is no other descriptor
  std::map<int, Session> sessions_;
  std::map<JobId, Process> processes_;
  std::map<int, JobId> pidfds_;
  std::map<int, Former> former_;  // by pidfd: who has not joined again after a restart
  std::set<int> stalled_;         // sessions whose sockets are not watched for room until then:
  absl::Time retry_stalled_;
  std::map<int, absl::Status> broken_;  // sessions to be closed after the actions at hand, and why
  JobId next_job_ = 1;
  absl::Time idle_since_;
  std::map<int, absl::Time> mute_;            // sessions that have said nothing yet, and until when they may
  std::map<JobId, TurnNumber> named_silent_;  // in which turn it was last
  absl::Time looked_for_silence_ = absl::InfinitePast();
  bool stopping_ = false;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_SERVER_H_
