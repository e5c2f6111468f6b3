// Writes the turns down as they end, for `hocket trace`: a day of them does not fit into memory.
//
//   <folder>/0000000001.turns, 0000000002.turns, ...     blocks (block.h), one after the other
//
// Add() puts a record of about 30 bytes into memory; a thread of its own writes what has come together, once
// a second or by 64 KiB, and syncs nothing: a daemon that is killed loses the last second. A new part is
// begun when the last one is full, or after a day; the oldest are removed so that all together stay below
// `most`, and those whose last turn is older than `keep`. Their age is by the last turn that the daemon
// found, not by the wall clock alone: that may be wrong when a machine starts. A daemon goes on with the part
// of the one before it: a block that was torn then is passed over by who reads.
//
// What cannot be written is dropped, and counted. The first time that is said; then nothing is tried for
// `retry`, and nothing kept for it.
//
// Add(), AddJob(), Flush() and how_far() are for one thread; `say` is called on another.
#ifndef HOCKET_COORDINATOR_RECORDING_RECORDER_H_
#define HOCKET_COORDINATOR_RECORDING_RECORDER_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/events.h"
#include "coordinator/recording/block.h"
#include "csrc/base/bytes.h"
#include "csrc/base/mutex.h"
#include "csrc/base/unique_fd.h"

namespace hocket::coordinator {

struct RecorderOptions {
  std::string folder;  // made where it is missing, for nobody else to read
  Bytes most = 256_MiB;
  absl::Duration keep = absl::Hours(24 * 7);
  std::uint64_t epoch = 0;  // of the daemon
  std::function<void(const std::string& sentence)> say;
  // How far the wall clock is ahead of the times in the records; of tests that have a clock of their own.
  std::function<absl::Duration()> wall_less_monotonic;
  absl::Duration flush_after = absl::Seconds(1);
  absl::Duration retry = absl::Minutes(1);
};

class Recorder {
 public:
  static constexpr Bytes kLeast = 1_MiB;  // that `most` may be
  // Of `most`; a part is no larger than kLargestPart either, which who reads it has in memory.
  static constexpr Bytes kParts = 8;
  static constexpr Bytes kLargestPart = 32_MiB;

  explicit Recorder(RecorderOptions options);
  // Writes what is left.
  ~Recorder();

  void Add(const TurnEnded& turn) { AddRecord(turn); }
  void Add(const SpillEnded& spill) { AddRecord(spill); }
  // What is known of a job (see BlockWriter::AddJob).
  void AddJob(const std::string& text);
  // Whether this job has had no AddJob() in the part that is being written: it may come to be the oldest.
  bool LacksJob(JobId job);
  // Writes what there is soon.
  void Flush();

  struct HowFar {
    std::uint64_t records = 0;  // that have been added
    std::uint64_t written = 0;
    std::uint64_t lost = 0;  // of the rest
    std::string trouble;     // why nothing is written now; empty: it is
  };
  HowFar how_far();
  // Until all that has been added is written, or lost.
  void Wait();

 private:
  template <typename Record>
  void AddRecord(const Record& record);
  void Run();
  void WriteBlock(std::string block, std::uint64_t records);
  bool OpenPart(size_t for_bytes);
  bool Append(const std::string& block);
  void RemoveOld(Bytes room);
  void Fail(const std::string& what, int error);
  void SayAgain(std::uint64_t lost);
  std::string PathOf(std::uint64_t part) const;
  bool Full() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Constant after construction.
  const RecorderOptions options_;
  const Bytes part_size_;
  const size_t flush_at_;      // written at once when so much has come together
  const size_t most_pending_;  // while the disk is slow; what comes then is lost
  const absl::Time began_;     // of the steady clock
  const absl::Time last_before_;

  // Of the writing thread.
  UniqueFd file_;
  std::uint64_t part_ = 0;
  Bytes file_size_ = 0;
  absl::Time part_began_;
  absl::Time looked_for_old_ = absl::InfinitePast();
  absl::Duration wall_ = absl::InfiniteDuration();

  // Of the thread that adds.
  std::set<JobId> jobs_;  // in the part, of
  std::uint64_t jobs_part_ = 0;

  Mutex mutex_;
  Condition changed_;
  BlockWriter pending_ ABSL_GUARDED_BY(mutex_);
  HowFar how_far_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t unsaid_lost_ ABSL_GUARDED_BY(mutex_) = 0;  // in no block yet
  std::uint64_t parts_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point resting_until_ ABSL_GUARDED_BY(mutex_);
  bool flush_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread writer_;  // last: it uses all of these
};

// The parts of `folder`, in order: number, path, size, and when it was last written to.
struct RecordedPart {
  std::uint64_t number = 0;
  std::string path;
  Bytes size = 0;
  absl::Time written;
};
std::vector<RecordedPart> PartsIn(const std::string& folder);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_RECORDING_RECORDER_H_
