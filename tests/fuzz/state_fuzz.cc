// State files with any content, as a full disk or another version may leave them: read or passed over, never
// more than that; and what is read can be written and is then read the same.
//
// The input: a job's file, and after the first zero byte the settings.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/server/admission.h"
#include "coordinator/server/state_files.h"
#include "csrc/base/check.h"
#include "tests/fuzz/folder.h"

namespace hocket::coordinator {
namespace {

constexpr JobId kJob = 7;

void CheckJob(StateFiles& files) {
  const auto job = files.Read(kJob);
  if (!job) return;
  if (job->settings) {
    const JobSettings& settings = *job->settings;
    HOCKET_CHECK(CheckWeight(settings.weight).ok() && CheckPriority(settings.priority).ok())
        << settings.weight;
    HOCKET_CHECK(settings.group.empty() || CheckGroupName(settings.group).ok()) << settings.group;
  }
  if (job->time) HOCKET_CHECK(CheckTimeCap(job->time->cap).ok()) << job->time->cap;
  HOCKET_CHECK(files.Write(*job).empty()) << "what was read cannot be written";
  const auto again = files.Read(kJob);
  HOCKET_CHECK(again && again->pid == job->pid && again->process_start == job->process_start)
      << "another process";
  HOCKET_CHECK(again->settings.has_value() == job->settings.has_value()) << "settings are lost";
  if (job->settings)
    HOCKET_CHECK(again->settings->weight == job->settings->weight &&
                 again->settings->group == job->settings->group &&
                 again->settings->memory_guarantee == job->settings->memory_guarantee &&
                 again->settings->time_guarantee == job->settings->time_guarantee)
        << "settings change";
  HOCKET_CHECK(again->time.has_value() == job->time.has_value()) << "its time is lost";
}

void CheckSettings(StateFiles& files) {
  const Settings settings = files.ReadSettings();
  HOCKET_CHECK(files.Write(settings).empty()) << "what was read cannot be written";
  const Settings again = files.ReadSettings();
  HOCKET_CHECK(again.policy == settings.policy && again.switch_share == settings.switch_share &&
               again.overdue == settings.overdue && again.link_bound == settings.link_bound &&
               again.most_together == settings.most_together)
      << "settings change";
  HOCKET_CHECK(again.quotas == settings.quotas) << "quotas change";
}

}  // namespace
}  // namespace hocket::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket::coordinator;
  const std::string& folder = hocket::fuzz::Folder();
  static StateFiles& files = *new StateFiles(folder, folder);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  hocket::fuzz::WriteFile(folder + "/jobs/7", text.substr(0, end));
  hocket::fuzz::WriteFile(folder + "/settings", end == std::string::npos ? "" : text.substr(end + 1));
  CheckJob(files);
  CheckSettings(files);
  return 0;
}
