// The daemon's log: sentences, in <runtime dir>/hocketd.log (kept below a few megabytes).
#ifndef HOCKET_COORDINATOR_SERVER_LOG_H_
#define HOCKET_COORDINATOR_SERVER_LOG_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace spdlog {
class logger;
}

namespace hocket::coordinator {

class Logger {
 public:
  // Writes to `path`, and to stderr as well if `also_stderr`. `level`: debug | info | warning | error.
  // kUnavailable when the file cannot be written; kInvalidArgument for another level.
  static absl::StatusOr<Logger> Open(const std::string& path, const std::string& level, bool also_stderr);

  // Whether Debug() writes anything: for sentences that are not worth making otherwise.
  bool debug() const;
  void Debug(const std::string& sentence);
  void Info(const std::string& sentence);
  void Warning(const std::string& sentence);
  void Error(const std::string& sentence);

 private:
  explicit Logger(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_LOG_H_
