#include "tests/allocator/emulated_gpu.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "csrc/base/check.h"

namespace hocket::testing {
namespace {

// What the wrapped table does; one per process, as the driver is.
struct Script {
  std::mutex mutex;
  DriverTable real;
  std::map<std::string, int> calls;
  std::map<std::string, int> given;
  int fail_in = 0;  // the call that counts this down to 0 fails; 0: none
  cuda::Result error = 0;
  std::string fail_always;
  std::string fail_next;
  std::string skip_always;
  std::string awaited;  // its next call begins with `happens`
  int awaited_in = 0;   // or the call that counts this down to 0
  std::function<void()> happens;
  bool maps_host_memory = true;
  bool maps_read_only = true;
  std::string failed;
};

Script& TheScript() {
  static Script script;
  return script;
}

bool MayFail(const std::string& name) {
  static const std::set<std::string> never = {"Init",
                                              "GetErrorName",
                                              "CtxGetCurrent",
                                              "StreamIsCapturing",
                                              "ThreadExchangeStreamCaptureMode",
                                              "MemRelease",
                                              "MemAddressFree",
                                              "StreamDestroy",
                                              "EventDestroy",
                                              "MemHostUnregister",
                                              "CtxSetCurrent"};
  return never.count(name) == 0;
}

bool IsOfMemory(const std::string& name) {
  return name.starts_with("Mem") && name != "MemGetInfo" && name != "MemGetAllocationGranularity";
}

void Happen(const char* name) {
  std::function<void()> happens;
  {
    Script& script = TheScript();
    const std::lock_guard<std::mutex> lock(script.mutex);
    const bool counted = script.awaited_in > 0 && IsOfMemory(name) && --script.awaited_in == 0;
    if (counted || script.awaited == name) happens = std::exchange(script.happens, nullptr);
  }
  if (happens) happens();
}

// What this call answers in the driver's place; nothing where the driver is to be called.
std::optional<cuda::Result> Next(const char* name) {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  ++script.calls[name];
  if (script.skip_always == name) return cuda::kSuccess;
  if (script.fail_always == name) return script.error;
  if (script.fail_next == name) {
    script.fail_next.clear();
    return script.error;
  }
  if (script.fail_in == 0 || !MayFail(name) || --script.fail_in > 0) return std::nullopt;
  script.failed = name;
  return script.error;
}

// A call gives something (1) or takes it back (-1).
void Succeeded(const std::string& name) {
  static const std::map<std::string, std::pair<std::string, int>> changes = {
      {"MemAddressReserve", {"MemAddressReserve", 1}},
      {"MemAddressFree", {"MemAddressReserve", -1}},
      {"MemCreate", {"MemCreate", 1}},
      {"MemImport", {"MemCreate", 1}},
      {"MemRelease", {"MemCreate", -1}},
      {"MemHostRegister", {"MemHostRegister", 1}},
      {"MemHostUnregister", {"MemHostRegister", -1}},
      {"StreamCreate", {"StreamCreate", 1}},
      {"StreamDestroy", {"StreamCreate", -1}},
      {"EventCreate", {"EventCreate", 1}},
      {"EventDestroy", {"EventCreate", -1}}};
  const auto found = changes.find(name);
  if (found == changes.end()) return;
  const std::lock_guard<std::mutex> lock(TheScript().mutex);
  TheScript().given[found->second.first] += found->second.second;
}

template <auto Member, const char* const& Name, typename Function>
struct Wrapped;
template <auto Member, const char* const& Name, typename... Args>
struct Wrapped<Member, Name, cuda::Result (*)(Args...)> {
  static cuda::Result Call(Args... args) {
    Happen(Name);
    if (const std::optional<cuda::Result> answer = Next(Name)) return *answer;
    const cuda::Result result = (TheScript().real.*Member)(args...);
    if (result == cuda::kSuccess) Succeeded(Name);
    return result;
  }
};

#define HOCKET_NAME(member, name, parameters) const char* const k##member = #member;
HOCKET_DRIVER_FUNCTIONS(HOCKET_NAME)
HOCKET_DRIVER_OPTIONAL_FUNCTIONS(HOCKET_NAME)

cuda::Result DeviceGetAttribute(int* value, int attribute, cuda::Device device) {
  const auto ask = &Wrapped<&DriverTable::DeviceGetAttribute, kDeviceGetAttribute,
                            decltype(DriverTable::DeviceGetAttribute)>::Call;
  const cuda::Result result = ask(value, attribute, device);
  const std::lock_guard<std::mutex> lock(TheScript().mutex);
  if (attribute == cuda::kAttributeHostMapping && !TheScript().maps_host_memory) *value = 0;
  return result;
}

cuda::Result MemSetAccess(DevicePtr address, std::size_t size, const cuda::AccessDescription* access,
                          std::size_t count) {
  {
    const std::lock_guard<std::mutex> lock(TheScript().mutex);
    if (!TheScript().maps_read_only && access->flags == cuda::kAccessRead) return cuda::kInvalidValue;
  }
  return Wrapped<&DriverTable::MemSetAccess, kMemSetAccess, decltype(DriverTable::MemSetAccess)>::Call(
      address, size, access, count);
}

DriverTable Wrap(const DriverTable& real) {
  TheScript().real = real;
  DriverTable table;
#define HOCKET_WRAP(member, name, parameters) \
  table.member = &Wrapped<&DriverTable::member, k##member, decltype(DriverTable::member)>::Call;
  HOCKET_DRIVER_FUNCTIONS(HOCKET_WRAP)
  HOCKET_DRIVER_OPTIONAL_FUNCTIONS(HOCKET_WRAP)
  table.DeviceGetAttribute = &DeviceGetAttribute;
  table.MemSetAccess = &MemSetAccess;
  return table;
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  HOCKET_CHECK(value.ok()) << value.status().message();
  return *std::move(value);
}

// A device for this process and its children, gone with it.
void ChooseDevice() {
  if (std::getenv("HOCKET_EMULATOR_NAME") != nullptr) return;
  const std::string name = "allocator-test-" + std::to_string(getpid());
  setenv("HOCKET_EMULATOR_NAME", name.c_str(), /*overwrite=*/1);
  static const std::string page = "/dev/shm/hocket-emulator-" + std::to_string(geteuid()) + "-" + name;
  std::atexit([] { unlink(page.c_str()); });
}

}  // namespace

EmulatedGpu& EmulatedGpu::Get() {
  static EmulatedGpu* const gpu = new EmulatedGpu();
  return *gpu;
}

EmulatedGpu::EmulatedGpu() {
  ChooseDevice();
  setenv("HOCKET_EMULATOR_MEMORY", "256MiB", /*overwrite=*/0);
  setenv("HOCKET_EMULATOR_CHECK", "1", /*overwrite=*/0);
  driver_ = Must(Driver::Open(Wrap(Must(DriverTable::Load(HOCKET_EMULATED_DRIVER)))));
  UseContext();
  stream_ = Must(driver_->CreateStream());
  void* library = dlopen(HOCKET_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  const auto offset = reinterpret_cast<std::ptrdiff_t (*)()>(dlsym(library, "hocket_emulator_alias_offset"));
  HOCKET_CHECK(offset != nullptr) << "this driver has no alias of device memory";
  alias_offset_ = offset();
  lose_ = reinterpret_cast<decltype(lose_)>(dlsym(library, "hocket_emulator_lose"));
  begin_kernel_ = reinterpret_cast<decltype(begin_kernel_)>(dlsym(library, "hocket_emulator_begin_kernel"));
  end_kernel_ = reinterpret_cast<decltype(end_kernel_)>(dlsym(library, "hocket_emulator_end_kernel"));
  begin_capture_ = reinterpret_cast<decltype(begin_capture_)>(dlsym(library, "cuStreamBeginCapture_v2"));
  end_capture_ = reinterpret_cast<decltype(end_capture_)>(dlsym(library, "cuStreamEndCapture"));
  wait_event_ = reinterpret_cast<decltype(wait_event_)>(dlsym(library, "cuStreamWaitEvent"));
  launch_host_function_ =
      reinterpret_cast<decltype(launch_host_function_)>(dlsym(library, "cuLaunchHostFunc"));
}

void EmulatedGpu::UseContext() {
  if (driver_->CurrentContext() != nullptr) return;
  HOCKET_CHECK(driver_->UseContext(Must(driver_->PrimaryContext(0))).ok()) << "no context";
}

Bytes EmulatedGpu::capacity() { return Must(driver_->MemoryInfo()).total; }

Bytes EmulatedGpu::used() {
  const DeviceMemory memory = Must(driver_->MemoryInfo());
  return memory.total - memory.free;
}

void EmulatedGpu::Copy(std::function<absl::Status(Stream)> copy) {
  UseContext();
  absl::Status status = copy(stream_);
  if (status.ok()) status = driver_->SynchronizeStream(stream_);
  HOCKET_CHECK(status.ok()) << status.message();
}

void EmulatedGpu::Fill(DevicePtr address, Bytes size, unsigned char value) {
  const std::vector<unsigned char> bytes(size, value);
  Copy([&](Stream stream) { return driver_->CopyToDevice(address, bytes.data(), size, stream); });
}

std::vector<unsigned char> EmulatedGpu::Read(DevicePtr address, Bytes size) {
  std::vector<unsigned char> bytes(size);
  Copy([&](Stream stream) { return driver_->CopyToHost(bytes.data(), address, size, stream); });
  return bytes;
}

bool AllAre(unsigned char value, const unsigned char* bytes, Bytes size) {
  // Each byte equals its neighbour. A sanitizer watches this one comparison, not one per byte.
  return size == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, size - 1) == 0);
}

