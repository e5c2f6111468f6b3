#include "tests/emulator/puppet.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "csrc/base/check.h"

namespace hocket {

Puppet::Puppet(const Environment& environment) {
  int to[2], from[2];
  HOCKET_CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
  error_ = memfd_create("puppet-stderr", MFD_CLOEXEC);
  pid_ = fork();
  HOCKET_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    dup2(error_, STDERR_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execl(HOCKET_PUPPET, HOCKET_PUPPET, nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
}

Puppet::Puppet(Puppet&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_(std::exchange(other.to_, -1)),
      from_(std::exchange(other.from_, -1)),
      error_(std::exchange(other.error_, -1)),
      buffer_(std::move(other.buffer_)) {}

Puppet::~Puppet() {
  if (pid_ > 0) Kill();
  for (int fd : {to_, from_, error_}) {
    if (fd >= 0) close(fd);
  }
}

void Puppet::Tell(const std::string& line) {
  const std::string text = line + "\n";
  std::signal(SIGPIPE, SIG_IGN);
  (void)!write(to_, text.data(), text.size());
}

std::string Puppet::Answer() {
  std::size_t end;
  while ((end = buffer_.find('\n')) == std::string::npos) {
    char text[4096];
    const ssize_t length = read(from_, text, sizeof(text));
    if (length <= 0) return "";
    buffer_.append(text, static_cast<std::size_t>(length));
  }
  const std::string answer = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return answer;
}

std::string Puppet::Ask(const std::string& line) {
  Tell(line);
  return Answer();
}

void Puppet::Kill() {
  kill(pid_, SIGKILL);
  Reap();
}

int Puppet::Finish() {
  close(std::exchange(to_, -1));
  Reap();
  return status_;
}

void Puppet::Reap() {
  if (pid_ < 0) return;
  waitpid(pid_, &status_, 0);
  pid_ = -1;
  char text[4096];
  ssize_t length;
  for (off_t at = 0; (length = pread(error_, text, sizeof(text), at)) > 0; at += length) {
    errors_.append(text, static_cast<std::size_t>(length));
  }
}

}  // namespace hocket
