// From absl::Status to the Python exception for what the user can do about it.
//
//   kInvalidArgument    ValueError
//   kCancelled          what the signal's handler raised (KeyboardInterrupt); out of an allocation it goes
//                       through PyTorch's code (csrc/torch/interruption.h)
//   kUnavailable        hocket.CoordinatorUnavailable
//   kResourceExhausted  MemoryError
//   anything else       hocket.HocketError (a RuntimeError)
#ifndef HOCKET_CSRC_BINDINGS_ERRORS_H_
#define HOCKET_CSRC_BINDINGS_ERRORS_H_

#include <pybind11/pybind11.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hocket {

// May be called with or without the interpreter's lock.
void RaiseIfFailed(const absl::Status& status);

template <typename T>
T ValueOrRaise(absl::StatusOr<T> value) {
  RaiseIfFailed(value.status());
  return *std::move(value);
}

}  // namespace hocket

#endif  // HOCKET_CSRC_BINDINGS_ERRORS_H_
