// Sizes in bytes, and how they are written for people.
#ifndef HOCKET_CSRC_BASE_BYTES_H_
#define HOCKET_CSRC_BASE_BYTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hocket {

using Bytes = std::uint64_t;

inline namespace literals {
constexpr Bytes operator""_KiB(unsigned long long n) { return n << 10; }
constexpr Bytes operator""_MiB(unsigned long long n) { return n << 20; }
constexpr Bytes operator""_GiB(unsigned long long n) { return n << 30; }
}  // namespace literals

// Rounds up or down to a multiple of `unit`, a power of two.
constexpr Bytes RoundUp(Bytes size, Bytes unit) { return (size + unit - 1) & ~(unit - 1); }
constexpr Bytes RoundDown(Bytes size, Bytes unit) { return size & ~(unit - 1); }

// "512 B", "1.5 MiB", "61.4 GiB": one decimal, binary units. The form of every message of ours.
std::string FormatBytes(Bytes size);

// Reads "8GiB", "512 MiB", "1.5g", "4096": a number >= 0 and an optional unit (B, K, M, G, T with or
// without "iB"/"B"; all binary). kInvalidArgument names the text and the accepted forms.
absl::StatusOr<Bytes> ParseBytes(absl::string_view text);

}  // namespace hocket

#endif  // HOCKET_CSRC_BASE_BYTES_H_
