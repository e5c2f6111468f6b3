// The context and the capture mode of a thread that calls the driver for the allocator.
#ifndef HOCKET_ALLOCATOR_IN_CONTEXT_H_
#define HOCKET_ALLOCATOR_IN_CONTEXT_H_

#include "absl/status/status.h"
#include "allocator/driver.h"

namespace hocket {

// Makes a context current and this thread's calls harmless to captures, and undoes both: the current context
// is the thread's current device, which is the program's to choose. A thread that had none has none again.
class InContext {
 public:
  InContext(const Driver& driver, ContextHandle context)
      : driver_(driver),
        before_(driver.CurrentContext()),
        changed_(before_ != context),
        mode_(driver.RelaxCaptureMode()) {
    if (changed_) used_ = driver.UseContext(context);
  }
  ~InContext() {
    if (changed_) (void)driver_.UseContext(before_);
    driver_.SetCaptureMode(mode_);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

  // Whether the context could be made current. Where it could not, the calls that need it say so themselves.
  const absl::Status& status() const { return used_; }

 private:
  const Driver& driver_;
  const ContextHandle before_;
  const bool changed_;
  const int mode_;
  absl::Status used_;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_IN_CONTEXT_H_
