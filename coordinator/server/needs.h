// What programs needed in their earlier runs, kept beyond the daemon's life: `<runtime_dir>/needs`.
//
// A program is its whole command line and its user, hashed: nobody can read from the file what was run. A
// line each, the one used last at the end, the first forgotten when there are more than kMost:
//
//   <key, 16 hexadecimal digits> <persistent> <transient> <host memory> <runs>      (bytes)
//
// Lines that make no sense are left out, and told. Anybody may have written the file, and any length of it:
// it is read in time that grows with its length, up to 1 MiB, and never more than kMost programs are known.
#ifndef HOCKET_COORDINATOR_SERVER_NEEDS_H_
#define HOCKET_COORDINATOR_SERVER_NEEDS_H_

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/core/lack.h"

namespace hocket::coordinator {

class Needs {
 public:
  static constexpr std::size_t kMost = 1000;

  explicit Needs(const std::string& runtime_dir);

  // A sentence for the log about what could not be understood; empty: all of it could.
  const std::string& trouble() const { return trouble_; }

  std::optional<KnownNeed> Of(std::uint64_t program) const;
  // A run has needed this much. Returns why it could not be written, as a sentence; empty: written.
  std::string Learn(std::uint64_t program, KnownNeed need);

 private:
  using Entries = std::list<std::pair<std::uint64_t, KnownNeed>>;
  std::string Write() const;

  const std::string path_;
  std::string trouble_;
  Entries entries_;
};

// 0: the process is gone, or does not say.
std::uint64_t ProgramKey(int pid, unsigned user);

}  // namespace hocket::coordinator

#endif  // HOCKET_COORDINATOR_SERVER_NEEDS_H_
