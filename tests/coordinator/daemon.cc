#include "tests/coordinator/daemon.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "csrc/base/check.h"
#include "csrc/wire/control.h"
#include "gtest/gtest.h"

namespace hocket::coordinator {
namespace {

void AwaitExit(int pid) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return;  // gone already
  pollfd poller{pidfd.get(), POLLIN, 0};
  while (poll(&poller, 1, -1) < 0) {
  }
}

}  // namespace

Daemon::Daemon(std::vector<std::string> flags) {
  char name[] = "/tmp/hocket-test-XXXXXX";
  HOCKET_CHECK(mkdtemp(name) != nullptr) << "no temporary folder";
  dir_ = name;
  const auto [status, text] = Start(std::move(flags));
  HOCKET_CHECK(status == 0) << "hocketd does not start: " << text;
}

Daemon::~Daemon() {
  Kill(SIGKILL);
  std::filesystem::remove_all(dir_);
}

std::pair<int, std::string> Daemon::Start(std::vector<std::string> flags,
                                          const std::function<void()>& prepare) {
  std::vector<std::string> words = {HOCKETD_PATH, "--runtime-dir", dir_};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  HOCKET_CHECK(pipe(ends) == 0) << "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (prepare) prepare();
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char buffer[1024];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  // Where it has not begun to serve, nobody may be there who answers.
  const bool serves = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (auto version = serves ? Ask("version") : absl::UnavailableError("none"); version.ok())
    pid_ = (*version)["pid"];
  return {WEXITSTATUS(status), text};
}

void Daemon::Kill(int signal) {
  if (pid_ != 0) kill(pid_, signal);
  AwaitEnd();
}

void Daemon::AwaitEnd() {
  if (pid_ != 0) AwaitExit(pid_);
  pid_ = 0;
}

size_t Daemon::OpenDescriptors() const {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd"), {}));
}

absl::StatusOr<nlohmann::json> Daemon::Ask(const std::string& command, nlohmann::json arguments) {
  auto answer = wire::Control(socket(), command, arguments.dump());
  if (!answer.ok()) return answer.status();
  return nlohmann::json::parse(*answer);
}

Peer::Peer(const Daemon& daemon) : channel_(wire::Channel::Connect(daemon.socket()).value()) {}

Peer::Peer(const Daemon& daemon, wire::Join join) : Peer(daemon) {
  if (join.device.empty()) join.device = "gpu0";
  if (join.capacity == 0) join.capacity = 1000;
  Say(join);
  answer_ = channel_.Receive();
}

void Peer::Say(const wire::Message& message, int descriptor) {
  const absl::Status sent = channel_.Send(message, descriptor);
  if (!sent.ok()) throw std::runtime_error(std::string(sent.message()));
}

absl::StatusOr<wire::Received> Peer::HearAny() {
  if (auto answer = std::exchange(answer_, std::nullopt)) return *std::move(answer);
  return channel_.Receive();
}

bool Peer::HearsEnd() {
  while (true) {
    if (absl::Status heard = HearAny().status(); !heard.ok()) return absl::IsUnavailable(heard);
  }
}

pid_t Spawn(const std::function<void()>& life) {
  int ends[2];
  HOCKET_CHECK(pipe(ends) == 0) << "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    life();
    HOCKET_CHECK(write(ends[1], "x", 1) == 1) << "the parent is gone";
    while (true) pause();
  }
  close(ends[1]);
  char done;
  HOCKET_CHECK(read(ends[0], &done, 1) == 1) << "the child has failed";
  close(ends[0]);
  return child;
}

nlohmann::json JobNamed(Daemon& daemon, const std::string& name) {
  const nlohmann::json status = daemon.Ask("status").value();
  for (const nlohmann::json& job : status["jobs"]) {
    if (job["name"] == name) return job;
  }
  return nullptr;
}

void SendRaw(Peer& peer, const std::string& bytes) {
  ASSERT_EQ(send(peer.channel().fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

void ExpectServes(Daemon& daemon) {
  Peer probe(daemon, {.name = "probe", .device = "probe"});
  probe.Say(wire::Wait{});
  EXPECT_GT(probe.Hear<wire::Grant>().turn, 0u);
}

void KillAndReap(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace hocket::coordinator