bool EmulatedGpu::Holds(DevicePtr address, Bytes size, unsigned char value) {
  const std::vector<unsigned char> bytes = Read(address, size);
  return AllAre(value, bytes.data(), bytes.size());
}

void EmulatedGpu::RunKernel(const char* name, Stream stream, DevicePtr address, Bytes size, bool writes,
                            absl::FunctionRef<void()> compute) {
  UseContext();
  const HocketEmulatorRange range = {address, size, writes ? 1 : 0};
  begin_kernel_(stream, name, &range, 1);
  compute();
  end_kernel_(stream, &range, 1);
}

void EmulatedGpu::WaitForStream(Stream later, Stream earlier) {
  UseContext();
  const EventHandle event = Must(driver_->CreateEvent());
  HOCKET_CHECK(driver_->RecordEvent(event, earlier).ok()) << "no event";
  HOCKET_CHECK(wait_event_(later, event, 0) == cuda::kSuccess) << "no wait";
  (void)driver_->DestroyEvent(event);
}

void EmulatedGpu::KeepBusy(Stream stream, std::atomic<bool>* go) {
  const auto await = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); };
  HOCKET_CHECK(launch_host_function_(stream, await, go) == cuda::kSuccess) << "not queued";
}

void EmulatedGpu::BeginCapture(Stream stream) {
  constexpr int kOtherThreadsGoOn = 1;
  HOCKET_CHECK(begin_capture_(stream, kOtherThreadsGoOn) == cuda::kSuccess) << "no capture";
}

