// Memory caps of groups and users: what their jobs hold on a device together, resident and spilled.
//
// Each job's own allocator keeps its limit, so a cap is told as limits: a job may hold what its fellows leave
// of the cap, and is told so before it gets its turn. Who has no turn does not grow, so the sum holds.
// Several of them that may grow at the same time, ranks of a gang on one device, have what is left in equal
// parts; others do not run beside each other. Who holds more when a cap is set keeps it, as under his own
// limit.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace hocket::coordinator {
namespace {

constexpr size_t kMostNamed = 8;  // of a cap's jobs, in an error

}  // namespace

void Core::On(Job* job, const SetMemoryLimit& event) {
  if (job == nullptr || job->gone) return;
  job->info.memory_limit = event.limit;
  SendLimit(*job, LimitOf(*job));
}

Bytes Core::MemoryCapOf(const Owner& owner) const {
  const auto quota = state_.quotas.find(owner);
  return quota == state_.quotas.end() ? 0 : quota->second.memory_cap;
}

// Also what jobs hold that take no part any more.
Bytes Core::MemoryHeld(const OnDevice& of) const {
  Bytes held = 0;
  for (const auto& [id, job] : state_.jobs) {
    if (job.info.device == of.second && Owns(of.first, job)) Add(OwnBytes(job), held);
  }
  return held;
}

Bytes Core::LeftByCap(const Owner& owner, const Job& job) const {
  const Bytes cap = MemoryCapOf(owner), all = MemoryHeld({owner, job.info.device}), own = OwnBytes(job);
  const Bytes others = all - std::min(all, own);
  if (all >= cap) return std::max<Bytes>(1, cap - std::min(cap, others));
  const auto grows = [&](const auto& entry) {
    const Job& other = entry.second;
    return other.device == job.device && !other.gone && Owns(owner, other) &&
           (other.id == job.id || other.entity == job.entity || HasPart(other));
  };
  const auto many = std::count_if(state_.jobs.begin(), state_.jobs.end(), grows);
  return own + (cap - all) / static_cast<Bytes>(std::max<std::ptrdiff_t>(1, many));
}

// Its own, or what the tightest cap leaves it.
wire::Limit Core::LimitOf(const Job& job) const {
  wire::Limit limit{.memory = job.info.memory_limit, .own = job.info.memory_limit};
  if (state_.quotas.empty()) return limit;
  for (const Owner& owner : OwnersOf(job)) {
    if (MemoryCapOf(owner) == 0) continue;
    const Bytes left = LeftByCap(owner, job);
    if (limit.memory != 0 && limit.memory <= left) continue;
    limit.memory = left;
    limit.together = CapInWords(owner, job);
  }
  return limit;
}

std::string Core::CapInWords(const Owner& owner, const Job& asked) const {
  const bool group = owner.kind == Owner::Kind::kGroup;
  const std::string whose = group ? absl::StrCat("group ", owner.group) : absl::StrCat("user ", owner.id);
  std::vector<const Job*> others;
  for (const auto& [id, job] : state_.jobs) {
    if (id != asked.id && job.device == asked.device && Owns(owner, job) && OwnBytes(job) > 0)
      others.push_back(&job);
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Job* a, const Job* b) { return OwnBytes(*a) > OwnBytes(*b); });
  std::string text = absl::StrCat("the jobs of ", whose, " may hold ", FormatBytes(MemoryCapOf(owner)),
                                  " together on ", DeviceOf(asked).name);
  for (size_t i = 0; i < std::min(others.size(), kMostNamed); ++i)
    absl::StrAppend(&text, i == 0 ? ", of which " : ", ", NameFor(asked, *others[i]), " has ",
                    FormatBytes(OwnBytes(*others[i])));
  if (others.size() > kMostNamed) absl::StrAppend(&text, ", and ", others.size() - kMostNamed, " more some");
  return absl::StrCat(text, " (hocket quota --", group ? "group " : "user ",
                      group ? owner.group : absl::StrCat(owner.id), ")");
}

void Core::SendLimit(Job& job, wire::Limit limit) {
  job.told_limit = limit.memory;
  SendTo(job.id, std::move(limit));
}

// If it does not know it. Who joins again may have been told another one by the coordinator before.
void Core::TellLimit(Job& job) {
  if (!job.info.heeds_limit) return;
  wire::Limit limit = LimitOf(job);
  const bool as_joined = limit.together.empty() || (limit.memory == limit.own && !job.info.rejoin);
  if (job.told_limit ? *job.told_limit != limit.memory : !as_joined) SendLimit(job, std::move(limit));
}

// Those that may grow now. Those of a gang share what is left: they are told once, with the turn.
void Core::KeepMemoryCaps() {
  for (JobId id : active_) {
    Job& job = this->job(id);
    const bool may_grow = HasPart(job);
    if (may_grow && !job.gone && job.entity == id) TellLimit(job);
  }
}

bool Core::ShareMemoryCap(const Job& a, const Job& b) const {
  if (state_.quotas.empty()) return false;
  const std::vector<Owner> owners = OwnersOf(a);
  return a.id != b.id && a.device == b.device &&
         std::any_of(owners.begin(), owners.end(),
                     [&](const Owner& owner) { return MemoryCapOf(owner) > 0 && Owns(owner, b); });
}

// Two of them, of which at least one is a guest.
bool Core::ShareMemoryCap(const Turn& turn) const {
  const auto members = MembersOf(turn);
  return std::any_of(members.begin(), members.end(), [&](JobId a) {
    return std::any_of(members.begin(), members.end(),
                       [&](JobId b) { return ShareMemoryCap(job(a), job(b)); });
  });
}

std::string Core::ExplainMemoryCaps(const Job& job) const {
  std::string text;
  for (const Owner& owner : OwnersOf(job)) {
    if (MemoryCapOf(owner) == 0) continue;
    absl::StrAppend(&text, "; ", OwnerInWords(owner, job.id), "holds ",
                    FormatBytes(MemoryHeld({owner, job.info.device})), " of memory, the cap is ",
                    FormatBytes(MemoryCapOf(owner)));
  }
  return text;
}

}  // namespace hocket::coordinator
