// Our own bugs stop the process, with both sides of what does not hold.
//
//   HOCKET_CHECK(resident == held) << "resident " << resident << ", held " << held;
//
// For what the world does wrong use absl::Status instead.
#ifndef HOCKET_CSRC_BASE_CHECK_H_
#define HOCKET_CSRC_BASE_CHECK_H_

#include <sstream>

namespace hocket::internal {

// Gathers the message, prints it to stderr with its place and aborts when it dies.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Lets HOCKET_CHECK be an expression of type void whatever is streamed into it.
struct CheckVoid {
  void operator&(std::ostream&) {}
};

}  // namespace hocket::internal

#define HOCKET_CHECK(condition)                   \
  (condition) ? (void)0                           \
              : ::hocket::internal::CheckVoid() & \
                    ::hocket::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // HOCKET_CSRC_BASE_CHECK_H_
