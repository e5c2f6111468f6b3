#include "csrc/torch/segments.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "csrc/base/redirect.h"
#include "csrc/torch/interruption.h"

namespace hocket {
namespace {

struct Served {
  Devices& devices;
  const std::atomic<bool>& forked;
};
std::atomic<const Served*> served{nullptr};  // until it is set, CUDA answers

// Asked before every allocation of PyTorch's, so it is plain memory: what has a destructor takes a look-up.
constinit thread_local bool refused = false;
thread_local std::string refusal;                  // if so
thread_local std::exception_ptr raised_in_malloc;  // taken by whoever called the native allocator

cudaError_t Refuse(const absl::Status& status) {
  refused = true;
  refusal = std::string(status.message());
  raised_in_malloc = TakeRaised(status);
  return absl::IsResourceExhausted(status) ? cudaErrorMemoryAllocation : cudaErrorUnknown;
}

cudaError_t Malloc(void** address, size_t size) {
  const Served* const by = served.load();
  if (by == nullptr || address == nullptr || size == 0) return cudaMalloc(address, size);
  int ordinal = 0;
  if (const cudaError_t error = cudaGetDevice(&ordinal); error != cudaSuccess) return error;
  const absl::StatusOr<Devices::Device*> device = by->devices.Use(ordinal);
  if (!device.ok()) return Refuse(device.status());
  const absl::StatusOr<DevicePtr> segment = (*device)->allocator->Malloc(size, /*stream=*/nullptr);
  if (!segment.ok()) return Refuse(segment.status());
  refused = false;
  *address = reinterpret_cast<void*>(*segment);
  return cudaSuccess;
}

cudaError_t Free(void* address) {
  const auto segment = reinterpret_cast<DevicePtr>(address);
  const Served* const by = served.load();
  Devices::Device* owner = by == nullptr || address == nullptr ? nullptr : by->devices.OwnerOf(segment);
  if (owner == nullptr) return cudaFree(address);
  if (!by->forked) owner->allocator->Free(segment);
  return cudaSuccess;
}

}  // namespace

absl::Status RedirectSegments() {
  return RedirectCalls("libc10_cuda.so", {{"cudaMalloc", reinterpret_cast<void*>(&Malloc)},
                                          {"cudaFree", reinterpret_cast<void*>(&Free)}});
}

void ServeSegments(Devices& devices, const std::atomic<bool>& forked) {
  served = new Served{devices, forked};
}

std::string TakeRefusal() {
  if (!std::exchange(refused, false)) return std::string();
  return std::exchange(refusal, std::string());
}

std::exception_ptr TakeRaisedInMalloc() { return std::exchange(raised_in_malloc, nullptr); }

}  // namespace hocket
