#include "csrc/emulator/runtime/costs.h"

#include <algorithm>
#include <cstring>

#include "csrc/emulator/runtime/device_properties.h"

namespace hocket::emulator {
namespace {

// No kernel is shorter than this.
constexpr double kShortestKernel = 2.0;

// A kernel that nothing below knows: threads that each move this many bytes through device memory.
constexpr double kBytesPerThread = 16;
constexpr double kBytesPerMicrosecond = 3.0e6;

// Floating-point operations in a microsecond, by the size of an element.
constexpr double kRateOf2Bytes = 400e6;
constexpr double kRateOf4Bytes = 40e6;
constexpr double kRateOf8Bytes = 30e6;

// torch.cuda._sleep(cycles).
bool IsSpin(const char* name) { return std::strstr(name, "spin_kernel") != nullptr; }

double SpinMicroseconds(const KernelLaunch& launch) {
  return static_cast<double>(*static_cast<const long*>(launch.arguments[0])) / kClockTicksPerMicrosecond;
}

double Threads(const KernelLaunch& launch) {
  const double blocks = double(launch.grid.x) * launch.grid.y * launch.grid.z;
  return blocks * launch.block.x * launch.block.y * launch.block.z;
}

}  // namespace

double KernelMicroseconds(const char* name, const KernelLaunch& launch) {
  if (IsSpin(name)) return SpinMicroseconds(launch);
  return std::max(kShortestKernel, Threads(launch) * kBytesPerThread / kBytesPerMicrosecond);
}

double ProductMicroseconds(double operations, int bytes) {
  const double rate = bytes <= 2 ? kRateOf2Bytes : bytes <= 4 ? kRateOf4Bytes : kRateOf8Bytes;
  return std::max(kShortestKernel, operations / rate);
}

}  // namespace hocket::emulator
