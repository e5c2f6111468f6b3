// What programs needed in earlier runs, in a file with any content: read or passed over, never more than
// that; and what is read can be added to and written, and is then read the same.
//
// The input: the file.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "coordinator/server/needs.h"
#include "csrc/base/check.h"
#include "csrc/wire/messages.h"
#include "tests/fuzz/folder.h"

namespace hocket::coordinator {
namespace {

constexpr std::uint64_t kPrograms = 32;  // from 1 on: the corpus names these
constexpr std::uint64_t kLearned = kPrograms + 1;
constexpr Bytes kTooMany = Bytes{1} << 50;
constexpr std::size_t kLineAtMost = 16 + 4 * 21 + 1;

void CheckSensible(const KnownNeed& need) {
  HOCKET_CHECK(need.persistent < kTooMany && need.transient < kTooMany)
      << need.persistent << " and " << need.transient << " bytes";
  HOCKET_CHECK(need.host < kTooMany || need.host == wire::kNoHostLimit) << need.host << " bytes of the host";
  HOCKET_CHECK(need.runs > 0) << "a program that has never run";
}

void CheckSame(const KnownNeed& a, const KnownNeed& b) {
  HOCKET_CHECK(a.persistent == b.persistent && a.transient == b.transient && a.host == b.host &&
               a.runs == b.runs)
      << "a need changes";
}

void CheckFile(const std::string& folder) {
  Needs needs(folder);
  HOCKET_CHECK(needs.Learn(kLearned, {.persistent = 1, .runs = 1}).empty())
      << "what was read cannot be written";
  HOCKET_CHECK(std::filesystem::file_size(folder + "/needs") <= Needs::kMost * kLineAtMost) << "too many";
  const Needs again(folder);
  HOCKET_CHECK(again.trouble().empty()) << again.trouble();
  for (std::uint64_t program = 1; program <= kLearned; ++program) {
    const auto need = needs.Of(program), then = again.Of(program);
    HOCKET_CHECK(need.has_value() == then.has_value()) << "a need is lost";
    if (!need) continue;
    CheckSensible(*need);
    CheckSame(*need, *then);
  }
}

}  // namespace
}  // namespace hocket::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string& folder = hocket::fuzz::Folder();
  hocket::fuzz::WriteFile(folder + "/needs", std::string(reinterpret_cast<const char*>(data), size));
  hocket::coordinator::CheckFile(folder);
  return 0;
}
