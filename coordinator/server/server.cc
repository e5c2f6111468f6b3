#include "coordinator/server/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/policies/registry.h"
#include "coordinator/server/admission.h"
#include "coordinator/server/commands.h"
#include "coordinator/server/silence.h"
#include "coordinator/server/status.h"
#include "csrc/base/cannot.h"
#include "csrc/base/check.h"
#include "csrc/base/process.h"
#include "csrc/base/status_macros.h"
#include "csrc/base/steady.h"
#include "csrc/wire/codec.h"

namespace hocket::coordinator {
namespace {

// A process may have a connection for each device and a few control connections; this is for strangers.
size_t MaxSessions() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<size_t>(limit.rlim_cur / 4, 16, 4096);
}

// The first that says something.
template <typename Value>
Value Chosen(const Value& flag, const Value& set_before, const Value& usual) {
  if (flag != Value()) return flag;
  return set_before != Value() ? set_before : usual;
}

// A lane's page may still say what an earlier daemon's job passed.
std::uint64_t FirstPass() {
  std::random_device draw;
  return std::uniform_int_distribution<std::uint64_t>(1, std::uint64_t{1} << 61)(draw);
}

std::unique_ptr<Recorder> MakeRecorder(const ServerOptions& options, std::uint64_t epoch, Logger& log) {
  if (options.history_size == 0) return nullptr;
  return std::make_unique<Recorder>(RecorderOptions{
      .folder = options.runtime_dir + "/history",
      .most = options.history_size,
      .keep = options.history_keep,
      .epoch = epoch,
      .say = [&log](const std::string& sentence) { log.Warning(sentence, {.event = "history"}); }});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerOptions& options, Logger& log) {
  const auto whose = options.system ? Endpoint::For::kEverybody : Endpoint::For::kOwner;
  HOCKET_ASSIGN_OR_RETURN(Endpoint endpoint, Endpoint::Open(options.runtime_dir, whose, log));
  const auto epoch = static_cast<std::uint64_t>(absl::ToUnixMillis(absl::Now()));
  std::unique_ptr<Server> server(new Server(options, log, std::move(endpoint), epoch));
  if (!server->epoll_ || !server->timer_ || !server->stop_) return Cannot("make the daemon's descriptors");
  for (int fd : {server->endpoint_.listener(), server->stop_.get()})
    HOCKET_RETURN_IF_ERROR(server->Watch(fd, EPOLLIN));
  HOCKET_RETURN_IF_ERROR(server->Watch(server->timer_.get(), EPOLLIN | EPOLLET));
  if (!server->files_.trouble().empty()) log.Warning(server->files_.trouble(), {.event = "state"});
  if (!server->needs_.trouble().empty()) log.Warning(server->needs_.trouble(), {.event = "state"});
  for (const std::string& sentence : server->settings_.dropped) log.Warning(sentence, {.event = "state"});
  server->ExpectFormerJobs();
  return server;
}

Server::Server(const ServerOptions& options, Logger& log, Endpoint endpoint, std::uint64_t epoch)
    : options_(options),
      log_(log),
      endpoint_(std::move(endpoint)),
      epoch_(epoch),
      started_(Now()),
      most_sessions_(MaxSessions()),
      files_(options.runtime_dir, options.state_dir, options.read_only_state_dir),
      needs_(options.runtime_dir),
      settings_(files_.ReadSettings()),
      core_({.policy = Chosen(options.policy, settings_.policy, options.first_policy),
             .switch_share = Chosen(options.switch_share, settings_.switch_share, options.first_switch_share),
             .link_bound = Chosen(0.0, settings_.link_bound, options.first_link_bound),
             .policy_settings = {.production_bound = Chosen(0.0, settings_.production_bound,
                                                            PolicySettings().production_bound),
                                 .most_together =
                                     Chosen(0, settings_.most_together, PolicySettings().most_together)},
             .overdue_go_on = Chosen(std::string(), settings_.overdue, options.first_overdue) == kGoOn,
             .quotas = settings_.quotas,
             .runtime_dir = options.runtime_dir,
             .lock_folder = [this](unsigned user) { return LockFolder(user); },
             .first_pass = FirstPass(),
             .make_policy = [this](const std::string& name) { return MakePolicyNamed(name); }}),
      recorder_(MakeRecorder(options, epoch, log)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spare_(eventfd(0, EFD_CLOEXEC)),
      idle_since_(started_) {}

Server::~Server() = default;

LogSubject Server::About(const Job& job, const std::string& event) {
  return {.event = event,
          .job = job.id,
          .pid = static_cast<pid_t>(job.info.pid),
          .name = job.info.name,
          .device = job.info.device};
}

std::unique_ptr<Policy> Server::MakePolicyNamed(const std::string& name) {
  if (!IsOwnPolicy(name)) return *MakePolicy(name);
  const auto say = [this](const std::string& sentence) { log_.Warning(sentence, {.event = "policy"}); };
  return std::make_unique<OwnPolicy>(name,
                                     OwnPolicyOptions{.say = say, .patience = options_.policy_patience});
}

void Server::ExpectFormerJobs() {
  const LeftBehind former = files_.FindLeftBehind();
  if (former.living.empty() && former.dead == 0) return;
  Restarted restarted;
  HeldIn held;
  for (const JobFile& file : former.living) {
    restarted.expected[file.id] = {.pid = static_cast<std::uint64_t>(file.pid),
                                   .locks = LocksOf(file.pid, held)};
    next_job_ = std::max(next_job_, file.id + 1);
    AwaitEnd(file);
  }
  log_.Info(absl::StrCat("restarted: waiting for ", restarted.expected.size(), " job(s) to report; ",
                         former.dead, " died meanwhile"),
            {.event = "restarted"});
  Apply(0, std::move(restarted));
}

absl::Time Server::Now() const { return SteadyNow(); }

// --- connections ----------------------------------------------------------------------------------

void Server::Accept() {
  UniqueFd socket(accept4(endpoint_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket && (errno == EMFILE || errno == ENFILE)) return TurnAwayWithSpare();
  if (!socket) return;
  const int fd = socket.get();
  wire::Channel channel(std::move(socket));
  const auto peer = channel.Peer();
  if (!peer.ok()) return;
  const Asker asker{.uid = peer->second, .governs = peer->second == geteuid() || peer->second == 0};
  if (!options_.system && !asker.governs) {
    log_.Warning(absl::StrCat("pid ", peer->first, " of uid ", peer->second,
                              " was turned away: this daemon serves uid ", geteuid()),
                 {.event = "refused", .pid = peer->first});
    (void)channel.Send(wire::Refused{
        absl::StrCat("this coordinator serves uid ", geteuid(), ", not uid ", peer->second, ".")});
    return;
  }
  const auto own =
      static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(),
                                        [&](const auto& other) { return other.second.uid() == asker.uid; }));
  if (!MayConnect(asker, own, sessions_.size(), most_sessions_)) {
    (void)channel.Send(
        wire::Refused{absl::StrCat("the coordinator has ", sessions_.size(), " connections, ", own,
                                   " of them of uid ", asker.uid, ": as many as it may. Close some.")});
    return;
  }
  if (!Watch(fd, EPOLLIN).ok()) return;
  sessions_.try_emplace(fd, std::move(channel), peer->first, peer->second);
  mute_[fd] = Now() + options_.mute;
}

// Who asks is told, rather than left to wait for a descriptor while we are woken for him again and again.
void Server::TurnAwayWithSpare() {
  spare_ = UniqueFd();
  {
    UniqueFd socket(accept4(endpoint_.listener(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      const std::string why = std::string(Cannot("take a connection", EMFILE).message());
      wire::Channel channel(std::move(socket));
      (void)channel.TryReceive();  // who has said something that is not read hears of a reset connection only
      (void)channel.Send(wire::Refused{why});
      log_.Warning(why, {.event = "refused"});
    }
  }
  spare_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
}

Asker Server::AskerAt(const Session& session) const {
  return {.uid = session.uid(),
          .governs = !options_.system || session.uid() == geteuid() || session.uid() == 0};
}

void Server::CloseMute() {
  if (mute_.empty()) return;
  const absl::Time now = Now();
  while (!mute_.empty()) {
    const auto first = std::min_element(mute_.begin(), mute_.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (first->second > now) return;
    const int fd = first->first;
    pollfd said{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&said, 1, 0) > 0) Read(fd);  // we were kept from it
    if (!mute_.contains(fd)) continue;
    Refuse(fd, absl::StrCat("said nothing for ", absl::FormatDuration(options_.mute), "."));
  }
}

void Server::Read(int fd) {
  Session& session = sessions_.at(fd);
  auto received = session.channel().TryReceive();
  if (received.ok()) {
    if (*received) Received(fd, **std::move(received));
    return;
  }
  if (absl::IsFailedPrecondition(received.status()))
    return Refuse(fd, absl::StrCat(received.status().message(), ". ", WhoKeepsUs()));
  const bool bad = absl::IsInvalidArgument(received.status());
  if (bad && session.job() == 0)
    return Refuse(fd, absl::StrCat("message rejected: ", received.status().message()));
  Close(fd, bad ? absl::StrCat("message rejected: ", received.status().message()) : "");
}

void Server::Received(int fd, wire::Received received) {
  mute_.erase(fd);
  Session& session = sessions_.at(fd);
  if (auto* command = std::get_if<wire::Command>(&received.message)) return AnswerCommand(fd, *command);
  if (auto* join = std::get_if<wire::Join>(&received.message)) {
    if (session.job() != 0) return Close(fd, "message rejected: a second Join on one connection");
    return Admit(fd, *std::move(join), std::move(received.descriptor));
  }
  if (session.job() == 0) {
    return Refuse(fd, absl::StrCat("message rejected: a connection begins with Join or Command, not ",
                                   wire::NameOf(received.message), "."));
  }
  if (absl::Status good = CheckSaidByJob(received.message); !good.ok())
    return Close(fd,
                 absl::StrCat("message rejected: ", wire::NameOf(received.message), ": ", good.message()));
  // This process may have had no descriptor left for it.
  if (auto* grew = std::get_if<wire::ArenaGrew>(&received.message)) grew->bare |= !received.descriptor;
  std::visit(
      [&](auto& message) {
        if constexpr (std::is_constructible_v<decltype(Event::what), decltype(message)>)
          Apply(session.job(), std::move(message), received.descriptor);
      },
      received.message);
}

// --- what is seen of jobs --------------------------------------------------------------------------

std::optional<wire::PageValues> Server::PageOf(JobId job) const {
  auto process = processes_.find(job);
  if (process == processes_.end() || !process->second.page) return std::nullopt;
  return process->second.page->Read();
}

std::uint64_t Server::StepsDone(JobId job) const {
  return std::min(PageOf(job).value_or(wire::PageValues{}).steps, kMaxCount);
}

std::string Server::Silence(JobId job) {
  const Job& holder = core_.state().jobs.at(job);
  const TurnNumber turn = holder.turn != 0 ? holder.turn : holder.overstays;
  if (turn == 0) return "";
  const std::string why = WhySilent(holder, PageOf(job), Now());
  if (!why.empty() && std::exchange(named_silent_[job], turn) != turn)
    log_.Warning(absl::StrCat(holder.info.name, " has the turn and ", why), About(holder, "silent"));
  return why;
}

void Server::LookForSilence() {
  looked_for_silence_ = Now();
  std::erase_if(named_silent_, [&](const auto& named) { return !core_.state().jobs.contains(named.first); });
  for (const auto& [id, job] : core_.state().jobs) (void)Silence(id);
}

// --- events and actions ---------------------------------------------------------------------------

void Server::Apply(JobId job, decltype(Event::what) what) { Apply(job, std::move(what), UniqueFd()); }

void Server::Set(JobId job, decltype(Event::what) what) {
  Apply(job, std::move(what));
  if (!core_.state().jobs.at(job).gone) Remember(job);
}

void Server::Set(const SetPolicy& policy) {
  Apply(0, policy);
  settings_.policy = policy.name;
  RememberSettings();
}

void Server::Set(const SetSwitchShare& share) {
  Apply(0, share);
  settings_.switch_share = share.share;
  RememberSettings();
}

void Server::Set(const SetLinkBound& bound) {
  Apply(0, bound);
  settings_.link_bound = bound.bound;
  RememberSettings();
}

void Server::Set(const SetProductionBound& bound) {
  Apply(0, bound);
  settings_.production_bound = bound.bound;
  RememberSettings();
}

void Server::Set(const SetMostTogether& together) {
  Apply(0, together);
  settings_.most_together = together.most;
  RememberSettings();
}

void Server::Set(const SetOverdue& overdue) {
  Apply(0, overdue);
  settings_.overdue = overdue.go_on ? kGoOn : kWait;
  RememberSettings();
}

void Server::Set(const SetQuota& quota) {
  Apply(0, quota);
  settings_.quotas = core_.state().quotas;
  RememberSettings();
}

void Server::RememberSettings() {
  if (const std::string unwritten = files_.Write(settings_); !unwritten.empty())
    log_.Warning(unwritten, {.event = "state"});
}

void Server::Apply(JobId job, decltype(Event::what) what, const UniqueFd& descriptor) {
  // No longer than it can have been going on before that job's message came: a socket holds fewer.
  for (int heard = 0; heard < kMostUnread && core_.PasserTo(job) != 0; ++heard) {
    if (!HearOne(core_.PasserTo(job))) break;
  }
  std::vector<JobId> granted;
  const auto early = [&](const Send& send) {
    Do(job, send, descriptor);
    if (std::holds_alternative<wire::Grant>(send.message)) granted.push_back(send.to);
  };
  std::vector<Action> actions =
      core_.Handle({.at = Now(), .due = Due(), .job = job, .what = std::move(what)}, early);
  // What is said to jobs first, in order: somebody waits for it. Records, the log and the timer can wait.
  for (const Action& action : actions) {
    if (const Send* send = std::get_if<Send>(&action)) Do(job, *send, descriptor);
  }
  for (JobId to : granted) RememberTime(to);
  for (Action& action : actions) {
    const Send* send = std::get_if<Send>(&action);
    if (send == nullptr) std::visit([&](auto& a) { Do(std::move(a)); }, action);
    if (send != nullptr && std::holds_alternative<wire::Grant>(send->message)) RememberTime(send->to);
  }
  // An event of its own, so only when all of these are done.
  for (const Action& action : actions) {
    const TakeBack* back = std::get_if<TakeBack>(&action);
    if (back != nullptr && TakeBackGrant(*back)) Apply(back->job, GrantTakenBack{back->wait});
  }
  for (const Action& action : actions) {
    if (const LookAt* look = std::get_if<LookAt>(&action)) Apply(look->job, StepsOf(look->job));
  }
}

// Steps of less than 1 ms leave the time of the last one as it was: it was just now.
StepsSeen Server::StepsOf(JobId job) const {
  const auto page = PageOf(job);
  if (!page || page->steps == 0) return {};
  const bool timed = page->step_time_ns >= 1'000'000;
  const auto at = static_cast<int64_t>(std::min<std::uint64_t>(page->last_boundary_ns, INT64_MAX));
  return {.steps = page->steps, .at = timed ? absl::FromUnixNanos(at) : Now()};
}

bool Server::TakeBackGrant(const TakeBack& action) {
  auto process = processes_.find(action.job);
  return process != processes_.end() && process->second.page &&
         process->second.page->TakeGrantBack(action.wait);
}

void Server::Do(JobId from, const Send& action, const UniqueFd& descriptor) {
  auto process = processes_.find(action.to);
  if (process == processes_.end() || process->second.session < 0) return;
  static const UniqueFd none;
  if (action.with_descriptor) {
    const auto& jobs = core_.state().jobs;
    HOCKET_CHECK(jobs.at(action.to).user == jobs.at(from).user)
        << "a descriptor of job " << from << " was to go to another user's, " << action.to;
  }
  SendOn(process->second.session, action.message, action.with_descriptor ? descriptor : none);
}

void Server::SendOn(int fd, const wire::Message& message, const UniqueFd& descriptor) {
  auto session = sessions_.find(fd);
  if (session == sessions_.end() || broken_.contains(fd)) return;
  const absl::Status sent = session->second.Send(message, descriptor);
  if (!sent.ok()) broken_[fd] = sent;
  if (session->second.has_queued()) (void)Watch(fd, EPOLLIN | EPOLLOUT);
}

// Not while actions are being done: closing is an event of its own. One that has ended its connection cannot
// be told anything, but what it has said before (that its turn is over, that it leaves) is still to be heard.
void Server::CloseBroken() {
  while (!broken_.empty()) {
    const auto [fd, why] = *broken_.begin();
    broken_.erase(broken_.begin());
    const auto session = sessions_.find(fd);
    if (session == sessions_.end()) continue;
    const JobId job = session->second.job();
    if (absl::IsUnavailable(why)) HearOut(job);
    const auto known = core_.state().jobs.find(job);
    const bool has_left = known != core_.state().jobs.end() && known->second.gone;
    Close(fd, has_left ? "" : std::string(why.message()));
  }
}

void Server::Do(const Reject& action) {
  auto process = processes_.find(action.job);
  if (process != processes_.end() && process->second.session >= 0)
    broken_[process->second.session] =
        absl::InvalidArgumentError(absl::StrCat("message rejected: ", action.reason));
}

void Server::Do(const Log& action) {
  const auto job = core_.state().jobs.find(action.job);
  log_.Info(action.text, job == core_.state().jobs.end() ? LogSubject{.event = action.event}
                                                         : About(job->second, action.event));
}

void Server::Do(TurnEnded turn) {
  RememberTime(turn.job);
  if (recorder_) {
    recorder_->Add(turn);
    // What a job holds and takes is known better and better; if the daemon is killed, this is what is known.
    const auto job = core_.state().jobs.find(turn.job);
    const bool there = job != core_.state().jobs.end();
    if (there && (recorder_->LacksJob(turn.job) || std::has_single_bit(job->second.turns)))
      RecordJob(job->second);
  }
  if (log_.debug()) {
    log_.Debug(absl::StrCat("turn ", turn.turn, ": ", turn.name, " had it for ",
                            absl::FormatDuration(turn.end - turn.start), ", ", turn.steps,
                            " steps; restored ", FormatBytes(turn.restored), ", spilled for it ",
                            FormatBytes(turn.spilled), " (", turn.reason, ")"),
               {.event = "turn", .job = turn.job, .name = turn.name});
  }
  history_.turns.Add(std::move(turn));
}

void Server::Do(const SpillEnded& spill) {
  history_.spills.Add(spill);
  if (recorder_) recorder_->Add(spill);
}

void Server::RecordJob(const Job& job) {
  nlohmann::json record = RecordOf(job, Now());
  record["id"] = job.id;
  record["pid"] = job.info.pid;
  record["rejoined"] = job.info.rejoin;
  recorder_->AddJob(record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Server::RecordJobs() {
  for (const auto& [id, job] : core_.state().jobs) RecordJob(job);
}

void Server::AnswerCommand(int fd, const wire::Command& command) {
  constexpr size_t kPart = 32 * 1024;
  const Session& session = sessions_.at(fd);
  if (session.has_queued()) return Refuse(fd, "read the answer to the last command before you ask another.");
  const auto result = RunCommand(*this, AskerAt(session), command.command, command.arguments);
  if (!result.ok())
    return SendOn(fd, wire::CommandResult{.ok = false, .error = std::string(result.status().message())},
                  UniqueFd());
  for (size_t at = 0; at == 0 || at < result->size(); at += kPart) {
    SendOn(fd,
           wire::CommandResult{
               .ok = true, .result = result->substr(at, kPart), .last = at + kPart >= result->size()},
           UniqueFd());
  }
}

}  // namespace hocket::coordinator
