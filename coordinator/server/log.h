// The daemon's log: sentences with what they are about beside them, in <runtime dir>/hocketd.log (kept below
// a few megabytes).
//
// In the file each is a line of JSON, for `hocket logs` and for programs:
//
//   {"time":"2026-11-24T08:05:01.123Z","level":"info","event":"ended","job":3,"pid":4121,"name":"resnet","text":"..."}
//
// On stderr (hocketd --foreground) it is the sentence alone, as systemd's journal wants it.
#ifndef HOCKET_COORDINATOR_SERVER_LOG_H_
#define HOCKET_COORDINATOR_SERVER_LOG_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace spdlog {
class logger;
}

namespace hocket::coordinator {

// What a sentence is about; what is empty or 0 is left out of the line.
struct LogSubject {
  std::string event;  // a word for what has happened, the same for every sentence of that kind
  std::uint64_t job = 0;
  pid_t pid = 0;
  std::string name;    // of the job
  std::string device;  // its UUID, or "cpu"
};

class Logger {
 public:
  // Writes to `path`, and to stderr as well if `also_stderr`. `level`: debug | info | warning | error.
  // kUnavailable when the file cannot be written; kInvalidArgument for another level.
  static absl::StatusOr<Logger> Open(const std::string& path, const std::string& level, bool also_stderr);

  // Whether Debug() writes anything: for sentences that are not worth making otherwise.
  bool debug() const;
  void Debug(const std::string& sentence, const LogSubject& about = {});
  void Info(const std::string& sentence, const LogSubject& about = {});
  void Warning(const std::string& sentence, const LogSubject& about = {});
  void Error(const std::string& sentence, const LogSubject& about = {});

 private:
  Logger(std::shared_ptr<spdlog::logger> file, std::shared_ptr<spdlog::logger> foreground)
      : file_(std::move(file)), foreground_(std::move(foreground)) {}
  std::shared_ptr<spdlog::logger> file_;
  std::shared_ptr<spdlog::logger> foreground_;  // null: it is not in the foreground
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_LOG_H_
