// Frames whose fields are random bytes are refused for their lengths alone. So a fuzzer's frame is given the
// header that it needs; codec_fuzz sends them as they are.
#ifndef HOCKET_TESTS_FUZZ_FRAMES_H_
#define HOCKET_TESTS_FUZZ_FRAMES_H_

#include <sys/socket.h>

#include <cstdint>
#include <cstring>
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

// Sends a packet with a descriptor (-1: none) as it is. What no longer fits is not sent.
inline void SendPacket(int socket, const std::string& packet, int descriptor) {
  iovec part{const_cast<char*>(packet.data()), packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    *header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  }
  (void)sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace hocket::fuzz

#endif  // HOCKET_TESTS_FUZZ_FRAMES_H_
