#include "csrc/torch/process.h"

#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/process_end.h"
#include "csrc/torch/constants.h"
#include "csrc/torch/contexts.h"
#include "csrc/torch/cuda_allocator.h"
#include "csrc/torch/interruption.h"
#include "csrc/torch/native_allocator.h"
#include "csrc/torch/out_of_turn.h"
#include "csrc/torch/own_code.h"
#include "csrc/torch/peers.h"
#include "csrc/torch/segments.h"
#include "csrc/torch/settings.h"
#include "csrc/torch/torch_version.h"

namespace hocket {
namespace {

// A step that this thread is in.
struct OpenStep {
  Process::StepId id;
  const Devices::Table* table;  // whose participants it began on
  std::vector<Client*> late;    // and those that joined since
};
thread_local std::vector<OpenStep> open_steps;  // outermost first

// The upper half of a step's id says which thread began it, the lower one counts that thread's.
constexpr int kCountBits = 32;
std::atomic<Process::StepId> threads{0};
thread_local Process::StepId last_id = 0;

Process::StepId NextId() {
  if (last_id == 0) last_id = (threads.fetch_add(1) + 1) << kCountBits;
  return ++last_id;
}

bool IsMine(Process::StepId step) { return step >> kCountBits == last_id >> kCountBits; }

bool CudaHasStarted() {
  pytorch::caching::CUDAAllocator* current = pytorch::caching::get();
  return current != nullptr && current->initialized();
}

// What the allocator holds of each device.
std::vector<Bytes> Reserved(pytorch::caching::CUDAAllocator& allocator) {
  std::vector<Bytes> reserved;
  if (!allocator.initialized()) return reserved;
  for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
    const pytorch::DeviceStats stats = allocator.getDeviceStats(device);
    reserved.push_back(static_cast<Bytes>(stats.reserved_bytes[0].current));
  }
  return reserved;
}

int DevicesUsed(pytorch::caching::CUDAAllocator& allocator) {
  int used = 0;
  if (!allocator.initialized()) return used;
  for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
    const auto reserved = allocator.getDeviceStats(device).reserved_bytes[0];
    used += reserved.current > 0 || reserved.peak > 0 || reserved.allocated > 0 ? 1 : 0;
  }
  return used;
}

absl::Status CheckNative(pytorch::caching::CUDAAllocator& allocator) {
  if (allocator.name() != "native") {
    return absl::FailedPreconditionError(
        absl::StrCat("PyTorch uses its allocator \"", allocator.name(),
                     "\", whose memory Hocket cannot manage.\n  Set PYTORCH_ALLOC_CONF=backend:native, or "
                     "import hocket before the first use of the GPU and without HOCKET_ALLOCATOR."));
  }
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
    return absl::FailedPreconditionError(
        "PYTORCH_NO_CUDA_MEMORY_CACHING is set: PyTorch's native allocator passes each tensor on to CUDA, "
        "and Hocket would wait for the device at each free.\n  Unset it.");
  }
  if (DevicesUsed(allocator) > 1 && ArePeers()) {
    return absl::FailedPreconditionError(
        "this process has used several devices that are peers: PyTorch may have let kernels of one reach the "
        "other's memory, which Hocket could move meanwhile.\n  Import hocket before the first use of the "
        "GPU, "
        "or use one device in the process.");
  }
  return absl::OkStatus();
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
  pthread_atfork(nullptr, nullptr, [] { Get().AfterForkInChild(); });
}

void Process::AfterForkInChild() {
  open_steps.clear();
  abandoned_ = 0;
  ForgetOwnCode();
  if (!CudaHasStarted() && devices_.StartAnewInChild()) {
    stepped_ = false;
  } else {
    forked_ = true;
  }
}

std::string Process::BuiltFor() { return HOCKET_TORCH_VERSION; }

