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

// The same for where nothing can be thrown: `raise` raises it on the main thread, as soon as that runs
// Python's code again. Without it what was raised is forgotten.
void SetRaiseSoon(void (*raise)(std::exception_ptr raised));
void RaiseSoon(const absl::Status& status);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_INTERRUPTION_H_
