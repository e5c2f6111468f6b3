// libFuzzer: whatever comes is a message, none, or an error; a message can be sent again and comes back the
// same.
//
//   cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DHOCKET_SANITIZE=address,undefined
//   ninja -C build/fuzz codec_fuzz && mkdir -p found &&
//   build/fuzz/tests/fuzz/codec_fuzz found tests/fuzz/corpus -max_total_time=60
#include <cstddef>
#include <cstdint>

#include "csrc/base/check.h"
#include "csrc/wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto decoded = hocket::wire::Decode({reinterpret_cast<const char*>(data), size});
  if (!decoded.ok() || !*decoded) return 0;
  const auto frame = hocket::wire::Encode(**decoded);
  if (!frame.ok()) return 0;  // small fields written in full may exceed a frame
  const auto again = hocket::wire::Decode(*frame);
  HOCKET_CHECK(again.ok() && *again) << "what was encoded is refused: " << again.status();
  HOCKET_CHECK(hocket::wire::Encode(**again).value() == *frame) << "a message changes on its way";
  return 0;
}
