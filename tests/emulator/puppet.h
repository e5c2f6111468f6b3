// Another process that uses the emulated GPU as it is told, line by line (puppet_main.cc has the words).
#ifndef HOCKET_TESTS_EMULATOR_PUPPET_H_
#define HOCKET_TESTS_EMULATOR_PUPPET_H_

#include <sys/types.h>

#include <map>
#include <string>

namespace hocket {

class Puppet {
 public:
  using Environment = std::map<std::string, std::string>;

  // Starts a process whose environment is ours and `environment`.
  explicit Puppet(const Environment& environment);
  Puppet(Puppet&& other) noexcept;
  // Ends it, with kill -9 where it still lives.
  ~Puppet();

  // Says one line and returns the answer, "" where the process has ended instead.
  std::string Ask(const std::string& line);
  // Says one line and does not wait for the answer; Answer() is it.
  void Tell(const std::string& line);
  std::string Answer();

  pid_t pid() const { return pid_; }
  // kill -9, and waits until the kernel has taken it down.
  void Kill();
  // Lets it end in good order (or of itself) and returns its wait status.
  int Finish();
  // What it wrote to stderr. Call Finish() or Kill() first.
  const std::string& Errors() const { return errors_; }

 private:
  void Reap();

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  int error_ = -1;  // a memfd, so that what it says never blocks it
  int status_ = 0;
  std::string buffer_;
  std::string errors_;
};

}  // namespace hocket

#endif  // HOCKET_TESTS_EMULATOR_PUPPET_H_
