// One emulated GPU and the processes that a test puts on it.
#ifndef HOCKET_TESTS_EMULATOR_WORLD_H_
#define HOCKET_TESTS_EMULATOR_WORLD_H_

#include <unistd.h>

#include <string>

#include "tests/emulator/puppet.h"

namespace hocket {

class World {
 public:
  World() : World("HOCKET_EMULATOR_MODE", "values") {}
  // With one more setting, as the emulator reads it from the environment. The name is the world's own; its
  // processes are in check mode unless they or the world are told otherwise.
  World(const std::string& setting, const std::string& value) : environment_{{setting, value}} {
    static int worlds = 0;
    environment_["HOCKET_EMULATOR_NAME"] =
        "world-" + std::to_string(getpid()) + "-" + std::to_string(worlds++);
    environment_.insert({"HOCKET_EMULATOR_MEMORY", "64MiB"});
    environment_.insert({"HOCKET_EMULATOR_CHECK", "1"});
  }
  ~World() { unlink(Path().c_str()); }

  // A process that has made device 0 current; its environment is the world's, changed by `more`.
  Puppet Start(const Puppet::Environment& more = {}) const {
    Puppet::Environment environment = environment_;
    for (const auto& [name, value] : more) environment[name] = value;
    Puppet puppet(environment);
    puppet.Ask("device 0");
    return puppet;
  }

  // Where the device's state lies.
  std::string Path() const {
    return "/dev/shm/hocket-emulator-" + std::to_string(geteuid()) + "-" +
           environment_.at("HOCKET_EMULATOR_NAME");
  }

 private:
  Puppet::Environment environment_;
};

}  // namespace hocket

#endif  // HOCKET_TESTS_EMULATOR_WORLD_H_
