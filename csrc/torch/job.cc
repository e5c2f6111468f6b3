#include "csrc/client/job.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "csrc/torch/process.h"

namespace hocket {
namespace {

std::atomic<bool> made{false};

void ThrowIfFailed(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// As Hocket's Python package does.
absl::Status UseAllocator() {
  const char* const said = std::getenv("HOCKET_ALLOCATOR");
  const std::string chosen = said == nullptr ? "" : said;
  if (chosen.empty() || chosen == "hocket") return Process::Get().Install();
  if (chosen == "native") return Process::Get().KeepNative().status();
  if (chosen == "off") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("HOCKET_ALLOCATOR=\"", chosen, "\": it must be one of hocket, native, off."));
}

}  // namespace

Job::Job(const JobOptions& options) {
  if (made.exchange(true)) {
    throw std::runtime_error("a process is one hocket::Job: this one has made another before.");
  }
  JobOptions with_version = options;
  with_version.torch_version = Process::BuiltFor();
  Process::Get().Configure(with_version);
  ThrowIfFailed(UseAllocator());
}

Job::~Job() { Process::Get().Leave(); }

Job::Scope Job::Step() {
  ThrowIfFailed(Process::Get().BeginStep());
  return Scope();
}

Job::Scope::~Scope() {
  if (open_) Process::Get().EndStep(/*count=*/true);
}

JobInfo Job::Info() const { return Process::Get().Info(); }

}  // namespace hocket