absl::Status Process::Install() {
  if (forked_ || installed_) return absl::OkStatus();
  if (CudaHasStarted()) {
    return absl::FailedPreconditionError(
        "Hocket's allocator cannot become PyTorch's: CUDA has started in this process.\n"
        "  Import hocket (in C++: make the hocket::Job) before the first use of the GPU.");
  }
  DenyPeerAccess();
  devices_.ManageMemory();
  ReadSettingsOfEnvironment();
  allocator_ = std::make_shared<CudaAllocator>(*pytorch::caching::get(), devices_, forked_);
  pytorch::changeCurrentAllocator(allocator_);
  // What torch.accelerator asks. PyTorch's own is registered with priority 1.
  c10::SetAllocator(c10::kCUDA, allocator_.get(), /*priority=*/2);
  MakeRoomForContexts(devices_, forked_);
  WatchOperators(devices_);
  BringBackForOwnCode(devices_);
  HeedSettings(devices_, forked_);
  installed_ = true;
  return absl::OkStatus();
}

absl::StatusOr<Bytes> Process::KeepNative() {
  if (forked_ || native_ != nullptr) return Bytes{0};
  pytorch::caching::CUDAAllocator& native = *pytorch::caching::get();
  HOCKET_RETURN_IF_ERROR(CheckNative(native));
  HOCKET_RETURN_IF_ERROR(RedirectSegments());
  DenyPeerAccess();
  if (native.initialized()) native.emptyCache();  // what nothing uses need not stay
  auto* const gated = new NativeAllocator(native, devices_, forked_);
  const std::vector<Bytes> held = Reserved(native);
  devices_.ManageSegments([gated](int ordinal) { gated->ShedCache(ordinal); }, held);
  KeepOurSettings();
  pytorch::caching::allocator.store(gated);
  c10::SetAllocator(c10::kCUDA, gated, /*priority=*/2);
  ServeSegments(devices_, forked_);
  MakeRoomForContexts(devices_, forked_);
  WatchOperators(devices_);
  BringBackForOwnCode(devices_);
  native_ = gated;
  return std::accumulate(held.begin(), held.end(), Bytes{0});
}

std::string Process::AllocatorInUse() const {
  return installed_ ? "hocket" : native_ != nullptr ? "native" : "off";
}

void Process::Configure(const JobOptions& options) { devices_.Configure(options); }

void Process::SetStackOfCaller(std::string (*stack)()) { hocket::SetStackOfCaller(stack); }

void Process::SetTakeRaised(std::exception_ptr (*take)()) { hocket::SetTakeRaised(take); }

void Process::SetRaiseSoon(void (*raise)(std::exception_ptr raised)) { hocket::SetRaiseSoon(raise); }

bool Process::RunOwnCode(absl::FunctionRef<bool()> handlers) { return hocket::RunOwnCode(handlers); }

// While they cannot go on: before any of them could come to an operator.
void Process::SetParkingHook(ParkingHook hook) {
  if (!hook) return;
  hocket::SetParkingHook([hook = std::move(hook)](absl::FunctionRef<void(IsWaiting)> park) {
    hook([&](IsWaiting is_waiting) {
      park(is_waiting);
      WatchParked();
    });
  });
}

void Process::WatchVisitor() { hocket::WatchVisitor(); }

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

