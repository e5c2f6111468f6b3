#include "csrc/emulator/runtime/multi_tensor.h"

#include <cctype>
#include <cstring>

#include "csrc/emulator/runtime/mangled_type.h"

namespace hocket::emulator {
namespace {

constexpr double kElementsPerBlock = 65536;

// The integer template argument ("Li3E") that begins at `at`; 0 if none does.
int IntegerAt(const char* at) {
  return at[0] == 'L' && at[1] == 'i' && std::isdigit(at[2]) && at[3] == 'E' ? at[2] - '0' : 0;
}

const char* NextInteger(const char* at) {
  while (*at != '\0' && IntegerAt(at) == 0) ++at;
  return at;
}

// Norms of whole tensors leave a number a block.
bool OnlyReads(const char* functor) {
  return std::strstr(functor, "LpNormFunctor") || std::strstr(functor, "LpMaxFunctor");
}

}  // namespace

std::optional<double> MultiTensorBytesPerBlock(const char* name) {
  const char* kernel = std::strstr(name, "multi_tensor_apply_kernel");
  const char* metadata = kernel == nullptr ? nullptr : std::strstr(kernel, "ListMetadata");
  if (metadata == nullptr) return std::nullopt;
  const char* lists_at = NextInteger(metadata);
  const int lists = IntegerAt(lists_at);
  const char* functor = std::strstr(lists_at, "Functor");
  if (lists == 0 || functor == nullptr) return std::nullopt;

  // Fused optimizers read all lists and write all but the gradients; others say how many they read.
  const bool fused = std::strstr(lists_at, "Fused") != nullptr;
  const char* depth = NextInteger(functor);
  const int named = *depth == '\0' ? 0 : IntegerAt(depth + 4);
  const int reads = fused || named == 0 ? lists : named;
  const int writes = fused ? lists - 1 : OnlyReads(lists_at) ? 0 : 1;
  const double element = functor[7] == 'I' ? MangledTypeBytes(functor + 8) : 4;
  return kElementsPerBlock * element * (reads + writes);
}

}  // namespace hocket::emulator
