// Messages as frames of bytes, and back.
//
//   frame   u32 length of the whole frame | u16 major | u16 minor | u16 type | u16 reserved (0)
//   field   u16 number | u16 tag (1 u64, 2 i64, 3 f64, 4 bytes) | u32 length of the payload | payload
//
// All little-endian, nothing aligned. Fields that the reader does not know are skipped and missing ones keep
// their default; of a field sent twice the later one counts. Every length is checked before it is used: the
// bytes may come from anybody.
#ifndef HOCKET_CSRC_WIRE_CODEC_H_
#define HOCKET_CSRC_WIRE_CODEC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "csrc/wire/messages.h"

namespace hocket::wire {

// Peers with the same major version understand each other; see PROTOCOL.md for what may change under which.
inline constexpr uint16_t kMajorVersion = 1;
inline constexpr uint16_t kMinorVersion = 0;
inline constexpr uint32_t kFrameHeaderSize = 12;
inline constexpr uint32_t kFieldHeaderSize = 8;
inline constexpr uint32_t kMaxFrameSize = 64 * 1024;

// The message's name, as in messages.h.
const char* NameOf(const Message& message);

// kInvalidArgument, with both sizes, when the frame would be larger than kMaxFrameSize.
absl::StatusOr<std::string> Encode(const Message& message);

// The message in `frame`; none for a type that this version does not know.
// kFailedPrecondition: the sender speaks another major version; the text names both.
// kInvalidArgument: no frame of ours; the text says which length or field is wrong.
absl::StatusOr<std::optional<Message>> Decode(absl::string_view frame);

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_CODEC_H_
