#include "csrc/emulator/runtime/costs.h"

#include "csrc/emulator/runtime/device_properties.h"
#include "csrc/emulator/runtime/kernels.h"
#include "csrc/emulator/timing/cost.h"

namespace hocket::emulator {
namespace {

// A launch does not tell how many bytes it moves: each thread is taken to read four elements of four bytes or
// to write as many.
constexpr double kBytesPerThread = 16;

double Threads(const KernelLaunch& launch) {
  const double blocks = double(launch.grid.x) * launch.grid.y * launch.grid.z;
  return blocks * launch.block.x * launch.block.y * launch.block.z;
}

}  // namespace

double SpinMicroseconds(const KernelLaunch& launch) {
  return static_cast<double>(*static_cast<const long*>(launch.arguments[0])) / kClockTicksPerMicrosecond;
}

double KernelMicroseconds(const char* name, const KernelLaunch& launch) {
  if (IsSpin(name)) return SpinMicroseconds(launch);
  return timing::CostModel::Default().KernelMicroseconds(name, Threads(launch) * kBytesPerThread);
}

double ProductMicroseconds(double operations, int bytes) {
  return timing::CostModel::Default().ProductMicroseconds(operations, bytes);
}

}  // namespace hocket::emulator
