#include <sys/socket.h>

#include <csignal>
#include <map>
#include <stdexcept>

#include "csrc/wire/channel.h"
#include "tests/coordinator/daemon.h"
#include "tests/recorded/socket.h"
#include "tests/recorded/stages.h"

namespace hocket::recorded {
namespace {

class RealCoordinator final : public Stage {
 public:
  void Say(int peer, const std::string& frame, Carries carries) override {
    auto found = peers_.find(peer);
    if (found == peers_.end())
      found = peers_.emplace(peer, wire::Channel::Connect(daemon_.socket()).value()).first;
    SendFrame(found->second.fd(), frame, carries, page_);
  }
  std::string Hear(int peer) override { return ReceiveFrame(peers_.at(peer).fd()); }
  void Do(int peer, const std::string& verb) override {
    if (verb == "hang up") {
      peers_.erase(peer);
    } else if (verb == "restart") {
      daemon_.Kill(SIGKILL);
      peers_.clear();
      daemon_.Start();
    } else {
      throw std::runtime_error("there is no verb '" + verb + "' here");
    }
  }

 private:
  coordinator::Daemon daemon_;
  wire::SharedPage page_ = wire::SharedPage::Create().value();
  std::map<int, wire::Channel> peers_;
};

}  // namespace

std::unique_ptr<Stage> CoordinatorStage() { return std::make_unique<RealCoordinator>(); }

}  // namespace hocket::recorded
