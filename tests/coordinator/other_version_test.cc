// Peers of another minor version at a real daemon: what it does not know it skips, what they do not know they
// do without.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

#include "csrc/base/check.h"
#include "csrc/wire/codec.h"
#include "csrc/wire/shared_page.h"
#include "tests/coordinator/daemon.h"

namespace hocket::coordinator {
namespace {

using Json = nlohmann::json;

template <typename Number>
void Put(std::string& bytes, size_t at, Number number) {  // little-endian, as this machine is
  std::memcpy(bytes.data() + at, &number, sizeof(number));
}

// As a peer writes it whose minor version is 7 and whose messages have one field more.
std::string Newer(const wire::Message& message) {
  std::string frame = wire::Encode(message).value();
  const std::string text = "what this daemon has never heard of";
  std::string field(wire::kFieldHeaderSize, '\0');
  Put<uint16_t>(field, 0, 60'000);
  Put<uint16_t>(field, 2, 4);  // bytes
  Put<uint32_t>(field, 4, static_cast<uint32_t>(text.size()));
  frame += field + text;
  Put<uint32_t>(frame, 0, static_cast<uint32_t>(frame.size()));
  Put<uint16_t>(frame, 6, 7);
  return frame;
}

void Send(Peer& peer, const std::string& frame, int descriptor = -1) {
  iovec part{const_cast<char*>(frame.data()), frame.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    *rights = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(descriptor));
  }
  HOCKET_CHECK(sendmsg(peer.channel().fd(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(frame.size()))
      << "not sent";
}

Json Page(Daemon& daemon, const std::string& name) {
  const Json status = daemon.Ask("status").value();
  for (const Json& job : status["jobs"]) {
    if (job["name"] == name) return job;
  }
  return nullptr;
}

TEST(OtherVersionTest, ANewerPeerWithUnknownFieldsAndALongerPageTakesTurns) {
  Daemon daemon;
  wire::SharedPage page = wire::SharedPage::Create().value();
  page.words().length = sizeof(wire::PageWords) + 64;
  page.words().step_time_ns = 5'000'000;
  Peer older(daemon, {.name = "older", .device = "gpu0", .capacity = 100});
  older.Hear<wire::Joined>();
  Peer newer(daemon);
  Send(newer, Newer(wire::Join{.name = "newer", .device = "gpu0", .capacity = 100}), page.fd());
  EXPECT_EQ(newer.Hear<wire::Joined>().name, "newer");
  EXPECT_EQ(Page(daemon, "newer")["step_time_ms"], 5.0);
  Send(newer, Newer(wire::Wait{}));
  const auto turn = newer.Hear<wire::Grant>().turn;
  older.Say(wire::Wait{});
  newer.Hear<wire::Yield>();
  Send(newer, Newer(wire::TurnOver{.turn = turn}));
  EXPECT_EQ(older.Hear<wire::Grant>().turn, turn + 1);
}

TEST(OtherVersionTest, WordsThatAnOlderPeersPageDoesNotHaveAreZero) {
  Daemon daemon;
  wire::SharedPage page = wire::SharedPage::Create().value();
  page.words().length = offsetof(wire::PageWords, step_time_ns);
  page.words().step_time_ns = 5'000'000;  // not a word of its page: whatever lies there
  Peer peer(daemon);
  peer.Say(wire::Join{.name = "older", .device = "gpu0", .capacity = 100}, page.fd());
  peer.Hear<wire::Joined>();
  EXPECT_EQ(Page(daemon, "older")["step_time_ms"], 0.0);
}

// It cannot say what its allocator counts, and takes no chunk's bytes for less than copied.
TEST(OtherVersionTest, AnOlderJobSaysNothingOfItsAllocatorAndOfWhatItCopied) {
  Daemon daemon;
  wire::SharedPage page = wire::SharedPage::Create().value();
  page.words().length = offsetof(wire::PageWords, step_allocations);
  page.words().step_allocations = 7;  // not a word of its page: whatever lies there
  Peer peer(daemon);
  peer.Say(wire::Join{.name = "older", .device = "gpu0", .capacity = 100}, page.fd());
  peer.Hear<wire::Joined>();
  EXPECT_EQ(Page(daemon, "older")["allocator"], nullptr);
  peer.Say(wire::Spilled{.freed = 60, .persistent = 40, .spilled = 60});
  Json job = Page(daemon, "older");
  while (job["spilled"] != 60) job = Page(daemon, "older");
  EXPECT_EQ(job["spilled_total"], 60);
}

TEST(OtherVersionTest, AMessageThatTheDaemonDoesNotKnowIsSkipped) {
  Daemon daemon;
  Peer peer(daemon, {.name = "a"});
  std::string unknown = Newer(wire::Wait{});
  Put<uint16_t>(unknown, 8, 999);
  Send(peer, unknown);
  peer.Say(wire::Wait{});
  EXPECT_GT(peer.Hear<wire::Grant>().turn, 0u);
}

}  // namespace
}  // namespace hocket::coordinator
