// The daemon's own server, in memory, with connections that send anything and never read: it outlives them,
// and answers the one that speaks properly.
//
// The input is a list of moves (moves.h). All packets are sent before the server runs, so that nothing
// depends on time: it takes one of each connection after the other, and the last connection stops it once all
// of them have been taken. Settings and state files are put into its folder first. Nothing is sent that could
// start a program.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "coordinator/server/server.h"
#include "csrc/base/check.h"
#include "csrc/wire/channel.h"
#include "csrc/wire/codec.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/moves.h"

namespace hocket::fuzz {
namespace {

using namespace coordinator;

constexpr int kMostMoves = 48;

std::string MakeFolder() {
  char folder[] = "/dev/shm/hocket-server-fuzz-XXXXXX";
  HOCKET_CHECK(mkdtemp(folder) != nullptr) << "no folder in /dev/shm";
  return folder;
}

// A shared page that begins with `words`, or that of a job of ours.
UniqueFd PageOf(const std::string& words) {
  if (words.empty()) {
    auto page = wire::SharedPage::Create();
    HOCKET_CHECK(page.ok()) << page.status().message();
    return UniqueFd(dup(page->fd()));
  }
  UniqueFd page(memfd_create("hocket-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  HOCKET_CHECK(ftruncate(page.get(), wire::kPageSize) == 0) << "no page";
  HOCKET_CHECK(write(page.get(), words.data(), words.size()) == static_cast<ssize_t>(words.size()))
      << "no page";
  fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return page;
}

// The name of a policy may be a program, and a command may name one.
bool NamesAProgram(const std::string& text) { return text.find_first_of("/\\") != std::string::npos; }

class World {
 public:
  explicit World(const std::string& folder, Logger& log) : folder_(folder), log_(log) {
    std::filesystem::remove_all(folder_ + "/jobs");
    std::filesystem::remove(folder_ + "/settings");
    std::filesystem::create_directory(folder_ + "/jobs");
  }

  void Play(Input& input) {
    // What is left of a coordinator before this one; the server reads it when it is made.
    for (int files = input.Byte() % 4; files > 0; --files) LeaveFile(input.Byte(), input.Text());
    auto server = Server::Create({.runtime_dir = folder_, .version = "1"}, log_);
    HOCKET_CHECK(server.ok()) << server.status().message();
    int moves = 0;
    for (; moves < kMostMoves && !input.ended(); ++moves) {
      const uint8_t byte = input.Byte();
      Take(static_cast<Move>(byte & 0x0f), byte >> 4, input);
    }
    const int last = StopAfter(moves);
    HOCKET_CHECK((*server)->Run().ok()) << "the server fails";
    (*server)->core().CheckInvariants();
    HOCKET_CHECK(Answers(last) == moves + 1) << "it did not answer who speaks properly";
  }

 private:
  void LeaveFile(uint8_t which, const std::string& text) {
    if (NamesAProgram(text)) return;
    std::ofstream(which == 0 ? folder_ + "/settings" : folder_ + "/jobs/" + std::to_string(which)) << text;
  }

  void Take(Move move, int slot, Input& input) {
    switch (move) {
      case Move::kFrame:
        return Send(slot, input.Text());
      case Move::kGoodFrame:
        return Send(slot, WithGoodHeader(input.Text()));
      case Move::kHangsUp:
        sockets_.erase(slot);
        return;
      case Move::kPage:
        page_ = input.Text();
        return;
      default:
        return;
    }
  }

  UniqueFd& SocketOf(int slot) {
    auto [socket, fresh] = sockets_.try_emplace(slot);
    if (fresh) {
      auto channel = wire::Channel::Connect(folder_ + "/hocketd.sock");
      HOCKET_CHECK(channel.ok()) << channel.status().message();
      socket->second = UniqueFd(dup(channel->fd()));
    }
    return socket->second;
  }

  // Then nobody after it would be answered.
  static bool Stops(const decltype(wire::Decode(""))& decoded) {
    const auto* command = decoded.ok() && *decoded ? std::get_if<wire::Command>(&**decoded) : nullptr;
    return command != nullptr && command->command == "stop";
  }

  void Send(int slot, const std::string& frame) {
    if (NamesAProgram(frame)) return;
    const auto decoded = wire::Decode(frame);
    if (Stops(decoded)) return;
    const bool joins = decoded.ok() && *decoded && std::holds_alternative<wire::Join>(**decoded);
    const UniqueFd page = joins ? PageOf(page_) : UniqueFd();
    SendPacket(SocketOf(slot).get(), frame, page.get());
  }

  int StopAfter(int moves) {
    const int socket = SocketOf(-1).get();
    for (int i = 0; i < moves; ++i)
      SendPacket(socket, wire::Encode(wire::Command{"version", "{}"}).value(), -1);
    SendPacket(socket, wire::Encode(wire::Command{"stop", R"({"force":true})"}).value(), -1);
    return socket;
  }

  static int Answers(int socket) {
    int answers = 0;
    char packet[1024];
    while (recv(socket, packet, sizeof(packet), MSG_DONTWAIT) > 0) ++answers;
    return answers;
  }

  const std::string folder_;
  Logger& log_;
  std::map<int, UniqueFd> sockets_;
  std::string page_;
};

}  // namespace
}  // namespace hocket::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket;
  static const std::string& folder = *new std::string(fuzz::MakeFolder());
  static const int removed = std::atexit([] { std::filesystem::remove_all(folder); });
  HOCKET_CHECK(removed == 0) << "the folder would stay";
  static auto& log = *new absl::StatusOr<coordinator::Logger>(
      coordinator::Logger::Open(folder + "/hocketd.log", "error", false));
  HOCKET_CHECK(log.ok()) << log.status().message();
  fuzz::Input input(data, size);
  fuzz::World(folder, *log).Play(input);
  return 0;
}
