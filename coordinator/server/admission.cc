#include "coordinator/server/admission.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/base/bytes.h"
#include "csrc/base/status_macros.h"
#include "csrc/wire/limits.h"

namespace hocket::coordinator {
namespace {

using wire::kMaxName;
using wire::kMaxText;
constexpr uint64_t kMaxGang = 4096;
constexpr double kMinWeight = 1e-6;
constexpr double kMaxWeight = 1e6;
constexpr double kMinTimeCap = 1e-3;
constexpr double kMinBound = 1e-3;
constexpr double kMaxBound = 0.9;
constexpr int kMostTogether = 16;

struct Number {
  const char* name;
  uint64_t value;
  uint64_t limit;
};

absl::Status CheckNumbers(std::initializer_list<Number> numbers) {
  for (const Number& number : numbers) {
    if (number.value < number.limit) continue;
    return absl::InvalidArgumentError(absl::StrCat(number.name, " is said to be ", number.value,
                                                   ", which is out of range (below ", number.limit, ")."));
  }
  return absl::OkStatus();
}

absl::Status CheckText(const char* what, const std::string& text, size_t longest) {
  if (text.size() > longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " has ", text.size(), " characters, at most ", longest, " are allowed."));
  }
  if (!wire::IsPrintable(text)) {
    return absl::InvalidArgumentError(absl::StrCat("the ", what, " '", absl::CEscape(text),
                                                   "' has control characters; use printable ones."));
  }
  return absl::OkStatus();
}

// It becomes part of a file's name.
absl::Status CheckDevice(const std::string& device) {
  const bool good =
      !device.empty() && device.size() <= kMaxName && device[0] != '.' &&
      std::all_of(device.begin(), device.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
      });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CEscape(device), "' is no device: expected the driver's UUID, or cpu."));
}

absl::Status CheckMemory(const wire::Join& join) {
  if (join.capacity == 0 && join.device != "cpu")
    return absl::InvalidArgumentError(absl::StrCat("device ", join.device, " is said to have no memory."));
  if (join.capacity > 0 && join.memory_limit > join.capacity) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory_limit ", FormatBytes(join.memory_limit), " is more than the ", FormatBytes(join.capacity),
        " of ", join.device_name.empty() ? join.device : join.device_name, ". Give at most that, or none."));
  }
  return absl::OkStatus();
}

absl::Status CheckGang(const std::string& name, uint64_t rank, uint64_t size) {
  HOCKET_RETURN_IF_ERROR(CheckText("gang", name, kMaxText));
  if (!name.empty() && size <= kMaxGang && rank < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", size, " is no rank of the gang '",
                                                 name, "' (a gang has a name and at most ", kMaxGang,
                                                 " ranks)."));
}

// A single job says nothing of a gang.
absl::Status CheckGang(const wire::Join& join) {
  if (join.gang.empty() && join.gang_rank == 0 && join.gang_size == 0) return absl::OkStatus();
  return CheckGang(join.gang, join.gang_rank, join.gang_size);
}

absl::Status CheckSaid(wire::Wait& wait) {
  return CheckNumbers({{"need", wait.need, kMaxBytes},
                       {"gang_step", wait.gang_step, kMaxCount},
                       {"persistent", wait.persistent, kMaxBytes},
                       {"spilled", wait.spilled, kMaxBytes}});
}

absl::Status CheckSaid(wire::YieldAck& ack) {
  return CheckNumbers({{"stop_step", ack.stop_step, kMaxCount}, {"step", ack.step, kMaxCount}});
}

absl::Status CheckSaid(wire::TurnOver& over) {
  over.why_not_movable = wire::MadePrintable(std::move(over.why_not_movable));
  return CheckNumbers({{"steps", over.steps, kMaxCount},
                       {"turn_steps", over.turn_steps, kMaxCount},
                       {"drain_ns", over.drain_ns, kMaxCount},
                       {"ready_ns", over.ready_ns, kMaxCount},
                       {"hand_over_ns", over.hand_over_ns, kMaxCount},
                       {"persistent", over.persistent, kMaxBytes},
                       {"spilled", over.spilled, kMaxBytes},
                       {"transient_peak", over.transient_peak, kMaxBytes},
                       {"restored", over.restored, kMaxBytes}});
}

absl::Status CheckSaid(wire::NeedRoom& need) {
  return CheckNumbers({{"bytes", need.bytes, kMaxBytes},
                       {"device_free", need.device_free, kMaxBytes},
                       {"persistent", need.persistent, kMaxBytes},
                       {"spilled", need.spilled, kMaxBytes}});
}

