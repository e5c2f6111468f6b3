#include "coordinator/server/log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace hocket::coordinator {
namespace {

std::shared_ptr<spdlog::logger> Make(spdlog::sink_ptr sink, spdlog::level::level_enum level,
                                     const char* pattern) {
  auto logger = std::make_shared<spdlog::logger>("hocketd", std::move(sink));
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  logger->set_pattern(pattern);
  logger->set_error_handler([](const std::string&) {});  // a full disk does not stop the daemon
  return logger;
}

// Names and reasons come from other processes: what is no UTF-8 is replaced, and nothing ends the line.
std::string Line(const char* level, const std::string& sentence, const LogSubject& about) {
  nlohmann::ordered_json line = {
      {"time", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())},
      {"level", level}};
  if (!about.event.empty()) line["event"] = about.event;
  if (about.job != 0) line["job"] = about.job;
  if (about.pid != 0) line["pid"] = about.pid;
  if (!about.name.empty()) line["name"] = about.name;
  if (!about.device.empty()) line["device"] = about.device;
  line["text"] = sentence;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void Write(spdlog::logger& file, spdlog::logger* foreground, spdlog::level::level_enum level,
           const char* name, const std::string& sentence, const LogSubject& about) {
  if (!file.should_log(level)) return;
  file.log(level, "{}", Line(name, sentence, about));
  if (foreground != nullptr) foreground->log(level, "{}", sentence);
}

}  // namespace

absl::StatusOr<Logger> Logger::Open(const std::string& path, const std::string& level, bool also_stderr) {
  const auto parsed = spdlog::level::from_str(level);
  if (parsed == spdlog::level::off) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no log level '", level, "'. The levels are: debug, info, warning, error."));
  }
  std::shared_ptr<spdlog::logger> file, foreground;
  try {
    file = Make(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, 4 << 20, 1), parsed, "%v");
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(absl::StrCat("cannot write the log: ", error.what()));
  }
  if (also_stderr)
    foreground =
        Make(std::make_shared<spdlog::sinks::stderr_sink_mt>(), parsed, "%Y-%m-%d %H:%M:%S.%e %l: %v");
  return Logger(std::move(file), std::move(foreground));
}

bool Logger::debug() const { return file_->should_log(spdlog::level::debug); }

void Logger::Debug(const std::string& sentence, const LogSubject& about) {
  Write(*file_, foreground_.get(), spdlog::level::debug, "debug", sentence, about);
}
void Logger::Info(const std::string& sentence, const LogSubject& about) {
  Write(*file_, foreground_.get(), spdlog::level::info, "info", sentence, about);
}
void Logger::Warning(const std::string& sentence, const LogSubject& about) {
  Write(*file_, foreground_.get(), spdlog::level::warn, "warning", sentence, about);
}
void Logger::Error(const std::string& sentence, const LogSubject& about) {
  Write(*file_, foreground_.get(), spdlog::level::err, "error", sentence, about);
}

}  // namespace hocket::coordinator
