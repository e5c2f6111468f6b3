// A debug mode (HOCKET_VERIFY=1): an operator that uses memory which lies on the host, because its job is out
// of turn, is named on stderr, with the tensor's size and where that was allocated. It is a thread's that
// Hocket does not know of (a logging hook that allocates nothing; docs/decisions/0020).
//
//   an allocation       NoteAllocation() keeps its Python stack
//   an operator begins  one of its tensors lies on the host, and the job has not the turn: a suspicion.
//                       Where such a use is a fault, it is said at once of an operator that may allocate
//                       nothing
//   it ends             still so: it has used that memory, and it is said, once for each allocation. One that
//                       has allocated on the device has waited there for the turn, and its memory is back
//
// What goes past PyTorch's operators (a kernel of one's own, a CUDA graph) is not seen. Thread-safe; while it
// is off each call costs one atomic load.
#ifndef HOCKET_CSRC_TORCH_OUT_OF_TURN_H_
#define HOCKET_CSRC_TORCH_OUT_OF_TURN_H_

#include <string>

#include "allocator/cuda_abi.h"
#include "csrc/torch/devices.h"

namespace hocket {

// From now on, until the process ends, if the debug mode is on. `devices` is borrowed and lives as long.
void WatchOperators(const Devices& devices);

// Who calls PyTorch on this thread, in lines, the innermost call last; empty: it is not known.
void SetStackOfCaller(std::string (*stack)());

// An allocation of PyTorch's begins at `address`; it has been freed.
void NoteAllocation(DevicePtr address);
void NoteFree(DevicePtr address);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_OUT_OF_TURN_H_
