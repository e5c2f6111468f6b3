// What the emulated device says it is able to do: the limits of a Hopper-class GPU, because torch chooses
// among its kernels by them. Its name, identity and memory are the driver's.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_DEVICE_PROPERTIES_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_DEVICE_PROPERTIES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace hocket::emulator {

// Ticks of the modelled device clock in a microsecond (torch.cuda._sleep counts them).
inline constexpr double kClockTicksPerMicrosecond = 1980;

// Fills `properties` for `device`. The driver's error if there is no such device.
CUresult FillProperties(cudaDeviceProp* properties, int device);

// True if `attribute` is one of the modelled limits; `value` is set then. The rest is the driver's to say.
bool ModelledAttribute(cudaDeviceAttr attribute, int* value);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_DEVICE_PROPERTIES_H_
