// What is written to disk at once: some turns and what was known of their jobs, about 30 bytes for a turn.
//
//   "HKT1" | size of what follows the check | check | version, epoch, wall clock less CLOCK_MONOTONIC,
//   records...
//
// A record is its kind, its size, and its fields, all numbers as varints (7 bits a byte, the lowest first;
// what may be negative zigzagged). Texts that repeat are said once in a block and then numbered: who had the
// turn, and the policy's reasons, whose numbers stand beside them. Times are told from the end of the turn
// before. A block needs no other to be understood: what is around it may be lost, or garbage. A reader passes
// over kinds that it does not know, and over what a record has beyond the fields that it knows; so a field is
// added at the end of its record, and no version changes.
#ifndef HOCKET_COORDINATOR_RECORDING_BLOCK_H_
#define HOCKET_COORDINATOR_RECORDING_BLOCK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/time/time.h"
#include "coordinator/core/events.h"

namespace hocket::coordinator {

inline constexpr std::string_view kBlockMagic = "HKT1";
inline constexpr size_t kBlockHeader = 12;
inline constexpr size_t kLargestBlock = 4 << 20;  // of what follows the header

// Fills a block. Times in it are CLOCK_MONOTONIC, as the core has them.
class BlockWriter {
 public:
  void Add(const TurnEnded& turn);
  void Add(const SpillEnded& spill);
  // `text`: JSON, with the keys of RecordOf() (server/status.h) and "id", "pid" and "rejoined".
  void AddJob(const std::string& text);
  void AddLost(std::uint64_t records);  // could not be written, before those that follow

  std::uint64_t records() const { return records_; }  // lost ones not counted
  size_t size() const { return body_.size(); }
  // All of it, as it is written; afterwards it is empty.
  std::string Take(std::uint64_t epoch, absl::Duration wall_less_monotonic);

 private:
  struct Reason {
    std::string text;
    std::uint64_t form = 0;  // Text() of it, without its numbers
    std::string numbers;
  };

  std::uint64_t Who(const JobRef& job);
  std::uint64_t Text(const std::string& text);

  std::string body_;
  std::uint64_t records_ = 0;
  std::uint64_t last_turn_ = 0;
  std::int64_t last_end_ = 0;
  std::unordered_map<JobId, std::uint64_t> who_;
  std::unordered_map<std::string, std::uint64_t> texts_;
  std::optional<Reason> reason_;  // of the last turn: that of the next is mostly the same
};

// Is shown what a block holds; times are the wall clock's.
class BlockVisitor {
 public:
  virtual ~BlockVisitor() = default;
  virtual void OnTurn(std::uint64_t epoch, const TurnEnded& turn) = 0;
  // Times inside of `text` are `less` behind the wall clock.
  virtual void OnJob(std::uint64_t epoch, std::string_view text, absl::Duration less) = 0;
  virtual void OnSpill(std::uint64_t /*epoch*/, const SpillEnded&) {}
  virtual void OnLost(std::uint64_t records) = 0;
};

// Shows all blocks of `bytes`, in order, and returns how many pieces between them are no blocks: torn, or
// garbage. Never crashes, whatever the bytes; what does not agree with its check is not shown.
int ReadBlocks(std::string_view bytes, BlockVisitor& visitor);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_RECORDING_BLOCK_H_
