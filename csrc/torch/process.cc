#include "csrc/torch/process.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <pthread.h>

#include <utility>

#include "csrc/base/status_macros.h"
#include "csrc/client/process_end.h"
#include "csrc/torch/cuda_allocator.h"
#include "csrc/torch/torch_version.h"

namespace hocket {
namespace {

// A step that this thread is in.
struct OpenStep {
  const Devices::Table* table;  // whose participants it began on
  std::vector<Client*> late;    // and those that joined since
};
thread_local std::vector<OpenStep> open_steps;  // outermost first

bool CudaHasStarted() {
  pytorch::caching::CUDAAllocator* current = pytorch::caching::get();
  return current != nullptr && current->initialized();
}

void EndAll(const std::vector<Client*>& clients, bool count) {
  for (auto client = clients.rbegin(); client != clients.rend(); ++client) (*client)->EndStep(count);
}

}  // namespace

Process& Process::Get() {
  static Process* process = new Process;
  return *process;
}

Process::Process() {
  devices_.OnJoin(&BeginLate);
  pthread_atfork(nullptr, nullptr, [] { Get().forked_ = true; });
}

std::string Process::BuiltFor() { return HOCKET_TORCH_VERSION; }

absl::Status Process::Install() {
  if (forked_ || installed_) return absl::OkStatus();
  if (CudaHasStarted()) {
    return absl::FailedPreconditionError(
        "Hocket's allocator cannot become PyTorch's: CUDA has started in this process.\n"
        "  Import hocket (in C++: make the hocket::Job) before the first use of the GPU.");
  }
  devices_.ManageMemory();
  allocator_ = std::make_shared<CudaAllocator>(devices_, forked_);
  pytorch::changeCurrentAllocator(allocator_);
  // What torch.accelerator asks. PyTorch's own is registered with priority 1.
  c10::SetAllocator(c10::kCUDA, allocator_.get(), /*priority=*/2);
  installed_ = true;
  return absl::OkStatus();
}

void Process::Configure(const JobOptions& options) { devices_.Configure(options); }

void Process::SetHooks(BlockingHooks hooks) { SetBlockingHooks(std::move(hooks)); }

absl::Status Process::Join() {
  if (forked_ || !devices_.table().devices.empty()) return absl::OkStatus();
  if (!CudaHasStarted()) return devices_.UseCpu();
  return devices_.Use(c10::cuda::current_device()).status();
}

bool Process::Undecided() {
  if (stepped_ || stepped_.exchange(true)) return false;
  return !devices_.joined() && !CudaHasStarted() && c10::cuda::device_count() > 0;
}

absl::Status Process::BeginStep() {
  if (forked_) return absl::OkStatus();
  if (!Undecided()) HOCKET_RETURN_IF_ERROR(Join());
  const Devices::Table& table = devices_.table();
  for (size_t i = 0; i < table.participants.size(); ++i) {
    absl::Status begun = table.participants[i]->BeginStep();
    if (begun.ok()) continue;
    EndAll({table.participants.begin(), table.participants.begin() + i}, /*count=*/false);
    return begun;
  }
  open_steps.push_back({&table, {}});
  return absl::OkStatus();
}

absl::Status Process::BeginLate(Client* client) {
  if (open_steps.empty()) return absl::OkStatus();
  HOCKET_RETURN_IF_ERROR(client->BeginStep());
  open_steps.front().late.push_back(client);
  return absl::OkStatus();
}

void Process::EndStep(bool count) {
  if (forked_ || open_steps.empty()) return;
  const OpenStep step = std::move(open_steps.back());
  open_steps.pop_back();
  EndAll(step.late, count);
  EndAll(step.table->participants, count);
}

void Process::JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) {
  if (!forked_) devices_.JoinGang(gang, rank, size);
}

void Process::Leave() {
  if (!forked_) devices_.Leave();
}

void Process::LeaveAtExit() {
  if (!forked_) hocket::LeaveAtExit();
}

JobInfo Process::Info() const {
  const bool joined = devices_.joined();  // first: it becomes true after the table that says where
  const Devices::Table& table = devices_.table();
  if (!table.participants.empty()) return table.participants.front()->Info();
  JobInfo info;
  info.name = devices_.options().name;
  info.device_name = table.devices.empty() ? "CPU" : table.devices.front()->name;
  info.joined = joined;
  return info;
}

std::vector<Process::DeviceHoldings> Process::Held() const {
  std::vector<DeviceHoldings> result;
  if (forked_) return result;
  for (const Devices::Device* device : devices_.table().devices) {
    if (device->allocator) result.push_back({device->ordinal, device->uuid, device->allocator->Held()});
  }
  return result;
}

}  // namespace hocket
