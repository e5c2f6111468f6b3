// A child process that is spoken to in lines over one socket, its standard input and output.
//
// Whatever the child does (dies, stops, floods, never reads), no call here blocks for longer than it says,
// and memory stays bounded. Time in which this process, too, stood still does not count. Not thread-safe, nor
// are two of them.
#ifndef HOCKET_COORDINATOR_OWN_LINE_PROCESS_H_
#define HOCKET_COORDINATOR_OWN_LINE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "csrc/base/unique_fd.h"

namespace hocket::coordinator {

class LineProcess {
 public:
  static constexpr size_t kLongestLine = 256 << 10;

  // `command`: a program, by its path, and its arguments. Its standard error is ours. kUnavailable: it cannot
  // be started; the text says why.
  static absl::StatusOr<std::unique_ptr<LineProcess>> Start(const std::vector<std::string>& command);
  // Kills the child, and does not wait until it has ended.
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;

  // Waits until `patience` is over where the child has not read what it was told before. kUnavailable: it is
  // gone, or does not read.
  absl::Status Send(const std::string& line, absl::Duration patience);
  // The next line, without its end; waits for it until `patience` is over. kDeadlineExceeded: none came.
  // kUnavailable: the child is gone. kResourceExhausted: the line is longer than kLongestLine.
  absl::StatusOr<std::string> Receive(absl::Duration patience);

  pid_t pid() const { return pid_; }

 private:
  // True once `events` are there; false when no patience is left. Takes of it what that took.
  bool Await(short events, absl::Duration& patience) const;

  LineProcess(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  const UniqueFd socket_;
  const pid_t pid_;
  std::string received_;  // of lines that are not complete, or not asked for yet
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_OWN_LINE_PROCESS_H_
