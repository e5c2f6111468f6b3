// For tests that try very many things at random: where anything is wrong with one the process ends, so they
// are tried in a child.
#ifndef HOCKET_TESTS_BASE_CHILD_H_
#define HOCKET_TESTS_BASE_CHILD_H_

#include <sys/mman.h>
#include <sys/types.h>

#include <cstdint>
#include <new>
#include <string>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "csrc/base/check.h"

namespace hocket::testing {

// How a child has ended.
struct ChildEnd {
  pid_t pid = 0;
  bool ok = false;   // as a program that found nothing wrong
  std::string said;  // on stderr
};

// Calls `run` in a child, a fork, and waits for its end. It leaves no core.
ChildEnd RunForked(absl::FunctionRef<void()> run);

// What a child leaves behind, whatever becomes of it: memory that it shares with its parent.
template <typename T>
class SharedWithChild {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  SharedWithChild() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    HOCKET_CHECK(memory != MAP_FAILED) << "no memory";
    value_ = new (memory) T();
  }
  ~SharedWithChild() { munmap(value_, sizeof(T)); }
  SharedWithChild(const SharedWithChild&) = delete;
  SharedWithChild& operator=(const SharedWithChild&) = delete;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

// The number that an environment variable names; it is not set: `otherwise`.
std::uint64_t Wanted(const char* variable, std::uint64_t otherwise);

}  // namespace hocket::testing

#endif  // HOCKET_TESTS_BASE_CHILD_H_
