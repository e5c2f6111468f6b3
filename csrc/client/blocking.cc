#include "csrc/client/blocking.h"

#include <utility>

namespace hocket {
namespace {

struct Hooks {
  Mutex mutex;
  std::shared_ptr<const BlockingHooks> hooks ABSL_GUARDED_BY(mutex);
};

// Never destroyed: threads may block while the process ends.
Hooks& TheHooks() {
  static Hooks* const hooks = new Hooks;
  return *hooks;
}

std::shared_ptr<const BlockingHooks> Current() {
  MutexLock lock(&TheHooks().mutex);
  return TheHooks().hooks;
}

}  // namespace

void SetBlockingHooks(BlockingHooks hooks) {
  MutexLock lock(&TheHooks().mutex);
  TheHooks().hooks = std::make_shared<const BlockingHooks>(std::move(hooks));
}

Blocking::Blocking(ThreadRecord& me) : me_(me), outer_(!std::exchange(me.blocking, true)) {
  if (!outer_) return;
  hooks_ = Current();
  if (hooks_ && hooks_->before) token_ = hooks_->before();
}

Blocking::~Blocking() {
  if (!outer_) return;
  if (hooks_ && hooks_->after) hooks_->after(token_);
  me_.blocking = false;
}

bool HasInterruptedHook() {
  const auto hooks = Current();
  return hooks && hooks->interrupted;
}

void AskInterrupted(InOwnCode in_own_code) {
  const auto hooks = Current();
  if (hooks && hooks->interrupted) hooks->interrupted(in_own_code);
}

}  // namespace hocket