absl::Status Process::BeginStep(bool guessed) {
  if (forked_) return absl::OkStatus();
  if (abandoned_.load(std::memory_order_relaxed) > 0) EndAbandoned();
  if (!Undecided()) HOCKET_RETURN_IF_ERROR(Join());
  const Devices::Table& table = devices_.table();
  for (size_t i = 0; i < table.participants.size(); ++i) {
    absl::Status begun = table.participants[i]->BeginStep(guessed);
    if (begun.ok()) continue;
    EndAll({table.participants.begin(), table.participants.begin() + i}, /*count=*/false);
    return begun;
  }
  open_steps.push_back({NextId(), &table, {}});
  VisitorIsKnown();
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

Process::StepId Process::LastStep() const { return open_steps.empty() ? 0 : open_steps.back().id; }

absl::Status Process::EndStep(bool count, StepId step) {
  if (forked_ || step == 0) return absl::OkStatus();
  if (!IsMine(step)) {
    absl::MutexLock lock(&mutex_);
    abandoned_steps_.push_back(step);
    ++abandoned_;
    return absl::FailedPreconditionError(
        "a step was ended on another thread than the one that began it, where it ends only with that "
        "thread's next step.\n  Iterate over one hocket.steps(), and leave one hocket.step(), on one thread; "
        "where threads share a loader, give each a hocket.steps() of its own.");
  }
  const bool open =
      std::any_of(open_steps.begin(), open_steps.end(), [&](const OpenStep& o) { return o.id == step; });
  if (!open) return absl::OkStatus();
  while (open_steps.back().id != step) EndStep(/*count=*/false);
  EndStep(count);
  return absl::OkStatus();
}

void Process::EndSteps() {
  while (!forked_ && !open_steps.empty()) EndStep(/*count=*/false);
}

void Process::EndAbandoned() {
  std::vector<StepId> mine;
  {
    absl::MutexLock lock(&mutex_);
    const auto others = std::stable_partition(abandoned_steps_.begin(), abandoned_steps_.end(),
                                              [](StepId step) { return !IsMine(step); });
    mine.assign(others, abandoned_steps_.end());
    abandoned_steps_.erase(others, abandoned_steps_.end());
    abandoned_ -= static_cast<int>(mine.size());
  }
  for (const StepId step : mine) (void)EndStep(/*count=*/false, step);
}

void Process::BeginAway() {
  if (forked_) return;
  for (Client* client : devices_.table().participants) client->BeginAway();
  SetAway(true);
}

absl::Status Process::EndAway() {
  if (forked_) return absl::OkStatus();
  SetAway(false);
  for (Client* client : devices_.table().participants) HOCKET_RETURN_IF_ERROR(client->EndAway());
  return absl::OkStatus();
}

absl::StatusOr<Bytes> Process::DeclareConstant(const c10::TensorImpl& tensor, const std::string& name) {
  const auto address = reinterpret_cast<DevicePtr>(tensor.unsafe_storage().data());
  const Devices::Device* const owner = forked_ ? nullptr : devices_.OwnerOf(address);
  if (owner == nullptr) return Bytes{0};
  return owner->allocator->DeclareConstant(address, PromiseFor(tensor, name));
}

void Process::EndConstant(DevicePtr address) {
  const Devices::Device* const owner = forked_ ? nullptr : devices_.OwnerOf(address);
  if (owner != nullptr) owner->allocator->EndConstant(address);
}

absl::StatusOr<Bytes> Process::SetStage(DevicePtr address, Stage stage) {
  const Devices::Device* const owner = forked_ ? nullptr : devices_.OwnerOf(address);
  return owner == nullptr ? absl::StatusOr<Bytes>(0) : owner->allocator->SetStage(address, stage);
}

absl::Status Process::AwaitStage(Stage stage) {
  if (forked_) return absl::OkStatus();
  for (const Devices::Device* const device : devices_.table().devices) {
    if (device->allocator == nullptr) continue;
    const auto stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device->ordinal));
    HOCKET_RETURN_IF_ERROR(device->allocator->AwaitStage(stage, stream.stream()));
  }
  return absl::OkStatus();
}

void Process::JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) {
  if (!forked_) devices_.JoinGang(gang, rank, size);
}

void Process::ExpectStrays(bool expected) {
  if (!forked_) devices_.ExpectStrays(expected);
}

void Process::Leave() {
  if (!forked_) devices_.Leave();
}

void Process::LeaveAtExit() {
  if (forked_) return;
  if (NativeAllocator* const native = native_) native->StopShedding();
  hocket::LeaveAtExit();
}

JobInfo Process::Info() const {
  const bool joined = devices_.joined();  // first: it becomes true after the table that says where
  const Devices::Table& table = devices_.table();
  if (!table.participants.empty()) return table.participants.front()->Info();
  JobInfo info;
  if (forked_) return info;  // a lock may be held by a thread that does not exist here
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
