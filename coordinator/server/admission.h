// Who may join, with what values, and what a job may say then. Everything a stranger sends is checked here
// before the core sees it: numbers are in range, names are printable.
#ifndef HOCKET_COORDINATOR_SERVER_ADMISSION_H_
#define HOCKET_COORDINATOR_SERVER_ADMISSION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/state.h"
#include "csrc/base/bytes.h"
#include "csrc/wire/messages.h"

namespace hocket::coordinator {

// Of bytes: more than any device or host has, and the sum over all that may join does not wrap.
inline constexpr Bytes kMaxBytes = Bytes{1} << 50;
// Of steps, turns and nanoseconds: from here on there is room to count.
inline constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 62;
// No job is given a number from here on: there is room to count.
inline constexpr JobId kMaxJobId = JobId{1} << 48;

// kInvalidArgument: a sentence for the user that names the value and the range.
absl::Status CheckJoin(const wire::Join& join);

// A message of a job that has joined. kInvalidArgument: it is none that jobs send, or names the number and
// its range. Reasons, which are for people, are made printable: errors have several lines.
absl::Status CheckSaidByJob(wire::Message& message);

// The same for values that people set later.
absl::Status CheckWeight(double weight);
absl::Status CheckTimeCap(double cap);
absl::Status CheckTimeGuarantee(double share);
absl::Status CheckGroupName(const std::string& name);
// What `whose` (for people) is to have; `promised` of the time to all others on that device.
absl::Status CheckTimeQuota(const std::string& whose, double cap, double guarantee, double promised);
// Of a group or a user. 0: none.
absl::Status CheckMemoryCap(const std::string& whose, Bytes cap, Bytes guarantee);
struct MemoryQuota {
  Bytes limit = 0;      // 0: none
  Bytes guarantee = 0;  // 0: none
};
// What `job`, on `device`, is to have instead of what it has; `promised` to the other jobs there. Also
// kFailedPrecondition: its Hocket cannot.
absl::Status CheckMemoryQuota(const Job& job, const Device& device, const MemoryQuota& quota, Bytes promised);
absl::Status CheckPriority(const std::string& priority);
absl::Status CheckSwitchShare(double share);
absl::Status CheckLinkBound(double bound);
absl::Status CheckProductionBound(double bound);
absl::Status CheckMostTogether(double most);

// What happens to others when a holder does not give his turn up.
inline constexpr char kWait[] = "wait";
inline constexpr char kGoOn[] = "go-on";
absl::Status CheckOverdue(const std::string& overdue);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_ADMISSION_H_
