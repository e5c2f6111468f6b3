#include "csrc/emulator/runtime/costs.h"

#include <unordered_map>

#include "csrc/emulator/runtime/device_properties.h"
#include "csrc/emulator/runtime/elementwise.h"
#include "csrc/emulator/runtime/kernels.h"
#include "csrc/emulator/runtime/multi_tensor.h"
#include "csrc/emulator/timing/cost.h"

namespace hocket::emulator {
namespace {

using timing::KernelWork;
using timing::OperatorClass;

// Most launches do not tell how many bytes they move: each thread is taken to read four elements of four
// bytes or to write as many.
constexpr double kBytesPerThread = 16;

// What a kernel's name tells: how many bytes it moves for each of what.
struct Told {
  enum class Each { kElement, kBlock, kThread };

  Each each = Each::kThread;
  double bytes = kBytesPerThread;
};

Told Read(const char* name) {
  if (const auto bytes = ElementwiseBytesPerElement(name)) return {Told::Each::kElement, *bytes};
  if (const auto bytes = MultiTensorBytesPerBlock(name)) return {Told::Each::kBlock, *bytes};
  return {};
}

// Names are long, and a program launches the same few kernels again and again.
const Told& ToldBy(const char* name) {
  thread_local std::unordered_map<const char*, Told> read;  // a name lies in the library of its kernel
  const auto found = read.find(name);
  return found != read.end() ? found->second : read.emplace(name, Read(name)).first->second;
}

KernelWork WorkOf(const char* name, const KernelLaunch& launch) {
  const Told& told = ToldBy(name);
  if (told.each == Told::Each::kElement) {
    const double elements = *static_cast<const int*>(launch.arguments[0]);
    return {.of = OperatorClass::kElementwise, .bytes = elements * told.bytes};
  }
  const double blocks = double(launch.grid.x) * launch.grid.y * launch.grid.z;
  if (told.each == Told::Each::kBlock) return {.of = OperatorClass::kOptimizer, .bytes = blocks * told.bytes};
  return {.bytes = blocks * launch.block.x * launch.block.y * launch.block.z * told.bytes};
}

}  // namespace

double SpinMicroseconds(const KernelLaunch& launch) {
  return static_cast<double>(*static_cast<const long*>(launch.arguments[0])) / kClockTicksPerMicrosecond;
}

double KernelMicroseconds(const char* name, const KernelLaunch& launch) {
  if (IsSpin(name)) return SpinMicroseconds(launch);
  return timing::CostModel::Default().KernelMicroseconds(name, WorkOf(name, launch));
}

double ProductMicroseconds(double operations, int bytes) {
  return timing::CostModel::Default().ProductMicroseconds(operations, bytes);
}

}  // namespace hocket::emulator
