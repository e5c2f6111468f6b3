// An allocation that a signal's handler has ended: its exception is what the handler raised
// (KeyboardInterrupt), carried through PyTorch to the program.
#ifndef HOCKET_CSRC_TORCH_INTERRUPTION_H_
#define HOCKET_CSRC_TORCH_INTERRUPTION_H_

#include <exception>

#include "absl/status/status.h"

namespace hocket {

// `take` takes what a handler on the calling thread raised, as an exception that PyTorch knows; null: nothing
// was. Before the first allocation; without it nothing is ever raised.
void SetTakeRaised(std::exception_ptr (*take)());

// Null unless `status` is kCancelled and a handler raised.
std::exception_ptr TakeRaised(const absl::Status& status);

void ThrowRaised(const absl::Status& status);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_INTERRUPTION_H_
