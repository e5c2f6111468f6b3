#include "coordinator/server/job_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hocket::coordinator {

std::uint64_t ProcessStart(int pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t after_name = text.rfind(')');  // the name may hold blanks and parentheses
  if (after_name == std::string::npos) return 0;
  std::istringstream rest(text.substr(after_name + 1));
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return 0;
    std::uint64_t start = 0;
    if (number == 22) return absl::SimpleAtoi(field, &start) ? start : 0;
  }
  return 0;
}

JobFiles::JobFiles(std::string dir) : dir_(std::move(dir)) { mkdir(dir_.c_str(), 0700); }

std::string JobFiles::PathOf(JobId id) const { return absl::StrCat(dir_, "/", id); }

std::string JobFiles::Write(const JobFile& file) {
  std::ofstream out(PathOf(file.id));
  out << file.pid << " " << file.process_start << "\n";
  out.close();
  if (out) return "";
  return absl::StrCat("cannot write ", PathOf(file.id), ": ", std::strerror(errno),
                      ". A restarted coordinator will not wait for this job.");
}

void JobFiles::Remove(JobId id) { unlink(PathOf(id).c_str()); }

std::vector<JobFile> JobFiles::Living() {
  std::vector<JobFile> living;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    JobFile file;
    std::ifstream in(entry.path());
    const bool good = absl::SimpleAtoi(entry.path().filename().string(), &file.id) &&
                      static_cast<bool>(in >> file.pid >> file.process_start);
    if (good && file.process_start != 0 && ProcessStart(file.pid) == file.process_start) {
      living.push_back(file);
    } else {
      unlink(entry.path().c_str());
    }
  }
  return living;
}

}  // namespace hocket::coordinator
