// Asks PyTorch's CUDA allocator for what only PyTorch's own C++ asks it for, and prints a line of what each
// was answered: "WHAT: done", "WHAT: refused: WHY", or "WHAT: failed: WHY" for any other error.
#include <c10/cuda/CUDACachingAllocator.h>
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

}  // namespace

int main() {
  const hocket::Job job("asks");
  Ask("tracker", [] { caching::attachAllocatorTraceTracker([](const caching::TraceEntry&) {}); });
  Ask("peers", [] { caching::enablePeerAccess(0, 1); });
  if (caching::get()->name() == "hocket")  // PyTorch's own reads what is no handle
    Ask("handle", [] { caching::getIpcDevPtr("a handle of another process"); });
  return 0;
}
