// Passing a failure on, in one line.
#ifndef HOCKET_CSRC_BASE_STATUS_MACROS_H_
#define HOCKET_CSRC_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define HOCKET_RETURN_IF_ERROR(expression)         \
  do {                                             \
    absl::Status hocket_status = (expression);     \
    if (!hocket_status.ok()) return hocket_status; \
  } while (false)

#define HOCKET_STATUS_CONCAT_INNER(a, b) a##b
#define HOCKET_STATUS_CONCAT(a, b) HOCKET_STATUS_CONCAT_INNER(a, b)
// HOCKET_ASSIGN_OR_RETURN(auto chunk, driver.Create(size));
#define HOCKET_ASSIGN_OR_RETURN(target, expression) \
  HOCKET_ASSIGN_OR_RETURN_IMPL(HOCKET_STATUS_CONCAT(hocket_or_, __LINE__), target, expression)
#define HOCKET_ASSIGN_OR_RETURN_IMPL(temporary, target, expression) \
  auto temporary = (expression);                                    \
  if (!temporary.ok()) return std::move(temporary).status();        \
  target = *std::move(temporary)

#endif  // HOCKET_CSRC_BASE_STATUS_MACROS_H_
