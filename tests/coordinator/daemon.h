// A real hocketd in a folder of its own, and peers that talk to it over real sockets.
//
// Nothing here sleeps: peers block for messages, and for the daemon's start and end the kernel is asked.
#ifndef HOCKET_TESTS_COORDINATOR_DAEMON_H_
#define HOCKET_TESTS_COORDINATOR_DAEMON_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "csrc/wire/channel.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

class Daemon {
 public:
  // Starts one (in the background, as jobs do) and returns when it listens.
  explicit Daemon(std::vector<std::string> flags = {});
  // Ends it and removes the folder.
  ~Daemon();

  int pid() const { return pid_; }
  std::string dir() const { return dir_; }
  std::string socket() const { return dir_ + "/hocketd.sock"; }

  // Runs hocketd again in the same folder; its exit status, and what it said on stderr. `prepare` is called
  // in its process first.
  std::pair<int, std::string> Start(std::vector<std::string> flags = {},
                                    const std::function<void()>& prepare = {});
  void Kill(int signal);  // and waits until it is gone
  void AwaitEnd();
  size_t OpenDescriptors() const;

  absl::StatusOr<nlohmann::json> Ask(const std::string& command,
                                     nlohmann::json arguments = nlohmann::json::object());

 private:
  std::string dir_;
  int pid_ = 0;
};

// One job's connection.
class Peer {
 public:
  // Joins: is in, or refused, when this returns, so that peers are in the order in which they are made.
  Peer(const Daemon& daemon, wire::Join join);
  explicit Peer(const Daemon& daemon);  // only connects

  void Say(const wire::Message& message, int descriptor = -1);
  absl::StatusOr<wire::Received> HearAny();
  // The next message, which must be of this type; messages of other types in between are dropped.
  template <typename Type>
  Type Hear(UniqueFd* descriptor = nullptr);
  // True when the daemon has closed the connection; drops what comes before.
  bool HearsEnd();
  wire::Channel& channel() { return channel_; }

 private:
  wire::Channel channel_;
  std::optional<absl::StatusOr<wire::Received>> answer_;  // to Join, not heard yet
};

// What `status` shows of a job; null where there is none of that name.
nlohmann::json JobNamed(Daemon& daemon, const std::string& name);

// Sends `bytes` as they are.
void SendRaw(Peer& peer, const std::string& bytes);

// Alive and with its wits: a fresh job gets the turn.
void ExpectServes(Daemon& daemon);

// Runs `life` in a process of its own, which then waits until it is killed. Returns its pid when `life` is
// over.
pid_t Spawn(const std::function<void()>& life);
void KillAndReap(pid_t pid);

template <typename Type>
Type Peer::Hear(UniqueFd* descriptor) {
  while (true) {
    auto received = HearAny();
    if (!received.ok())
      throw std::runtime_error(std::string(Type::kName) +
                               " expected: " + std::string(received.status().message()));
    if (auto* found = std::get_if<Type>(&received->message)) {
      if (descriptor != nullptr) *descriptor = std::move(received->descriptor);
      return *std::move(found);
    }
  }
}

}  // namespace hocket::coordinator

#endif  // HOCKET_TESTS_COORDINATOR_DAEMON_H_