absl::Status CheckSaid(wire::Spilled& spilled) {
  spilled.why_not = wire::MadePrintable(std::move(spilled.why_not));
  return CheckNumbers({{"freed", spilled.freed, kMaxBytes},
                       {"persistent", spilled.persistent, kMaxBytes},
                       {"spilled", spilled.spilled, kMaxBytes},
                       {"host_taking_ns", spilled.host_taking_ns, kMaxCount}});
}

absl::Status CheckSaid(wire::Restored& restored) {
  return CheckNumbers({{"restored", restored.restored, kMaxBytes},
                       {"persistent", restored.persistent, kMaxBytes},
                       {"spilled", restored.spilled, kMaxBytes},
                       {"piece", restored.piece, kMaxBytes},
                       {"took_ns", restored.took_ns, kMaxCount}});
}

absl::Status CheckSaid(wire::ArenaGrew& grew) { return CheckNumbers({{"size", grew.size, kMaxBytes}}); }

absl::Status CheckSaid(wire::Gang& gang) { return CheckGang(gang.gang, gang.rank, gang.size); }

absl::Status CheckSaid(wire::Report& report) {
  return CheckNumbers({{"persistent", report.persistent, kMaxBytes},
                       {"spilled", report.spilled, kMaxBytes},
                       {"steps", report.steps, kMaxCount}});
}

absl::Status CheckSaid(wire::Leave& leave) {
  return CheckNumbers(
      {{"most_held", leave.most_held, kMaxBytes}, {"most_transient", leave.most_transient, kMaxBytes}});
}

absl::Status CheckSaid(wire::ArenaLost&) { return absl::OkStatus(); }
absl::Status CheckSaid(wire::ArenaHeard&) { return absl::OkStatus(); }
absl::Status CheckSaid(wire::LacksHeadroom& lacks) {
  return CheckNumbers({{"bytes", lacks.bytes, kMaxBytes}});
}
absl::Status CheckSaid(wire::StoodBy&) { return absl::OkStatus(); }

// What only the coordinator says, and what begins a connection.
template <typename Other>
absl::Status CheckSaid(Other& other) {
  return absl::InvalidArgumentError(absl::StrCat(other.kName, " is not a job's to say."));
}

}  // namespace

absl::Status CheckWeight(double weight) {
  if (weight >= kMinWeight && weight <= kMaxWeight) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("weight ", weight,
                                                 " is not allowed: give a number above 0, such as 1 or 2.5 (",
                                                 kMinWeight, " to ", kMaxWeight, ")."));
}

absl::Status CheckTimeCap(double cap) {
  if (cap >= kMinTimeCap && cap <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a time cap of ", 100 * cap, " % is not allowed: give ", 100 * kMinTimeCap,
                   " % to 100 %, such as 25 %. To give a job no turns at all: hocket pause."));
}

absl::Status CheckTimeGuarantee(double share) {
  if (share >= kMinTimeCap && share <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a time guarantee of ", 100 * share,
                                                 " % is not allowed: give ", 100 * kMinTimeCap,
                                                 " % to 100 %, such as 25 %."));
}

absl::Status CheckGroupName(const std::string& name) {
  if (wire::IsGroupName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CEscape(name), "' is no name of a group: ", wire::kGroupNames, "."));
}

absl::Status CheckTimeQuota(const std::string& whose, double cap, double guarantee, double promised) {
  if (guarantee == 0) return absl::OkStatus();
  const std::string what = absl::StrFormat("a time guarantee of %.3g %% for %s ", 100 * guarantee, whose);
  if (cap > 0 && guarantee > cap)
    return absl::InvalidArgumentError(absl::StrFormat(
        "%sis more than its time cap of %.3g %%. Raise that, or give less.", what, 100 * cap));
  // Shares that people add up to 100 % do so in fractions only nearly.
  if (guarantee + promised <= 1 + 1e-9) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%scannot be kept: others are guaranteed %.3g %% of the same device. Give at most %.3g %%, "
      "or lower theirs (hocket quota shows them).",
      what, 100 * promised, std::max(0.0, 100 * (1 - promised))));
}

absl::Status CheckMemoryCap(const std::string& whose, Bytes cap, Bytes guarantee) {
  if (cap == 0 || guarantee <= cap) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a memory guarantee of ", FormatBytes(guarantee), " for ",
                                                 whose, " is more than its memory cap of ", FormatBytes(cap),
                                                 ". Raise that, or guarantee less."));
}

