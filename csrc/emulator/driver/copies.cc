#include "csrc/emulator/driver/copies.h"

#include <cstring>
#include <memory>
#include <utility>

#include "csrc/emulator/driver/one_operator.h"
#include "csrc/emulator/driver/timed_queue.h"

namespace hocket::emulator {
namespace {

enum class Side { kDevice, kPinned, kPageable, kInvalid };

Side SideOf(Gpu& gpu, std::uint64_t address, Bytes size, int access) {
  if (gpu.memory().window().HasDeviceAddress(address)) {
    if (!gpu.memory().Accessible(address, size, access)) return Side::kInvalid;
    return gpu.memory().IsOnHost(address) ? Side::kPinned : Side::kDevice;
  }
  if (address == 0) return Side::kInvalid;
  return gpu.host().IsPinned(address, size) ? Side::kPinned : Side::kPageable;
}

// Where the process can touch the bytes.
char* Touchable(Gpu& gpu, std::uint64_t address) {
  const Window& window = gpu.memory().window();
  return reinterpret_cast<char*>(window.HasDeviceAddress(address) ? address + window.alias_offset()
                                                                  : address);
}

// What moves the bytes within the device: the copy, or the operator that it is a part of.
Engine OnDevice() { return operators_under_way > 0 ? Engine::kCompute : Engine::kOnDevice; }

Engine EngineFor(Side to, Side from) {
  if (to == Side::kDevice && from == Side::kDevice) return OnDevice();
  return to == Side::kDevice ? Engine::kToDevice : Engine::kToHost;
}

const char* NameFor(Engine engine) {
  if (engine == Engine::kToDevice) return "memory copy to the device";
  return engine == Engine::kToHost ? "memory copy to the host" : "memory copy on the device";
}

// What is used later than the call: device and pinned memory.
std::vector<Use> UsesOf(const Use& read, Side from, const Use& write, Side to) {
  std::vector<Use> uses;
  if (from != Side::kPageable) uses.push_back(read);
  if (to != Side::kPageable) uses.push_back(write);
  return uses;
}

std::shared_ptr<char[]> Staged(const char* from, Bytes size) {
  std::shared_ptr<char[]> copy(new char[size]);
  std::memcpy(copy.get(), from, size);
  return copy;
}

template <typename T>
void FillWith(char* to, std::uint32_t value, std::size_t count) {
  const T unit = static_cast<T>(value);
  if (sizeof(T) == 1) {
    std::memset(to, static_cast<int>(unit), count);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * sizeof(T), &unit, sizeof(T));
}

void FillBytes(char* to, std::uint32_t value, int width, std::size_t count) {
  if (width == 1) return FillWith<std::uint8_t>(to, value, count);
  if (width == 2) return FillWith<std::uint16_t>(to, value, count);
  FillWith<std::uint32_t>(to, value, count);
}

}  // namespace

cuda::Result Copy(std::uint64_t to, std::uint64_t from, Bytes size, Stream handle) {
  Gpu& gpu = Gpu::Get();
  const std::shared_ptr<StreamState> stream = gpu.FindStream(handle);
  if (stream == nullptr) return cuda::kInvalidHandle;
  if (const cuda::Result result = gpu.captures().CheckLegacy(*stream)) return result;
  if (size == 0) return cuda::kSuccess;
  const Side to_side = SideOf(gpu, to, size, cuda::kAccessReadWrite);
  const Side from_side = SideOf(gpu, from, size, cuda::kAccessRead);
  if (to_side == Side::kInvalid || from_side == Side::kInvalid) return cuda::kInvalidValue;

  Operation operation{.engine = EngineFor(to_side, from_side), .bytes = size};
  operation.name = NameFor(operation.engine);
  if (gpu.order() != nullptr)
    operation.uses = UsesOf({from, size, false}, from_side, {to, size, true}, to_side);
  char* target = Touchable(gpu, to);
  char* source = Touchable(gpu, from);
  const bool captured = gpu.captures().IsCapturing(*stream);
  if (gpu.settings().timing && size > kMovedBytes) {
    // only takes time
  } else if (from_side == Side::kPageable && !captured) {
    operation.action = [target, staged = Staged(source, size), size](std::int64_t) {
      std::memcpy(target, staged.get(), size);
    };
  } else {
    operation.action = [target, source, size](std::int64_t) { std::memmove(target, source, size); };
  }
  stream->Submit(std::move(operation));
  if (to_side == Side::kPageable && !captured) stream->Synchronize();
  return cuda::kSuccess;
}

cuda::Result CopyAndWait(std::uint64_t to, std::uint64_t from, Bytes size) {
  if (const cuda::Result result = Gpu::Get().captures().CheckUnsafe()) return result;
  if (const cuda::Result result = Copy(to, from, size, nullptr)) return result;
  Gpu::Get().FindStream(nullptr)->Synchronize();
  return cuda::kSuccess;
}

cuda::Result Fill(DevicePtr to, std::uint32_t value, int width, std::size_t count, Stream handle) {
  Gpu& gpu = Gpu::Get();
  const std::shared_ptr<StreamState> stream = gpu.FindStream(handle);
  if (stream == nullptr) return cuda::kInvalidHandle;
  if (const cuda::Result result = gpu.captures().CheckLegacy(*stream)) return result;
  if (count == 0) return cuda::kSuccess;
  const Bytes size = count * width;
  const Side side = SideOf(gpu, to, size, cuda::kAccessReadWrite);
  if (to % width != 0 || (side != Side::kDevice && side != Side::kPinned)) return cuda::kInvalidValue;
  char* target = Touchable(gpu, to);
  Operation operation{.name = "memory fill", .engine = OnDevice(), .bytes = size};
  operation.action = [=](std::int64_t) { FillBytes(target, value, width, count); };
  operation.uses = {{to, size, true}};
  stream->Submit(std::move(operation));
  return cuda::kSuccess;
}

}  // namespace hocket::emulator
