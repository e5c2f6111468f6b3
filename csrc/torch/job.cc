#include "csrc/client/job.h"

#include <atomic>
#include <stdexcept>

#include "csrc/torch/process.h"

namespace hocket {
namespace {

std::atomic<bool> made{false};

void ThrowIfFailed(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

}  // namespace

Job::Job(const JobOptions& options) {
  if (made.exchange(true)) {
    throw std::runtime_error("a process is one hocket::Job: this one has made another before.");
  }
  JobOptions with_version = options;
  with_version.torch_version = Process::BuiltFor();
  Process::Get().Configure(with_version);
  ThrowIfFailed(Process::Get().Install());
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
