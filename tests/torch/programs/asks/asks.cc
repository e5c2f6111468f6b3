// Asks PyTorch's CUDA allocator for what only PyTorch's own C++ asks it for, and prints a line of what each
// was answered: "WHAT: done", "WHAT: refused: WHY", or "WHAT: failed: WHY" for any other error.
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <hocket.h>

#include <cstdio>
#include <functional>
#include <string>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

void Ask(const char* what, const std::function<void()>& ask) {
  std::string answer = "done";
  try {
    ask();
  } catch (const c10::NotImplementedError& error) {
    answer = std::string("refused: ") + error.what_without_backtrace();
  } catch (const c10::Error& error) {
    answer = std::string("failed: ") + error.what_without_backtrace();
  }
  std::printf("%s: %s\n", what, answer.c_str());
}

// Both came with versions of PyTorch newer than the oldest that Hocket knows.
template <typename Allocator>
void AskForAddress(Allocator* allocator) {
  if constexpr (requires { allocator->allocateWithAddress(512, nullptr); })
    Ask("address", [=] { allocator->allocateWithAddress(512, nullptr); });
}

template <typename Allocator>
void AskForRejections(Allocator* allocator) {
  if constexpr (requires { &Allocator::attachOomRejectionObserver; }) {
    Ask("rejections", [=] {
      allocator->attachOomRejectionObserver([](int64_t device, size_t size, size_t allocated, size_t total) {
        std::printf("rejected: %d %zu %zu %zu\n", static_cast<int>(device), size >> 20, allocated >> 20,
                    total >> 20);
      });
      c10::CachingAllocator::setAllocatorSettings(
          "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.25");
      try {
        allocator->raw_alloc(size_t{100} << 20);
      } catch (const c10::OutOfMemoryError&) {
      }
    });
  }
}

}  // namespace

int main() {
  const hocket::Job job("asks");
  Ask("tracker", [] { caching::attachAllocatorTraceTracker([](const caching::TraceEntry&) {}); });
  Ask("peers", [] { caching::enablePeerAccess(0, 1); });
  if (caching::get()->name() == "hocket")  // PyTorch's own reads what is no handle
    Ask("handle", [] { caching::getIpcDevPtr("a handle of another process"); });
  c10::cuda::device_count_ensure_non_zero();
  caching::init(1);
  AskForAddress(caching::get());
  AskForRejections(caching::get());
  return 0;
}
