#include "tests/recorded/socket.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "csrc/base/unique_fd.h"
#include "csrc/wire/codec.h"

namespace hocket::recorded {

void SendFrame(int socket, const std::string& frame, Carries carries, const wire::SharedPage& page) {
  iovec part{const_cast<char*>(frame.data()), frame.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const UniqueFd memory(carries == Carries::kMemory ? memfd_create("chunk", MFD_CLOEXEC) : -1);
  const int descriptor = carries == Carries::kPage ? page.fd() : memory.get();
  if (carries != Carries::kNothing) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    *rights = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(descriptor));
  }
  if (sendmsg(socket, &header, MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size()))
    throw std::runtime_error(std::string("cannot be sent: ") + std::strerror(errno));
}

std::string ReceiveFrame(int socket) {
  const timeval limit{20, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  std::string frame(wire::kMaxFrameSize, '\0');
  iovec part{frame.data(), frame.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (size < 0) throw std::runtime_error(std::string("nothing comes: ") + std::strerror(errno));
  if (size < static_cast<ssize_t>(wire::kFrameHeaderSize))
    throw std::runtime_error("the connection has ended");
  if (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof(descriptor));
    UniqueFd closed(descriptor);
  }
  frame.resize(static_cast<size_t>(size));
  return frame;
}

}  // namespace hocket::recorded
