// What a restarted coordinator has to know: for whom it has to wait, and what people have set.
//
//   <runtime dir>/jobs/<id>  one for each job that takes part: its process; weight, priority, steps, and
//                            whether it is paused; its group; its guarantees of memory and time; its time
//                            cap, what it has had of that, and since when it has the turn
//   <state dir>/settings     policy, switch share, bound, and the quotas of groups and users, as people set
//                            them last; also for the next daemon after an orderly end, or a reboot
//
// The two folders may be one. Jobs do not outlive the machine's boot, and neither need the runtime folder.
// Where the state folder cannot be written to, settings are written to the runtime folder, all of them; the
// next coordinator that can puts both together.
// A file is replaced as a whole: a daemon that is killed while it writes leaves the old one.
#ifndef HOCKET_COORDINATOR_SERVER_STATE_FILES_H_
#define HOCKET_COORDINATOR_SERVER_STATE_FILES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/events.h"

namespace hocket::coordinator {

// As the job said when it joined, or as people have set it since.
struct JobSettings {
  double weight = 1;
  std::string priority = "normal";
  std::uint64_t total_steps = 0;
  bool paused = false;
  Bytes memory_guarantee = 0;
  double time_guarantee = 0;
  std::string group;
};

// A TimeAccount (core/time_account.h).
struct TimeKept {
  double cap = 0;
  absl::Time as_of;
  absl::Duration credit;
  std::optional<absl::Time> in_turn_since;  // and has had that time, too; none: it had no turn
};

struct JobFile {
  JobId id = 0;
  int pid = 0;
  std::uint64_t process_start = 0;      // ReadProcess() (base/process.h)
  std::optional<JobSettings> settings;  // none: the file does not say, or makes no sense
  std::optional<TimeKept> time;         // none: the same, or it had no time cap
};

struct Settings {
  std::string policy;           // empty: nobody has set one
  double switch_share = 0;      // 0: nobody has set one
  double link_bound = 0;        // 0: the same
  double production_bound = 0;  // 0: the same
  int most_together = 0;        // 0: the same
  std::string overdue;          // empty: the same
  std::map<Owner, Quota> quotas;
  // Of lines that were not taken up when the file was read: a sentence for people about each, of the
  // first 20.
  std::vector<std::string> dropped;
};

// Whom a coordinator before this one left behind.
struct LeftBehind {
  std::vector<JobFile> living;
  int dead = 0;  // they ended since it did
};

class StateFiles {
 public:
  // Makes `<runtime_dir>/jobs` where it is missing. Settings in `runtime_dir` are those of an older Hocket,
  // or were written while `state_dir` could not be: they are later than what lies there, and are moved there;
  // what only lies there stays. `read_only`: the state folder where it is known and cannot be written to, and
  // `state_dir` is another one: what it has holds until something is written.
  StateFiles(const std::string& runtime_dir, const std::string& state_dir, const std::string& read_only = "");

  // A sentence for the log where settings could not be moved: they are used where they are. Empty: all is
  // well.
  const std::string& trouble() const { return trouble_; }

  // A file that cannot be written (full disk) is told to the log by the caller, with this sentence; empty:
  // written.
  std::string Write(const JobFile& file);
  std::string Write(const Settings& settings);
  void Remove(JobId id);

  // None where there is no such file, or it cannot be understood.
  std::optional<JobFile> Read(JobId id) const;
  Settings ReadSettings() const;

  // The files of the dead, and unreadable ones, are removed.
  LeftBehind FindLeftBehind();

 private:
  std::string PathOf(JobId id) const;
  const std::string jobs_;
  std::string settings_;
  std::string read_only_;  // settings that hold where there are none in settings_; empty: none
  std::string trouble_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_STATE_FILES_H_
