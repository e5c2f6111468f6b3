// The runtime's view of what the driver says of the device (driver/device_api.cc).
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_DEVICE_PROPERTIES_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_DEVICE_PROPERTIES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace hocket::emulator {

// Ticks of the modelled device clock in a microsecond (torch.cuda._sleep counts them).
inline constexpr double kClockTicksPerMicrosecond = 1980;

// Fills `properties` for `device`. The driver's error if there is no such device.
CUresult FillProperties(cudaDeviceProp* properties, int device);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_DEVICE_PROPERTIES_H_
