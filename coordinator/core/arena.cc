// The lanes' arenas: who is told of which chunk, when.
#include "coordinator/core/arena.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/limits.h"
#include "csrc/wire/ids.h"

namespace hocket::coordinator {
namespace {

// Chunks are larger than that, on small devices too.
constexpr Bytes kLeastChunk = 1_MiB;

std::size_t MostChunks(const Device& device) {
  return std::clamp<std::size_t>(device.capacity / kLeastChunk, kLeastChunks, kMostChunks);
}

}  // namespace

// One that overstays keeps its arena for itself, learns nothing of the others', and forgets it when it stops.
// Between it and the one who was granted the turn since, the lane's lock goes without a word of ours: what
// one adopted the other would hear of too late.
void Core::On(Job* job, const wire::ArenaGrew& event) {
  if (job == nullptr || job->gone || job->overstays != 0) return;
  if (event.to_job != 0) return Exported(*job, event);
  Device& device = DeviceOf(*job);
  LaneArena& arena = device.lanes[job->lane].arena;
  const std::size_t most = MostChunks(device);
  if (!arena.Has(event.chunk) && arena.count() >= most) {
    return RejectJob(*job, absl::StrCat("ArenaGrew from ", job->info.name, ", whose lane has ", arena.count(),
                                        " chunks, as many as it may (one for each MiB of ", device.name,
                                        ", and ", kLeastChunks, " to ", kMostChunks, ")"));
  }
  job->arena.told.insert(event.chunk);
  const LaneArena::Number number = arena.Add(event.chunk, event.size);
  for (auto& [id, other] : state_.jobs) {
    if (id == job->id || !SharesLane(other, *job) || other.overstays != 0) continue;
    SkipTold(other);
    if (event.bare || other.arena.next != number || MayTell(other) == 0 || !other.arena.asked.empty()) {
      FillArena(other);
    } else {
      ++other.arena.next;
      TellChunk(other, event.chunk, event.size);
    }
  }
}

// The answer to an ArenaExport.
void Core::Exported(const Job& exporter, const wire::ArenaGrew& event) {
  const auto found = state_.jobs.find(event.to_job);
  if (found == state_.jobs.end() || !SharesLane(found->second, exporter)) return;
  Job& job = found->second;
  if (job.overstays != 0 || job.arena.exporter != exporter.id || job.arena.asked.erase(event.chunk) == 0)
    return;
  const LaneArena& arena = DeviceOf(job).lanes[job.lane].arena;
  const bool wanted = arena.Has(event.chunk) && !job.arena.told.contains(event.chunk);
  // What cannot be sent to it, it does without.
  if (wanted && !event.bare) TellChunk(job, event.chunk, event.size);
  FillArena(job);
}

void Core::On(Job* job, const wire::ArenaHeard& event) {
  if (job == nullptr || job->gone) return;
  job->arena.heard = std::clamp(event.count, job->arena.heard, job->arena.sent);
  FillArena(*job);
}

void Core::On(Job* job, const wire::ArenaLost& event) {
  if (job == nullptr || job->gone) return;
  job->arena.told.erase(event.chunk);
  Device& device = DeviceOf(*job);
  if (!device.lanes[job->lane].arena.Remove(event.chunk)) return;
  for (auto& [id, other] : state_.jobs) {
    if (other.device != job->device || other.lane != job->lane) continue;
    if (other.arena.told.erase(event.chunk) > 0) SendTo(id, wire::ArenaDrop{.chunk = event.chunk});
    if (other.arena.asked.erase(event.chunk) > 0) FillArena(other);
  }
  Expect(device, 0, kArenaDropLimit);
}

// Whoever had the turn has died in it, and its kernels may still write: no chunk of its arena is used again.
// One that has hung up in it has them as long as its process lives.
void Core::DropArena(Device& device, int lane, JobId except) {
  LaneArena& arena = device.lanes[lane].arena;
  if (const auto found = state_.jobs.find(except); found != state_.jobs.end() && found->second.hung_up) {
    KeepArena(found->second, arena.size());
  } else {
    Expect(device, arena.size(), kDeadMemoryLimit);
  }
  arena.Clear();
  device.lanes[lane].fresh = true;
  for (auto& [id, other] : state_.jobs) {
    if (id == except || other.gone || other.device != &device || other.lane != lane) continue;
    ForgetArena(other);
    SendTo(id, wire::ArenaDrop{.chunk = 0});
  }
}

// What `job` knows may not be so any more: it learns the arena anew from the others. One that overstays does
// so when it has stopped.
void Core::RenewArena(Job& job) {
  ForgetArena(job);
  Device& device = DeviceOf(job);
  if (const Bytes unmapped = DropUnknown(device, job.lane)) Expect(device, unmapped, kArenaDropLimit);
  SendTo(job.id, wire::ArenaDrop{.chunk = 0});
  FillArena(job);
}

// It knows no chunk any more, and can tell nobody of one.
void Core::ForgetArena(Job& job) {
  job.arena.told.clear();
  job.arena.asked.clear();
  job.arena.next = 0;
  AskOthersThan(job);
}

// Chunks that nobody in the lane knows any more, who could tell others of them: they are not counted, and not
// waited for. Returns how much that is; who may still have them mapped the caller knows. One that overstays
// has chunks that it does not speak of before it stops.
Bytes Core::DropUnknown(Device& device, int lane) {
  const auto found = device.lanes.find(lane);
  if (found == device.lanes.end() || found->second.arena.empty()) return 0;
  std::vector<Job*> there;
  for (auto& [id, job] : state_.jobs) {
    if (job.gone || job.device != &device || job.lane != lane) continue;
    if (job.overstays != 0) return 0;
    there.push_back(&job);
  }
  LaneArena& arena = found->second.arena;
  std::vector<LaneArena::Chunk> unknown;
  for (const auto& [number, chunk] : arena.in_order()) {
    const bool known = std::any_of(there.begin(), there.end(), [&, chunk = chunk](const Job* job) {
      return job->arena.told.contains(chunk);
    });
    if (!known) unknown.push_back(chunk);
  }
  if (unknown.empty()) return 0;
  const Bytes before = arena.size();
  for (const LaneArena::Chunk chunk : unknown) arena.Remove(chunk);
  for (Job* job : there) FillArena(*job);
  return before - arena.size();
}

// It has hung up, and nobody will tell when it unmaps them: they are its own until its process ends.
void Core::KeepArena(Job& job, Bytes bytes) {
  Add(bytes, job.kept_arena);
  Add(bytes, job.persistent);
}

// Those for whom `job` was asked for chunks ask others.
void Core::AskOthersThan(const Job& job) {
  for (auto& [id, other] : state_.jobs) {
    if (other.arena.exporter != job.id || other.arena.asked.empty()) continue;
    other.arena.asked.clear();
    other.arena.next = 0;
    FillArena(other);
  }
}

bool Core::SharesLane(const Job& other, const Job& job) const {
  return !other.gone && other.device == job.device && other.lane == job.lane;
}

// How many more chunks it may be told of now.
std::uint64_t Core::MayTell(const Job& job) {
  if (!job.info.counts_arena) return kMostUnheard;
  return kMostUnheard - std::min(kMostUnheard, job.arena.sent - job.arena.heard);
}

void Core::TellChunk(Job& job, std::uint64_t chunk, Bytes size) {
  job.arena.told.insert(chunk);
  ++job.arena.sent;
  SendTo(job.id, wire::ArenaAdd{.chunk = chunk, .size = size}, /*with_descriptor=*/true);
}

// `next` is that of a chunk which it has not been told of, or of none that there is yet.
void Core::SkipTold(Job& job) {
  const auto& order = DeviceOf(job).lanes[job.lane].arena.in_order();
  auto next = order.lower_bound(job.arena.next);
  while (next != order.end() && job.arena.told.contains(next->second)) ++next;
  if (next != order.end()) {
    job.arena.next = next->first;
  } else if (!order.empty()) {
    job.arena.next = std::max(job.arena.next, order.rbegin()->first + 1);
  }
}

// Who is to tell of a chunk: who has the turn, if he knows it, or who knows most.
const Job* Core::ExporterOf(const Job& job, std::uint64_t chunk) const {
  const Job* exporter = nullptr;
  for (const auto& [id, other] : state_.jobs) {
    if (id == job.id || !SharesLane(other, job) || other.unresponsive || other.overstays != 0 ||
        !other.arena.told.contains(chunk))
      continue;
    const bool better =
        exporter == nullptr || other.turn != 0 || other.arena.told.size() > exporter->arena.told.size();
    if (better && (exporter == nullptr || exporter->turn == 0)) exporter = &other;
  }
  return exporter;
}

// Asks somebody for the next chunks that `job` does not know, unless that has been done, or it has not heard
// of the last ones yet: then its ArenaHeard comes here.
void Core::FillArena(Job& job) {
  const std::uint64_t most = MayTell(job);
  if (job.gone || job.overstays != 0 || !job.arena.asked.empty() || most < kMostUnheard / 2) return;
  SkipTold(job);
  const auto& order = DeviceOf(job).lanes[job.lane].arena.in_order();
  auto next = order.lower_bound(job.arena.next);
  if (next == order.end()) return;
  const Job* const exporter = ExporterOf(job, next->second);
  if (exporter == nullptr) return;
  std::vector<std::uint64_t> chunks;
  for (; next != order.end() && chunks.size() < most; ++next) {
    job.arena.next = next->first + 1;
    if (job.arena.told.contains(next->second)) continue;
    if (!exporter->arena.told.contains(next->second)) break;
    chunks.push_back(next->second);
  }
  if (next != order.end() && chunks.size() < most) job.arena.next = next->first;
  job.arena.asked.insert(chunks.begin(), chunks.end());
  job.arena.exporter = exporter->id;
  SendTo(exporter->id, wire::ArenaExport{.to_job = job.id, .chunks = wire::PackIds(chunks)});
}

}  // namespace hocket::coordinator
