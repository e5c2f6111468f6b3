#include "csrc/torch/interruption.h"

#include <atomic>

namespace hocket {
namespace {

std::atomic<std::exception_ptr (*)()> take_raised{nullptr};
std::atomic<void (*)(std::exception_ptr)> raise_soon{nullptr};

}  // namespace

void SetTakeRaised(std::exception_ptr (*take)()) { take_raised = take; }

std::exception_ptr TakeRaised(const absl::Status& status) {
  auto* const take = take_raised.load();
  return absl::IsCancelled(status) && take != nullptr ? take() : nullptr;
}

void ThrowRaised(const absl::Status& status) {
  if (const std::exception_ptr raised = TakeRaised(status)) std::rethrow_exception(raised);
}

void SetRaiseSoon(void (*raise)(std::exception_ptr raised)) { raise_soon = raise; }

void RaiseSoon(const absl::Status& status) {
  const std::exception_ptr raised = TakeRaised(status);
  auto* const raise = raise_soon.load();
  if (raised && raise != nullptr) raise(raised);
}

}  // namespace hocket