namespace {

absl::Status CheckLimit(const Job& job, const Device& device, Bytes limit) {
  const std::string what =
      absl::StrCat("a memory limit of ", FormatBytes(limit), " for ", job.info.name, " ");
  if (limit > device.capacity)
    return absl::InvalidArgumentError(absl::StrCat(what, "is more than the ", FormatBytes(device.capacity),
                                                   " of ", device.name, ". Give at most that, or none."));
  if (!job.info.heeds_limit)
    return absl::FailedPreconditionError(
        absl::StrCat(what, "cannot be set while it runs: its Hocket (", job.info.hocket_version,
                     ") is older than this one. Give it when the job starts: hocket run --memory-limit."));
  return absl::OkStatus();
}

absl::Status CheckGuarantee(const Job& job, const Device& device, const MemoryQuota& quota, Bytes promised) {
  const std::string what =
      absl::StrCat("a guarantee of ", FormatBytes(quota.guarantee), " for ", job.info.name, " ");
  if (quota.limit > 0 && quota.guarantee > quota.limit)
    return absl::InvalidArgumentError(absl::StrCat(what, "is more than its memory limit of ",
                                                   FormatBytes(quota.limit), ". Raise that, or give less."));
  if (promised > device.capacity || quota.guarantee > device.capacity - promised)
    return absl::InvalidArgumentError(absl::StrCat(
        what, "cannot be kept: ", device.name, " has ", FormatBytes(device.capacity),
        ", of which others are guaranteed ", FormatBytes(promised), ". Give less, or lower theirs."));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMemoryQuota(const Job& job, const Device& device, const MemoryQuota& quota,
                              Bytes promised) {
  if (device.capacity == 0)
    return absl::InvalidArgumentError(
        absl::StrCat("Hocket does not manage the memory of ", device.name, "."));
  if (quota.limit != job.info.memory_limit) HOCKET_RETURN_IF_ERROR(CheckLimit(job, device, quota.limit));
  return quota.guarantee == 0 ? absl::OkStatus() : CheckGuarantee(job, device, quota, promised);
}

absl::Status CheckPriority(const std::string& priority) {
  if (priority == "high" || priority == "normal" || priority == "low") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there is no priority '", absl::CEscape(priority),
                                                 "'. The priorities are: high, normal, low."));
}

absl::Status CheckSwitchShare(double share) {
  if (std::isfinite(share) && share > 0 && share <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a share of ", share,
                   " for switching is not allowed: give a number above 0 and up to 1, such as 0.02."));
}

absl::Status CheckLinkBound(double bound) {
  if (bound >= kMinBound && bound <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a bound of ", 100 * bound,
                   " % on what bytes moved for others may slow a holder down is not allowed: give ",
                   100 * kMinBound, " % to 100 %, such as 2 %; 100 % does not limit them."));
}

absl::Status CheckProductionBound(double bound) {
  if (bound >= kMinBound && bound <= kMaxBound) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a bound of ", 100 * bound,
                   " % on what other jobs may cost those of high priority is not allowed: give ",
                   100 * kMinBound, " % to ", 100 * kMaxBound, " %, such as 2 %."));
}

absl::Status CheckMostTogether(double most) {
  if (most >= 1 && most <= kMostTogether && most == std::floor(most)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("so many jobs at the same time, ", most,
                                                 ", are not allowed: give a number from 1 to ", kMostTogether,
                                                 "."));
}

absl::Status CheckOverdue(const std::string& overdue) {
  if (overdue == kWait || overdue == kGoOn) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", absl::CEscape(overdue), "' is not known. While a holder does not give its turn up, the others ",
      kWait, ", or they ", kGoOn, " beside it."));
}

absl::Status CheckJoin(const wire::Join& join) {
  HOCKET_RETURN_IF_ERROR(CheckText("name", join.name, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("program", join.program, kMaxText));
  HOCKET_RETURN_IF_ERROR(CheckText("device's name", join.device_name, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("version of Hocket", join.hocket_version, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("version of torch", join.torch_version, kMaxName));
  HOCKET_RETURN_IF_ERROR(CheckText("lane's lock", join.lane_lock, kMaxText));
  HOCKET_RETURN_IF_ERROR(CheckDevice(join.device));
  HOCKET_RETURN_IF_ERROR(CheckWeight(join.weight));
  HOCKET_RETURN_IF_ERROR(CheckPriority(join.priority));
  HOCKET_RETURN_IF_ERROR(CheckMemory(join));
  HOCKET_RETURN_IF_ERROR(CheckNumbers({{"capacity", join.capacity, kMaxBytes},
                                       {"memory_limit", join.memory_limit, kMaxBytes},
                                       {"persistent", join.persistent, kMaxBytes},
                                       {"spilled", join.spilled, kMaxBytes},
                                       {"steps", join.steps, kMaxCount},
                                       {"total_steps", join.total_steps, kMaxCount},
                                       {"turn", join.turn, kMaxCount}}));
  if (!join.group.empty()) HOCKET_RETURN_IF_ERROR(CheckGroupName(join.group));
  return CheckGang(join);
}

absl::Status CheckSaidByJob(wire::Message& message) {
  return std::visit([](auto& said) { return CheckSaid(said); }, message);
}

}  // namespace hocket::coordinator
