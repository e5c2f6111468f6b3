#include "csrc/emulator/runtime/elementwise.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "csrc/emulator/runtime/mangled_type.h"

namespace hocket::emulator {
namespace {

// With their lengths, as they are mangled: other kernels' names end alike.
constexpr const char* kKernels[] = {"29vectorized_elementwise_kernelI", "27unrolled_elementwise_kernelI",
                                    "18elementwise_kernelI"};

// Where the kernel's template arguments begin; nullptr: it is none of these.
const char* Arguments(const char* name) {
  for (const char* kernel : kKernels) {
    const char* at = std::strstr(name, kernel);
    if (at != nullptr) return at + std::strlen(kernel);
  }
  return nullptr;
}

// The result and one operand, if the name does not say.
int Tensors(const char* arguments) {
  constexpr std::string_view kArray = "St5arrayIPcLm";
  const char* at = std::strstr(arguments, kArray.data());
  return at == nullptr ? 2 : std::atoi(at + kArray.size());
}

// After which the type of an element may stand: the parameters of a lambda, those of a wrapped lambda, the
// arguments of a functor. The first that is there decides.
constexpr std::string_view kBeforeType[] = {"EUl", "EEF", "FunctorI", "Functor_addI"};

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }

// Of the last parameter: where one of several is a condition, that is the first.
double ElementBytes(const char* arguments) {
  if (std::strstr(arguments, "c108BFloat16") != nullptr || std::strstr(arguments, "c104Half") != nullptr)
    return 2;
  for (const std::string_view before : kBeforeType) {
    for (const char* at = arguments; (at = std::strstr(at, before.data())) != nullptr;) {
      at += before.size();
      if (*at == 'v') continue;  // a lambda without parameters, around another one
      while (IsLetter(at[0]) && IsLetter(at[1])) ++at;
      return MangledTypeBytes(at);
    }
  }
  return 4;
}

}  // namespace

std::optional<double> ElementwiseBytesPerElement(const char* name) {
  const char* arguments = Arguments(name);
  if (arguments == nullptr) return std::nullopt;
  return Tensors(arguments) * ElementBytes(arguments);
}

}  // namespace hocket::emulator
