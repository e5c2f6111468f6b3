#include "csrc/wire/channel.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "csrc/base/cannot.h"
#include "csrc/base/paths.h"
#include "csrc/base/status_macros.h"
#include "csrc/base/steady.h"
#include "csrc/wire/address.h"
#include "csrc/wire/codec.h"
#include "csrc/wire/foreign.h"

namespace hocket::wire {
namespace {

// Room for more descriptors than a message may carry, so that too many are seen and closed.
constexpr size_t kMaxDescriptorsSeen = 4;

struct Packet {
  size_t size = 0;
  std::vector<UniqueFd> descriptors;
  bool frame_cut = false;
  bool descriptors_cut = false;
  bool foreign = false;  // one of them was, and is not here
};

absl::StatusOr<ucred> PeerOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return Cannot("see who the peer is");
  return peer;
}

bool MayTakeDescriptors(int socket) {
  if (ForeignOnes() < kMostForeignOnes) return true;
  const auto peer = PeerOf(socket);
  return peer.ok() && ForeignOnesOf(peer->uid) < kMostForeignOnesOfAUser;
}

void TakeDescriptors(int socket, msghdr& header, Packet& packet) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      if (IsForeign(fd)) {
        const auto peer = PeerOf(socket);
        CloseElsewhere(UniqueFd(fd), peer.ok() ? peer->uid : static_cast<uid_t>(-1));
        packet.foreign = true;
      } else {
        packet.descriptors.emplace_back(fd);
      }
    }
  }
}

// kUnavailable: the peer closed, or the socket failed. kResourceExhausted: nothing there now.
absl::StatusOr<Packet> ReceivePacket(int socket, std::string& buffer, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptorsSeen * sizeof(int))];
  iovec data{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  // Without a place for them the kernel drops descriptors by itself, and waits for nobody.
  if (MayTakeDescriptors(socket)) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  ssize_t size;
  // A peer that went with unread messages: the kernel says so once, before what it had said.
  bool was_reset = false;
  do {
    size = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(was_reset, true))));
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return absl::ResourceExhaustedError("nothing there");
  if (size < 0) return Cannot("receive");
  Packet packet;
  TakeDescriptors(socket, header, packet);
  packet.size = static_cast<size_t>(size);
  packet.frame_cut = (header.msg_flags & MSG_TRUNC) != 0;
  packet.descriptors_cut = (header.msg_flags & MSG_CTRUNC) != 0;
  // The kernel says the same when this process may have no more descriptors: then one came, and is lost.
  if (packet.descriptors_cut && packet.descriptors.size() <= 1) {
    packet.descriptors_cut = false;
    packet.descriptors.clear();
  }
  return packet;
}

absl::Status CheckPacket(const Packet& packet) {
  if (packet.size == 0) return absl::UnavailableError("the peer closed the connection");
  if (packet.frame_cut) {
    return absl::InvalidArgumentError(
        absl::StrCat("a packet has more than ", kMaxFrameSize, " bytes, the largest frame allowed"));
  }
  if (packet.descriptors.size() > 1 || packet.descriptors_cut) {
    return absl::InvalidArgumentError(absl::StrCat("a packet carries ", packet.descriptors.size(),
                                                   packet.descriptors_cut ? " or more" : "",
                                                   " descriptors, at most 1 is allowed"));
  }
  if (packet.foreign) {
    return absl::InvalidArgumentError(
        "a packet carries the descriptor of a file, which is neither memory nor a device");
  }
  return absl::OkStatus();
}

absl::Status CheckCoordinator(const Channel& channel, const std::string& path) {
  HOCKET_ASSIGN_OR_RETURN(const auto peer, channel.Peer());
  if (IsTrusted(peer.second, path)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "cannot use the coordinator at ", path, ": it is run by uid ", peer.second, ", this process by uid ",
      geteuid(),
      ". That folder may be another user's trap: name a folder of your own in HOCKET_RUNTIME_DIR, or run as "
      "that user."));
}

// For a connection that waits to be taken, too: as many may wait as somebody who listens has room for. Zero:
// for ever.
void BoundSending(const UniqueFd& socket, absl::Duration longest) {
  const timeval bound = absl::ToTimeval(longest);
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
}

absl::Status ConnectError(const std::string& path, int timeout_ms) {
  const int error = errno;
  const std::string what = absl::StrCat("connect to the coordinator at ", path);
  if (error == ENOENT || error == ECONNREFUSED)
    return absl::NotFoundError(absl::StrCat("cannot ", what, ": ", std::strerror(error)));
  if (error != EAGAIN && error != EWOULDBLOCK) return Cannot(what, error);
  return absl::DeadlineExceededError(
      absl::StrCat("cannot ", what, ": it has taken nobody in for ", timeout_ms,
                   " ms, and many wait. It may be stopped: then kill -CONT ", "lets it go on."));
}

absl::Status SendError(const char* what) {
  const std::string text = absl::StrCat("cannot send ", what, ": ", std::strerror(errno));
  const bool full = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS;
  return full ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<Channel> Channel::Connect(const std::string& path, int timeout_ms) {
  HOCKET_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path, "connect to"));
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return Cannot("make a socket");
  const absl::Time deadline = SteadyNow() + absl::Milliseconds(timeout_ms);
  do {
    BoundSending(socket, std::max(deadline - SteadyNow(), absl::Milliseconds(1)));
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      BoundSending(socket, absl::ZeroDuration());
      Channel channel(std::move(socket));
      HOCKET_RETURN_IF_ERROR(CheckCoordinator(channel, path));
      return channel;
    }
  } while (errno == EINTR);
  return ConnectError(path, timeout_ms);
}

absl::Status Channel::Send(const Message& message, int descriptor) {
  HOCKET_ASSIGN_OR_RETURN(std::string frame, Encode(message));
  iovec data{frame.data(), frame.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &descriptor, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? SendError(NameOf(message)) : absl::OkStatus();
}

absl::StatusOr<std::optional<Received>> Channel::ReceiveWith(int flags) {
  buffer_.resize(kMaxFrameSize);
  while (true) {
    auto packet = ReceivePacket(socket_.get(), buffer_, flags);
    if (absl::IsResourceExhausted(packet.status())) return std::optional<Received>();
    HOCKET_RETURN_IF_ERROR(packet.status());
    HOCKET_RETURN_IF_ERROR(CheckPacket(*packet));
    HOCKET_ASSIGN_OR_RETURN(auto message, Decode(absl::string_view(buffer_.data(), packet->size)));
    if (!message) continue;  // a newer peer's type
    Received received{*std::move(message), UniqueFd()};
    if (!packet->descriptors.empty()) received.descriptor = std::move(packet->descriptors.front());
    return std::optional<Received>(std::move(received));
  }
}

absl::StatusOr<Received> Channel::Receive() {
  HOCKET_ASSIGN_OR_RETURN(auto received, ReceiveWith(0));
  if (!received) return absl::UnavailableError("the socket is in non-blocking mode and nothing is there");
  return *std::move(received);
}

absl::StatusOr<std::optional<Received>> Channel::TryReceive() { return ReceiveWith(MSG_DONTWAIT); }

absl::StatusOr<std::pair<int, unsigned>> Channel::Peer() const {
  HOCKET_ASSIGN_OR_RETURN(const ucred peer, PeerOf(socket_.get()));
  return std::make_pair(static_cast<int>(peer.pid), static_cast<unsigned>(peer.uid));
}

void Channel::Shutdown() { shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace hocket::wire
