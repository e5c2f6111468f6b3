// Lets the calls that one loaded library, or the program, makes to a function of another one lead elsewhere.
//
//   libc10_cuda.so  --cudaMalloc-->  its table of imports (.got.plt)  -->  libcudart, or whom we write there
//
// A dynamic library calls what it imports through a table of its own, which the dynamic linker fills. The
// entry is found by the function's name and written; the library's code, every other library's calls, and
// the function itself stay as they are.
//
// What the entry held before is of no use to the caller: with lazy binding it is the linker's own code,
// which would write the entry back. Call the function by its name instead.
//
// Thread-safe for those who call meanwhile: an entry is written at once, as one pointer.
#ifndef HOCKET_CSRC_BASE_REDIRECT_H_
#define HOCKET_CSRC_BASE_REDIRECT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace hocket {

struct Redirection {
  const char* function;  // its name as the library imports it
  void* target;
};

// Redirects all of them, or none. `library` is a file name without its folder ("libc10_cuda.so").
// kNotFound: no such library is loaded, or it does not import one of the functions (it may have been linked
// with it statically); the text names it. kUnimplemented: on this processor entries cannot be told apart.
// kUnavailable: the system does not let them be written.
absl::Status RedirectCalls(const std::string& library, absl::Span<const Redirection> redirections);

// The same for the one that has the code at `address`, whatever it is called: the program, or a library.
absl::Status RedirectCallsFrom(const void* address, absl::Span<const Redirection> redirections);

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_REDIRECT_H_
