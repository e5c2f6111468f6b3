#include "csrc/torch/devices.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "csrc/base/say.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/make_in_step.h"
#include "csrc/torch/alloc_conf.h"

namespace hocket {
namespace {

// For a process without a coordinator: it always has the turn, and nobody can make room.
class OpenGate final : public Gate {
 public:
  bool HoldsTurn() const override { return true; }
  absl::Status AwaitTurn() override { return absl::OkStatus(); }
  absl::Status AwaitRoom(Bytes bytes) override {
    return absl::ResourceExhaustedError(
        absl::StrCat(FormatBytes(bytes),
                     " more are not free on the device, and without a coordinator nobody can be "
                     "asked for room."));
  }
  void ArenaGrew(ArenaChunkId, Bytes, UniqueFd) override {}
  void ArenaLost(ArenaChunkId) override {}
};

// The size in an environment variable, or `otherwise`.
absl::StatusOr<Bytes> SizeFromEnvironment(const char* variable, Bytes otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == 0) return otherwise;
  absl::StatusOr<Bytes> size = ParseBytes(text);
  if (size.ok()) return size;
  return absl::InvalidArgumentError(absl::StrCat(variable, ": ", std::string(size.status().message())));
}

constexpr Bytes kContext = 640_MiB;  // with the first kernels: docs/decisions/0043

// docs/decisions/0043: the first side stream, and a library's handle or two.
Bytes HeadroomFor(Bytes capacity) { return std::min(capacity / 128, 192_MiB); }

absl::StatusOr<AllocatorOptions> ReadOptions(int device, Bytes capacity, Bytes memory_limit,
                                             bool coordinated) {
  AllocatorOptions options;
  options.device = device;
  options.memory_limit = memory_limit;
  options.shares_arena = coordinated;
  options.verify = Devices::Verifies();
  HOCKET_ASSIGN_OR_RETURN(options.chunk_size, SizeFromEnvironment("HOCKET_CHUNK_SIZE", 0));
  HOCKET_ASSIGN_OR_RETURN(options.host_budget, SizeFromEnvironment("HOCKET_HOST_BUDGET", 0));
  HOCKET_ASSIGN_OR_RETURN(options.headroom, SizeFromEnvironment("HOCKET_HEADROOM", HeadroomFor(capacity)));
  if (options.headroom > capacity / 2)
    return absl::InvalidArgumentError(
        absl::StrCat("HOCKET_HEADROOM: ", FormatBytes(options.headroom), " of the ", FormatBytes(capacity),
                     " of device ", device, " cannot be kept free.\n  Give at most half of it, or 0."));
  return options;
}

}  // namespace

bool Devices::Verifies() {
  const char* const verify = std::getenv("HOCKET_VERIFY");
  return verify != nullptr && std::string_view(verify) == "1";
}

Bytes Devices::Device::Limit() const { return allocator->MemoryLimit(); }

Bytes Devices::Device::Room() const {
  const Bytes limit = Limit();  // read once: it may be set meanwhile
  return limit - std::min(limit, allocator->InUse().allocated + unmanaged);
}

void Devices::ManageSegments(std::function<void(int)> shed_cache, std::vector<Bytes> unmanaged) {
  shed_cache_ = std::move(shed_cache);
  unmanaged_ = std::move(unmanaged);
  manages_memory_ = true;
}

void Devices::Configure(const JobOptions& options) {
  absl::MutexLock lock(&mutex_);
  options_ = options;
}

JobOptions Devices::options() const {
  absl::MutexLock lock(&mutex_);
  return options_;
}

absl::StatusOr<Devices::Device*> Devices::Use(int ordinal) {
  for (;;) {
    if (Device* device = Find(ordinal)) return device;
    Client* joined = nullptr;
    WithoutContext lacks;
    absl::StatusOr<Device*> device = FindOrMake(ordinal, &joined, &lacks);
    if (device.ok() && joined != nullptr && on_join_) HOCKET_RETURN_IF_ERROR(on_join_(joined));
    if (device.ok() || lacks.client == nullptr) return device;
    HOCKET_RETURN_IF_ERROR(MakeInStep(*lacks.client, lacks.room,
                                      [&] { return lacks.driver->PrimaryContext(ordinal).status(); }));
  }
}

