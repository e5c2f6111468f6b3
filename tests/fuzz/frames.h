// Frames whose fields are random bytes are refused for their lengths alone. So a fuzzer's frame is given the
// header that it needs; codec_fuzz sends them as they are.
#ifndef HOCKET_TESTS_FUZZ_FRAMES_H_
#define HOCKET_TESTS_FUZZ_FRAMES_H_

#include <cstdint>
#include <string>

#include "csrc/wire/codec.h"

namespace hocket::fuzz {

// `frame` with its length and version as they have to be.
inline std::string WithGoodHeader(std::string frame) {
  if (frame.size() < wire::kFrameHeaderSize) frame.resize(wire::kFrameHeaderSize);
  const auto size = static_cast<uint32_t>(frame.size());
  for (int i = 0; i < 4; ++i) frame[static_cast<size_t>(i)] = static_cast<char>(size >> (8 * i));
  frame[4] = static_cast<char>(wire::kMajorVersion);
  frame[5] = 0;
  return frame;
}

}  // namespace hocket::fuzz

#endif  // HOCKET_TESTS_FUZZ_FRAMES_H_
