// The state folder: one small file for each job that takes part, so that a restarted coordinator knows for
// whom it has to wait.
#ifndef HOCKET_COORDINATOR_SERVER_JOB_FILES_H_
#define HOCKET_COORDINATOR_SERVER_JOB_FILES_H_

#include <string>
#include <vector>

#include "coordinator/core/events.h"

namespace hocket::coordinator {

struct JobFile {
  JobId id = 0;
  int pid = 0;
  std::uint64_t process_start = 0;  // field 22 of /proc/pid/stat
};

// Field 22 of /proc/<pid>/stat; 0 when there is no such process, or it is a zombie.
std::uint64_t ProcessStart(int pid);

class JobFiles {
 public:
  // Makes `dir` where it is missing.
  explicit JobFiles(std::string dir);

  // A file that cannot be written (full disk) is told to the log by the caller, with this sentence; empty:
  // written.
  std::string Write(const JobFile& file);
  void Remove(JobId id);

  // Those whose process lives; the files of the others, and unreadable ones, are removed.
  std::vector<JobFile> Living();

 private:
  std::string PathOf(JobId id) const;
  const std::string dir_;
};

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_JOB_FILES_H_