absl::StatusOr<Devices::Device*> Devices::FindOrMake(int ordinal, Client** joined, WithoutContext* lacks) {
  absl::MutexLock lock(&mutex_);
  if (Device* device = Find(ordinal)) return device;
  std::unique_ptr<Device>* begun = nullptr;
  for (std::unique_ptr<Device>& device : begun_) {
    if (device->ordinal == ordinal) begun = &device;
  }
  if (begun == nullptr) {
    HOCKET_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, Begin(ordinal));
    begun = &begun_.emplace_back(std::move(device));
  }
  Device& device = **begun;
  if (manages_memory_) {
    const absl::Status context = driver_->PrimaryContext(ordinal).status();
    if (absl::IsResourceExhausted(context) && device.client) {
      *lacks = {device.client.get(), driver_.get(), std::min(kContext, device.capacity / 8)};
      return context;
    }
    HOCKET_RETURN_IF_ERROR(context);
    HOCKET_RETURN_IF_ERROR(MakeAllocator(device));
  }
  LeaveCpu();
  *joined = device.client.get();
  devices_.push_back(std::move(*begun));
  std::erase(begun_, nullptr);
  Publish();
  return devices_.back().get();
}

absl::StatusOr<std::unique_ptr<Devices::Device>> Devices::Begin(int ordinal) {
  HOCKET_ASSIGN_OR_RETURN(Driver * driver, OpenDriver());
  auto device = std::make_unique<Device>();
  device->ordinal = ordinal;
  HOCKET_ASSIGN_OR_RETURN(device->uuid, driver->DeviceUuid(ordinal));
  HOCKET_ASSIGN_OR_RETURN(device->name, driver->DeviceName(ordinal));
  HOCKET_ASSIGN_OR_RETURN(device->capacity, driver->DeviceCapacity(ordinal));
  if (manages_memory_) HOCKET_RETURN_IF_ERROR(driver->CheckVirtualMemory(ordinal));
  HOCKET_ASSIGN_OR_RETURN(device->client, Join(device->uuid, device->name, device->capacity));
  return device;
}

absl::StatusOr<Driver*> Devices::OpenDriver() {
  if (!driver_) {
    HOCKET_ASSIGN_OR_RETURN(driver_, Driver::Open());
  }
  return driver_.get();
}

absl::StatusOr<std::unique_ptr<Client>> Devices::Join(const std::string& uuid, const std::string& name,
                                                      Bytes capacity) {
  if (left_) return nullptr;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Join(options_, uuid, name, capacity);
  if (absl::IsUnavailable(client.status())) {
    if (!std::exchange(said_uncoordinated_, true))
      Say(absl::StrCat(client.status().message(), "\n  Running without coordination."));
    return nullptr;
  }
  if (client.ok() && gang_.size > 0) (*client)->JoinGang(gang_.gang, gang_.rank, gang_.size);
  return client;
}

void Devices::HeedSettings(std::string_view settings) {
  absl::MutexLock lock(&mutex_);
  HeedEnvironment();
  Heed("settings of the allocator", settings);
}

// Under its own allocator PyTorch does so itself.
void Devices::HeedEnvironment() {
  if (shed_cache_ || std::exchange(heeded_environment_, true)) return;
  const AllocConfVariable variable = FindAllocConf();
  Heed(variable.name, variable.value);
}

void Devices::Heed(const std::string& where_from, std::string_view settings) {
  AllocConf conf = ParseAllocConf(settings);
  if (conf.rejects_early) rejects_early_ = *conf.rejects_early;
  if (conf.memory_fraction) {
    own_fraction_ = *conf.memory_fraction;
    for (const std::unique_ptr<Device>& device : devices_) LimitToOwn(*device);
  }
  SayWhatHasNoEffect(where_from, std::move(conf.without_effect));
}

void Devices::SayWhatHasNoEffect(const std::string& where_from, std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& name) { return !said_without_effect_.insert(name).second; });
  if (names.empty()) return;
  Say(absl::StrCat(where_from, ": no effect here: ", absl::StrJoin(names, ", "),
                   ". HOCKET_ALLOCATOR=native keeps PyTorch's own allocator."));
}

