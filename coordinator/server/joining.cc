// Jobs that join, hang up, come back and end (server.h), and what the server remembers of them.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/server/admission.h"
#include "coordinator/server/held_locks.h"
#include "coordinator/server/rights.h"
#include "coordinator/server/server.h"
#include "coordinator/server/status.h"
#include "csrc/base/cannot.h"
#include "csrc/base/process.h"

namespace hocket::coordinator {
namespace {

UniqueFd OpenPid(int pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

std::optional<TimeKept> TimeOf(const Core& core, const Job& job) {
  const TimeAccount* account = core.TimeAccountOf(job.id);
  if (account == nullptr) return std::nullopt;
  TimeKept kept{.cap = account->cap(), .as_of = account->as_of(), .credit = account->credit()};
  if (job.turn != 0) kept.in_turn_since = job.granted;
  return kept;
}

// That joined before a daemon that has been killed since.
constexpr JobId kMostUnknownJobs = 1'000'000;

bool IsOf(const JobFile& file, const wire::Join& join) {
  if (static_cast<uint64_t>(file.pid) != join.pid) return false;
  const auto process = ReadProcess(file.pid);
  return process && process->start == file.process_start;
}

bool HasEnded(const UniqueFd& pidfd) {
  pollfd poller{pidfd.get(), POLLIN, 0};
  return !pidfd || (poll(&poller, 1, 0) == 1 && (poller.revents & POLLIN) != 0);
}

}  // namespace

// Kept across a restart, if nobody else has it. One that nothing here tells of (its file could not be
// written, or is lost) is believed where we could have come to it: who names a higher one would use the
// numbers up.
JobId Server::IdFor(const wire::Join& join, const std::vector<JobId>& former) {
  const bool own = std::find(former.begin(), former.end(), join.job) != former.end();
  const auto file = files_.Read(join.job);  // somebody else's, who has not come back yet?
  const bool others = file && static_cast<uint64_t>(file->pid) != join.pid && ReadProcess(file->pid);
  const bool known = own || (file && IsOf(*file, join)) || join.job < next_job_ + kMostUnknownJobs;
  if (join.rejoin && !others && known && join.job != 0 && join.job < kMaxJobId &&
      (own || !core_.state().jobs.contains(join.job))) {
    next_job_ = std::max(next_job_, join.job + 1);
    return join.job;
  }
  return next_job_++;
}

// A process that comes back is the same job, not a second one, also where we have not yet seen the end of its
// old connection.
std::vector<JobId> Server::FormerJobs(const JobJoins& joins) const {
  const wire::Join& join = joins.join;
  std::vector<JobId> former;
  for (const auto& [id, job] : core_.state().jobs) {
    if (job.user == joins.user && job.info.pid == join.pid && job.info.device == join.device &&
        (job.gone || (join.rejoin && join.job == id)))
      former.push_back(id);
  }
  return former;
}

// What people have set of a job is in its file when the coordinator has been restarted.
void Server::TakeUpSettings(JobJoins& joins) const {
  wire::Join& join = joins.join;
  if (!join.rejoin) return;
  const auto file = files_.Read(join.job);
  if (!file || !file->settings || !IsOf(*file, join)) return;
  join.weight = file->settings->weight;
  join.priority = file->settings->priority;
  join.total_steps = file->settings->total_steps;
  joins.paused = file->settings->paused;
  joins.memory_guarantee = file->settings->memory_guarantee;
  joins.time_guarantee = file->settings->time_guarantee;
  join.group = file->settings->group;
  if (!file->time) return;
  const absl::Time now = Now();
  joins.time.emplace(file->time->cap, std::min(file->time->as_of, now), file->time->credit);
  if (join.holds_turn && file->time->in_turn_since) joins.time->Use(*file->time->in_turn_since, now, {});
}

void Server::Remember(JobId id) {
  const Job& job = core_.state().jobs.at(id);
  const int pid = static_cast<int>(job.info.pid);
  const std::string unwritten =
      files_.Write({.id = id,
                    .pid = pid,
                    .process_start = ReadProcess(pid).value_or(ProcessState{}).start,
                    .settings = JobSettings{.weight = job.info.weight,
                                            .priority = job.info.priority,
                                            .total_steps = job.info.total_steps,
                                            .paused = job.paused,
                                            .memory_guarantee = job.guarantee,
                                            .time_guarantee = core_.TimeGuaranteeOf(Owner::Job(id), job),
                                            .group = job.info.group},
                    .time = TimeOf(core_, job)});
  if (!unwritten.empty()) log_.Warning(unwritten, {.event = "state"});
}

// Of a job with a time cap, where it is granted a turn and at the end of its turns: it had that time also if
// we are killed now.
void Server::RememberTime(JobId id) {
  if (core_.TimeAccountOf(id) == nullptr || !processes_.contains(id) || core_.state().jobs.at(id).gone)
    return;
  Remember(id);
}

// The jobs of the daemon's own user need no other place than the daemon.
std::string Server::LockFolder(unsigned user) const {
  if (!options_.system && user == geteuid()) return options_.runtime_dir;
  return absl::StrCat(options_.runtime_dir, "/users/", user);
}

// So that nobody else can take the lock of his lane, or keep it from him.
absl::Status Server::MakeLockFolder(unsigned user) {
  const std::string folder = LockFolder(user);
  if (folder == options_.runtime_dir) return absl::OkStatus();
  const std::string users = options_.runtime_dir + "/users";
  if ((mkdir(users.c_str(), 0755) != 0 && errno != EEXIST) || chmod(users.c_str(), 0755) != 0)
    return Cannot("make the folder " + users);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Cannot("make the folder " + folder);
  // Root may write in a folder of ours; nobody else comes to a daemon that cannot give files away.
  if (options_.system && chown(folder.c_str(), user, static_cast<gid_t>(-1)) != 0)
    return Cannot(absl::StrCat("give the folder ", folder, " to uid ", user));
  return absl::OkStatus();
}

// Of lanes, that it has now: it may be in a step.
std::vector<std::string> Server::LocksOf(int pid, HeldIn& known) const {
  struct stat process {};
  if (pid == getpid() || stat(absl::StrCat("/proc/", pid).c_str(), &process) != 0) return {};
  const auto [held, is_new] = known.try_emplace(LockFolder(process.st_uid));
  if (is_new) held->second = HeldLocks(held->first);
  return held->second[pid];
}

void Server::AwaitEnd(const JobFile& former) {
  UniqueFd pidfd = OpenPid(former.pid);
  if (!pidfd || !Watch(pidfd.get(), EPOLLIN).ok()) return;
  const int fd = pidfd.get();
  former_[fd] = {.id = former.id, .pidfd = std::move(pidfd)};
}

std::vector<NamedJob> Server::NamedJobs() const {
  std::vector<NamedJob> jobs;
  for (const auto& [id, job] : core_.state().jobs)
    jobs.push_back({.id = id, .name = job.info.name, .user = job.user, .gone = job.gone});
  return jobs;
}

void Server::StopForGood() {
  endpoint_.RemoveAtEnd();
  StopSoon();
}

// A job that has hung up is kept until its process is dead, which may join again and again, each time as a
// new one: on a device of another name.
absl::Status Server::CheckJobCount(const Session& session) const {
  const auto& jobs = core_.state().jobs;
  const auto own = static_cast<size_t>(std::count_if(
      jobs.begin(), jobs.end(), [&](const auto& entry) { return entry.second.user == session.uid(); }));
  if (MayConnect(AskerAt(session), own, jobs.size(), most_sessions_)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the coordinator has ", jobs.size(), " jobs, ", own, " of them of uid ", session.uid(),
      ": as many as it may. A job that has hung up counts until its process ends: end some of these."));
}

void Server::Admit(int fd, wire::Join join, UniqueFd page) {
  if (absl::Status good = CheckJoin(join); !good.ok())
    return Refuse(fd, absl::StrCat("cannot join: ", good.message()));
  Session& session = sessions_.at(fd);
  Process process{.pidfd = OpenPid(session.pid()), .page = std::nullopt, .session = fd};
  if (!process.pidfd && errno != ESRCH)
    return Refuse(fd,
                  std::string(Cannot(absl::StrCat("join: cannot watch process ", session.pid())).message()));
  if (!process.pidfd) return Close(fd, absl::StrCat("process ", session.pid(), " is gone already"));
  if (page) {
    auto view = wire::SharedPageView::Open(page.get());
    if (!view.ok()) return Refuse(fd, absl::StrCat("cannot join: ", view.status().message(), "."));
    process.page = *std::move(view);
  }
  join.pid = static_cast<uint64_t>(session.pid());
  if (absl::Status made = MakeLockFolder(session.uid()); !made.ok())
    return Refuse(fd, absl::StrCat("cannot join: ", made.message()));
  if (options_.system && !join.group.empty()) {
    join.group = FullGroup(session.uid(), join.group);
    if (absl::Status good = CheckGroupName(join.group); !good.ok())
      return Refuse(fd, absl::StrCat("cannot join: ", good.message()));
  }
  JobJoins joins{.join = std::move(join), .user = session.uid()};
  process.program = ProgramKey(session.pid(), session.uid());
  joins.known = needs_.Of(process.program);
  TakeUpSettings(joins);
  for (JobId former : FormerJobs(joins)) HearOut(former);
  joins.replaces = FormerJobs(joins);
  if (joins.replaces.empty()) {
    if (absl::Status good = CheckJobCount(session); !good.ok())
      return Refuse(fd, absl::StrCat("cannot join: ", good.message()));
  }
  for (JobId former : joins.replaces) Forget(former);
  const JobId id = joins.join.job = IdFor(joins.join, joins.replaces);
  session.set_job(id);
  std::erase_if(former_, [&](const auto& former) { return former.second.id == id; });
  const int pidfd = process.pidfd.get();
  pidfds_[pidfd] = id;
  processes_.insert_or_assign(id, std::move(process));
  if (absl::Status watched = Watch(pidfd, EPOLLIN); !watched.ok()) log_.Error(std::string(watched.message()));
  const bool rejoin = joins.join.rejoin;
  Apply(id, std::move(joins));
  ShowSigns();
  Remember(id);
  const Job& job = core_.state().jobs.at(id);
  log_.Info(
      absl::StrCat(job.info.name, " (job ", id, ", pid ", job.info.pid, ", Hocket ", job.info.hocket_version,
                   rejoin ? ") joined again on " : ") joined on ", job.info.device),
      About(job, "joined"));
}

void Server::Refuse(int fd, const std::string& reason) {
  SendOn(fd, wire::Refused{reason}, UniqueFd());
  Close(fd, absl::StrCat("refused: ", reason));
}

void Server::Close(int fd, const std::string& why) {
  auto session = sessions_.find(fd);
  if (session == sessions_.end()) return;
  const JobId job = session->second.job();
  const int pid = session->second.pid();
  mute_.erase(fd);
  sessions_.erase(session);  // closes the socket, which leaves epoll by that
  broken_.erase(fd);
  if (!why.empty())
    log_.Warning(absl::StrCat("connection of pid ", pid, " closed: ", why),
                 {.event = "closed", .job = job, .pid = pid});
  if (job == 0) return;
  auto process = processes_.find(job);
  if (process == processes_.end()) return;
  process->second.session = -1;
  if (HasEnded(process->second.pidfd)) return ProcessEnded(job);
  Apply(job, JobHungUp{.steps = StepsDone(job)});
  files_.Remove(job);
}

// What it has said before is heard first: a chunk it lost, a turn it gave up. Not what it goes on to say
// meanwhile.
void Server::HearOut(JobId job) {
  for (int heard = 0; heard < kMostUnread && HearOne(job); ++heard) continue;
}

// False: there is nothing (any more).
bool Server::HearOne(JobId job) {
  auto process = processes_.find(job);
  const int session = process == processes_.end() ? -1 : process->second.session;
  if (session < 0 || !sessions_.contains(session)) return false;
  auto received = sessions_.at(session).channel().TryReceive();
  if (!received.ok() || !*received) return false;
  Received(session, **std::move(received));
  return true;
}

// All but what the core knows of it.
void Server::Forget(JobId job) {
  auto process = processes_.find(job);
  if (process == processes_.end()) return;
  const int session = process->second.session;
  pidfds_.erase(process->second.pidfd.get());
  processes_.erase(process);
  files_.Remove(job);
  if (auto found = sessions_.find(session); found != sessions_.end() && found->second.job() == job)
    sessions_.erase(found);
}

void Server::ProcessEnded(JobId job) {
  HearOut(job);
  if (!processes_.contains(job)) return;
  if (auto found = core_.state().jobs.find(job); found != core_.state().jobs.end())
    log_.Info(absl::StrCat(found->second.info.name, " (job ", job, ", pid ", found->second.info.pid,
                           ") has ended in the state: ", core_.StateOf(job)),
              About(found->second, "ended"));
  const std::uint64_t steps = StepsDone(job);
  if (auto found = core_.state().jobs.find(job); found != core_.state().jobs.end()) {
    Job last = found->second;
    last.steps = std::max(last.steps, steps);
    if (last.turn != 0) last.held += Now() - last.granted;
    if (recorder_) RecordJob(last);
    ended_.push_back(RecordOf(last, Now()));
    if (ended_.size() > kMaxRecords) ended_.pop_front();
    LearnNeed(found->second);
  }
  Forget(job);
  Apply(job, JobDied{.steps = steps});
  ShowSigns();
}

void Server::ShowSigns() {
  std::set<std::string> devices;
  for (const auto& [id, job] : core_.state().jobs) devices.insert(job.info.device);
  signs_.Show({.uid = geteuid(), .pid = getpid(), .epoch = epoch_}, devices);
}

// Of one that has done steps: it has had all that it needs.
void Server::LearnNeed(const Job& job) {
  if (job.steps == 0 || job.most_held == 0) return;
  const std::string unwritten = needs_.Learn(
      processes_.at(job.id).program,
      {.persistent = job.most_held, .transient = job.most_transient, .host = job.host, .runs = 1});
  if (!unwritten.empty()) log_.Warning(unwritten, {.event = "state"});
}

std::string Server::WhoKeepsUs() const {
  std::string names;
  int jobs = 0;
  for (const auto& [id, job] : core_.state().jobs) {
    if (job.gone) continue;
    ++jobs;
    absl::StrAppend(&names, names.empty() ? "" : ", ", job.info.name, " (pid ", job.info.pid, ")");
  }
  if (options_.system && jobs > 0) names = absl::StrCat(jobs, " job(s)");  // of other users, too
  if (names.empty())
    return absl::StrCat("This coordinator is of Hocket ", options_.version, "; end it with: hocket stop.");
  return absl::StrCat("This coordinator is of Hocket ", options_.version, " and is kept running by: ", names,
                      ". It ends after them.");
}

}  // namespace hocket::coordinator
