// What the core is told when it is made; most of it people may set later (events.h).
#ifndef HOCKET_COORDINATOR_CORE_OPTIONS_H_
#define HOCKET_COORDINATOR_CORE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "coordinator/core/events.h"
#include "coordinator/core/owner.h"
#include "coordinator/core/state.h"
#include "coordinator/policies/policy.h"

namespace hocket::coordinator {

struct CoreOptions {
  std::string policy = "fair";  // REQUIRES: `make_policy` makes it
  double switch_share = 0.02;   // of the time may go into hand-overs that move bytes
  double link_bound = 0.02;     // by so much others' bytes may slow a holder down
  PolicySettings policy_settings;
  bool overdue_go_on = false;     // see SetOverdue
  std::map<Owner, Quota> quotas;  // of groups and users
  std::string runtime_dir;        // lane locks lie there, or where this says: several users' jobs need
  // folders of their own, which nobody else can open
  std::function<std::string(unsigned user)> lock_folder;
  TurnNumber first_turn = 1;
  // Of promises; where jobs outlive a coordinator: a number at random, below 2^61.
  std::uint64_t first_pass = 1;
  std::function<std::unique_ptr<Policy>(const std::string& name)> make_policy;  // none: a registered one
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_CORE_OPTIONS_H_
