#include "coordinator/server/log.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace hocket::coordinator {

absl::StatusOr<Logger> Logger::Open(const std::string& path, const std::string& level, bool also_stderr) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no log level '", level, "'. The levels are: debug, info, warning, error."));
  }
  std::vector<spdlog::sink_ptr> sinks;
  try {
    sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, 4 << 20, 1));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(absl::StrCat("cannot write the log: ", error.what()));
  }
  if (also_stderr) sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto logger = std::make_shared<spdlog::logger>("hocketd", sinks.begin(), sinks.end());
  logger->set_level(parsed);
  logger->flush_on(spdlog::level::info);
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
  logger->set_error_handler([](const std::string&) {});  // a full disk does not stop the daemon
  return Logger(std::move(logger));
}

bool Logger::debug() const { return logger_->should_log(spdlog::level::debug); }
void Logger::Debug(const std::string& sentence) { logger_->debug("{}", sentence); }
void Logger::Info(const std::string& sentence) { logger_->info("{}", sentence); }
void Logger::Warning(const std::string& sentence) { logger_->warn("{}", sentence); }
void Logger::Error(const std::string& sentence) { logger_->error("{}", sentence); }

}  // namespace hocket::coordinator
