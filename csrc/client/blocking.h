// The hooks around every place where a thread blocks (client.h, BlockingHooks).
#ifndef HOCKET_CSRC_CLIENT_BLOCKING_H_
#define HOCKET_CSRC_CLIENT_BLOCKING_H_

#include <memory>

#include "csrc/client/client.h"
#include "csrc/client/mutex.h"
#include "csrc/client/thread_registry.h"

namespace hocket {

// How often a waiting thread asks whether the user wants to interrupt it.
inline constexpr auto kInterruptPause = std::chrono::milliseconds(100);

// Calls `before` and `after` around its life; inside another one of the same thread it does nothing.
// Neither may be called with a lock held.
class Blocking {
 public:
  explicit Blocking(ThreadRecord& me);
  ~Blocking();
  Blocking(const Blocking&) = delete;

 private:
  ThreadRecord& me_;
  const bool outer_;
  std::shared_ptr<const BlockingHooks> hooks_;
  void* token_ = nullptr;
};

bool HasInterruptedHook();
// REQUIRES: inside a Blocking; nothing is locked.
void AskInterrupted(InOwnCode in_own_code);

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_BLOCKING_H_
