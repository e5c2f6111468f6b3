// Timing mode: operators that this thread has begun and that are one piece of work (emulator_api.h). What is
// queued for them meanwhile, kernels and copies within the device, takes no time of its own.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_ONE_OPERATOR_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_ONE_OPERATOR_H_

namespace hocket::emulator {

// How many, the outermost and those inside it.
inline thread_local int operators_under_way = 0;

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_ONE_OPERATOR_H_
