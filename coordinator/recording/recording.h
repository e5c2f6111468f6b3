// Reads what the recorder has written, and makes of it what `hocket trace` writes: a day that `hocket
// simulate` replays.
#ifndef HOCKET_COORDINATOR_RECORDING_RECORDING_H_
#define HOCKET_COORDINATOR_RECORDING_RECORDING_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/recording/block.h"
#include "csrc/base/unique_fd.h"
#include "nlohmann/json.hpp"

namespace hocket::coordinator {

// The parts that were there when it was opened; who writes and removes meanwhile is in nobody's way.
class Recording {
 public:
  // kNotFound: there is no such folder, or nothing in it. kUnavailable: it cannot be read.
  static absl::StatusOr<Recording> Open(const std::string& folder);

  // Shows all of it, the oldest first. Returns how many pieces of it are torn, or garbage.
  int Read(BlockVisitor& visitor) const;

  // What it is asked for.
  struct Wanted {
    absl::Time since = absl::InfinitePast();  // turns that have ended since then
    bool lines = false;                       // turns and spills alone, a line of JSON each
  };
  // Writes {"jobs": [...], "turns": [...], "spills": [...]} to `out`, an entry a line, jobs with the keys
  // that `hocket simulate` reads. A job's steps, its time with the turn and what it waited are the sums of
  // these turns. Times of turns are Unix time in nanoseconds; jobs arrive after the first one. Returns {jobs,
  // turns, spills, lost, damaged, from_s, until_s (Unix time of the first turn's begin and the last one's
  // end; null: there is none)}.
  absl::StatusOr<nlohmann::json> Write(std::FILE* out, const Wanted& wanted) const;

 private:
  struct Part {
    UniqueFd file;
    size_t size = 0;
  };
  std::vector<Part> parts_;
};

// hocketd history FOLDER [--since=SECONDS] [--output=FILE | --lines]: Recording::Write to FILE, or lines to
// stdout; what it returns on stdout, or stderr after lines. Returns the exit status: 0, 1 (with a sentence on
// stderr), or 2 (wrong flags).
int RecordingMain(int argc, char** argv);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_RECORDING_RECORDING_H_
