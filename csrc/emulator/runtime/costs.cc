#include "csrc/emulator/runtime/costs.h"

#include "csrc/emulator/runtime/device_properties.h"
#include "csrc/emulator/runtime/kernels.h"
#include "csrc/emulator/runtime/multi_tensor.h"
#include "csrc/emulator/timing/cost.h"

namespace hocket::emulator {
namespace {

// Most launches do not tell how many bytes they move: each thread is taken to read four elements of four
// bytes or to write as many.
constexpr double kBytesPerThread = 16;

double Bytes(const char* name, const KernelLaunch& launch) {
  const double blocks = double(launch.grid.x) * launch.grid.y * launch.grid.z;
  const double threads = double(launch.block.x) * launch.block.y * launch.block.z;
  return blocks * MultiTensorBytesPerBlock(name).value_or(threads * kBytesPerThread);
}

}  // namespace

double SpinMicroseconds(const KernelLaunch& launch) {
  return static_cast<double>(*static_cast<const long*>(launch.arguments[0])) / kClockTicksPerMicrosecond;
}

double KernelMicroseconds(const char* name, const KernelLaunch& launch) {
  if (IsSpin(name)) return SpinMicroseconds(launch);
  return timing::CostModel::Default().KernelMicroseconds(name, Bytes(name, launch));
}

double ProductMicroseconds(double operations, int bytes) {
  return timing::CostModel::Default().ProductMicroseconds(operations, bytes);
}

}  // namespace hocket::emulator