void Devices::LimitToOwn(Device& device) const {
  device.allocator->SetOwnLimit(static_cast<Bytes>(own_fraction_ * static_cast<double>(device.capacity)));
}

absl::Status Devices::MakeAllocator(Device& device) {
  if (!device.client) device.open_gate = std::make_unique<OpenGate>();
  Gate* gate = device.client ? device.client.get() : device.open_gate.get();
  HOCKET_ASSIGN_OR_RETURN(
      AllocatorOptions options,
      ReadOptions(device.ordinal, device.capacity, options_.memory_limit, device.client != nullptr));
  if (shed_cache_) {
    options.serves_segments = true;
    options.shed_cache = [this, ordinal = device.ordinal] { shed_cache_(ordinal); };
    const auto ordinal = static_cast<size_t>(device.ordinal);
    device.unmanaged = ordinal < unmanaged_.size() ? unmanaged_[ordinal] : 0;
  }
  HOCKET_ASSIGN_OR_RETURN(device.allocator, CachingAllocator::Create(*driver_, options, gate));
  device.allocator->ExpectStrays(expects_strays_);
  HeedEnvironment();
  LimitToOwn(device);
  if (device.client) device.client->SetAllocator(device.allocator.get());
  return absl::OkStatus();
}

Devices::Device* Devices::Find(int ordinal) const {
  for (Device* device : table().devices) {
    if (device->ordinal == ordinal) return device;
  }
  return nullptr;
}

Devices::Device* Devices::OwnerOf(DevicePtr address) const {
  for (Device* device : table().devices) {
    if (device->allocator && device->allocator->Owns(address)) return device;
  }
  return nullptr;
}

absl::Status Devices::UseCpu() {
  if (joined()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (joined() || !joins_cpu_) return absl::OkStatus();
  HOCKET_ASSIGN_OR_RETURN(cpu_, Join("cpu", "CPU", 0));
  Publish();
  return absl::OkStatus();
}

// The object stays: a thread may be in a step that it began there.
void Devices::LeaveCpu() {
  if (cpu_) cpu_->Leave();
}

void Devices::Publish() {
  auto* table = new Table;
  for (const auto& device : devices_) table->devices.push_back(device.get());
  std::sort(table->devices.begin(), table->devices.end(),
            [](Device* a, Device* b) { return a->uuid < b->uuid; });
  for (Device* device : table->devices) {
    if (device->client) table->participants.push_back(device->client.get());
  }
  if (devices_.empty() && cpu_) table->participants.push_back(cpu_.get());
  if (table->participants.size() > 1) {  // a process waits for one turn while it has another
    for (Client* client : table->participants) client->KeepTurnInSteps();
  }
  table_.store(table, std::memory_order_release);
  joined_.store(true, std::memory_order_release);
}

void Devices::JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) {
  absl::MutexLock lock(&mutex_);
  gang_ = {gang, rank, size};
  for (Client* client : table().participants) client->JoinGang(gang, rank, size);
  for (const std::unique_ptr<Device>& device : begun_) {
    if (device->client) device->client->JoinGang(gang, rank, size);
  }
}

bool Devices::StartAnewInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.TryLock()) return false;  // a thread that does not exist here was putting a device to use
  const bool unused = driver_ == nullptr;
  if (unused) {
    [[maybe_unused]] const Client* const parents = cpu_.release();  // cut off; a step may have begun on it
    gang_ = {};
    left_ = false;
    joins_cpu_ = false;
    table_.store(new Table, std::memory_order_release);
    joined_.store(false, std::memory_order_release);
  }
  mutex_.Unlock();
  return unused;
}

void Devices::ExpectStrays(bool expected) {
  absl::MutexLock lock(&mutex_);
  expects_strays_ = expected;
  for (const std::unique_ptr<Device>& device : devices_) {
    if (device->allocator) device->allocator->ExpectStrays(expected);
  }
}

void Devices::Leave() {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(left_, true)) return;
  for (Client* client : table().participants) client->Leave();
  for (const std::unique_ptr<Device>& device : begun_) {
    if (device->client) device->client->Leave();
  }
  joined_.store(true, std::memory_order_release);
}

}  // namespace hocket
