#include "csrc/torch/interruption.h"

#include <atomic>

namespace hocket {
namespace {

std::atomic<std::exception_ptr (*)()> take_raised{nullptr};

}  // namespace

void SetTakeRaised(std::exception_ptr (*take)()) { take_raised = take; }

std::exception_ptr TakeRaised(const absl::Status& status) {
  auto* const take = take_raised.load();
  return absl::IsCancelled(status) && take != nullptr ? take() : nullptr;
}

void ThrowRaised(const absl::Status& status) {
  if (const std::exception_ptr raised = TakeRaised(status)) std::rethrow_exception(raised);
}

}  // namespace hocket
