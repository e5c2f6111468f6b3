// What an operator has to do on a device, by its arguments and results: the bytes and operations that timing
// mode's model (csrc/emulator/timing/cost.h) makes a time of, and scripts/calibrate's rates are of.
#ifndef HOCKET_CSRC_EMULATOR_OPERATORS_WORK_H_
#define HOCKET_CSRC_EMULATOR_OPERATORS_WORK_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

#include "csrc/emulator/timing/kernel_work.h"

namespace hocket::emulator {

// An operator that the model knows: its class, and how its work is counted.
struct KnownOperator {
  const char* name;  // every overload of it
  timing::OperatorClass of;
  // All but the class.
  timing::KernelWork (*count)(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                              const std::vector<c10::IValue>& results);
};

// nullptr: the model does not know it; its kernels are counted one by one.
const KnownOperator* FindOperator(std::string_view name);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_OPERATORS_WORK_H_