void EmulatedGpu::EndCapture(Stream stream) {
  void* graph = nullptr;
  HOCKET_CHECK(end_capture_(stream, &graph) == cuda::kSuccess) << "no capture";
}

void EmulatedGpu::FailKernel(cuda::Result error) { lose_(error); }

void EmulatedGpu::FailCall(int n, cuda::Result error) {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  script.fail_in = n;
  script.error = error;
  script.failed.clear();
}

void EmulatedGpu::FailEvery(const std::string& name, cuda::Result error) {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  script.fail_always = name;
  script.error = error;
}

void EmulatedGpu::FailNext(const std::string& name, cuda::Result error) {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  script.fail_next = name;
  script.error = error;
}

void EmulatedGpu::TakeContextEventsAway() { FailEvery("CtxRecordEvent", 801); }

void EmulatedGpu::ForbidReadOnly() {
  const std::lock_guard<std::mutex> lock(TheScript().mutex);
  TheScript().maps_read_only = false;
}

void EmulatedGpu::SkipEvery(const std::string& name) {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  script.skip_always = name;
}

void EmulatedGpu::OnNext(const std::string& name, std::function<void()> happens) {
  const std::lock_guard<std::mutex> lock(TheScript().mutex);
  TheScript().awaited = name;
  TheScript().happens = std::move(happens);
}

void EmulatedGpu::OnMemoryCall(int n, std::function<void()> happens) {
  const std::lock_guard<std::mutex> lock(TheScript().mutex);
  TheScript().awaited_in = n;
  TheScript().happens = std::move(happens);
}

void EmulatedGpu::FailNoCall() {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  script.fail_in = 0;
  script.failed.clear();
  script.fail_always.clear();
  script.fail_next.clear();
  script.skip_always.clear();
  script.awaited.clear();
  script.awaited_in = 0;
  script.maps_host_memory = true;
  script.maps_read_only = true;
}

void EmulatedGpu::SetMapsHostMemory(bool maps) {
  const std::lock_guard<std::mutex> lock(TheScript().mutex);
  TheScript().maps_host_memory = maps;
}

std::string EmulatedGpu::FailedCall() const {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  return script.failed;
}

std::map<std::string, int> EmulatedGpu::Given() const {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  std::map<std::string, int> given = script.given;
  std::erase_if(given, [](const auto& each) { return each.second == 0; });
  return given;
}

std::map<std::string, int> EmulatedGpu::Calls() const {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  return script.calls;
}

void EmulatedGpu::ForgetCalls() {
  Script& script = TheScript();
  const std::lock_guard<std::mutex> lock(script.mutex);
  script.calls.clear();
}

ScriptedGate::ScriptedGate()
    : await_turn([] { return absl::InternalError("nobody gives the turn"); }),
      await_room([](Bytes) { return absl::ResourceExhaustedError("nobody gives room"); }) {}

void ScriptedGate::ArenaGrew(ArenaChunkId chunk, Bytes size, UniqueFd descriptor) {
  grew(chunk, size, std::move(descriptor));
}

void ScriptedGate::ArenaLost(ArenaChunkId chunk) { lost(chunk); }

}  // namespace hocket::testing
