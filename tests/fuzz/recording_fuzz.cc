// Files of recorded turns with any content: `hocket trace` makes a day of it that is JSON and can be
// simulated, or is refused with a sentence, and passes over what is no block.
//
// The input: the body of one block, or a whole file where it begins as one.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "coordinator/recording/block.h"
#include "coordinator/recording/recording.h"
#include "coordinator/simulator/workload.h"
#include "csrc/base/check.h"
#include "tests/fuzz/folder.h"

namespace hocket::coordinator {
namespace {

void Put32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

// With the header that it needs to be looked at (block.h).
std::string Block(const std::string& body) {
  std::uint32_t check = 0x811c9dc5;
  for (const char c : body) check = (check ^ static_cast<unsigned char>(c)) * 0x01000193;
  std::string block(kBlockMagic);
  Put32(block, static_cast<std::uint32_t>(body.size()));
  Put32(block, check);
  return block + body;
}

std::string Written(const Recording& recording, bool lines) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const out = open_memstream(&text, &size);
  const auto written = recording.Write(out, {.lines = lines});
  HOCKET_CHECK(written.ok()) << written.status().message();
  HOCKET_CHECK(fclose(out) == 0) << "no memory";
  std::string made(text, size);
  std::free(text);
  return made;
}

}  // namespace
}  // namespace hocket::coordinator

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket::coordinator;
  const std::string& folder = hocket::fuzz::Folder();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  hocket::fuzz::WriteFile(folder + "/0000000001.turns",
                          bytes.starts_with(kBlockMagic) ? bytes : Block(bytes));
  const auto recording = Recording::Open(folder);
  if (!recording.ok()) return 0;
  const std::string day = Written(*recording, /*lines=*/false);
  HOCKET_CHECK(nlohmann::json::accept(day)) << "no JSON: " << day;
  const auto workload = ParseWorkload(day);
  HOCKET_CHECK(workload.ok() || !workload.status().message().empty()) << "refused without a word";
  (void)Written(*recording, /*lines=*/true);
  return 0;
}
