#include "csrc/torch/constants.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/say.h"

namespace hocket {
namespace {

// What tensors that share a count have in common. PyTorch offers no comparison; the pointer is all there is.
const void* CounterOf(const c10::VariableVersion& version) {
  const void* counter = nullptr;
  static_assert(sizeof(version) == sizeof(counter));
  std::memcpy(&counter, static_cast<const void*>(&version), sizeof(counter));
  return counter;
}

}  // namespace

std::shared_ptr<const Promise> PromiseFor(const c10::TensorImpl& tensor, std::string name) {
  Promise promise{.name = std::move(name), .size = tensor.unsafe_storage().nbytes()};
  const c10::VariableVersion version = tensor.version_counter();
  if (version.enabled()) {  // not of a tensor made for inference
    promise.watched = CounterOf(version);
    promise.broken = [version, declared = version.current_version(), name = promise.name] {
      if (version.current_version() == declared) return false;
      Say(absl::StrCat(name,
                       " was declared constant, and has been written to: it is copied to the host at each "
                       "spill again."));
      return true;
    };
  }
  return std::make_shared<Promise>(std::move(promise));
}

}  // namespace hocket
