// What a job says of itself when it joins, and what it is told. Plain data, so that programs which include
// job.h need nothing but the standard library.
#ifndef HOCKET_CSRC_CLIENT_JOB_OPTIONS_H_
#define HOCKET_CSRC_CLIENT_JOB_OPTIONS_H_

#include <cstdint>
#include <string>

namespace hocket {

struct JobOptions {
  std::string name = "";            // empty: from the program
  double weight = 1;                // > 0, finite
  std::string priority = "normal";  // high | normal | low
  std::uint64_t memory_limit = 0;   // bytes; 0: the device's capacity
  std::uint64_t total_steps = 0;    // 0: unknown
  std::string torch_version = "";   // for status
  std::string group = "";           // whose quotas hold for it, too; empty: as HOCKET_GROUP says, or none
  bool serves = false;  // its steps are requests: those who train stand by for them. Or HOCKET_SERVES=1
};

// What the process is told about itself; `hocket run` prints it.
struct JobInfo {
  std::uint64_t id = 0;
  std::string name;
  std::string device_name;
  std::string sharing_with;  // names, comma separated; empty: alone
  std::uint64_t steps = 0;
  std::uint64_t turns = 0;
  bool joined = false;
  bool coordinated = false;  // false: no coordinator can be had; steps run without turns' order
  bool holds_turn = false;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_JOB_OPTIONS_H_
