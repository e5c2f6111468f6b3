#include "csrc/torch/constants.h"

#include <cstdint>
#include <cstdio>
#include <utility>

namespace hocket {

std::shared_ptr<const Promise> PromiseFor(const c10::TensorImpl& tensor, std::string name) {
  const c10::VariableVersion version = tensor.version_counter();
  if (!version.enabled())
    return std::make_shared<Promise>(Promise{.name = std::move(name)});  // made for inference
  const auto broken = [version, declared = version.current_version(), name] {
    if (version.current_version() == declared) return false;
    std::fprintf(
        stderr,
        "hocket: %s was declared constant, and has been written to: it is copied to the host at each "
        "spill again.\n",
        name.c_str());
    return true;
  };
  return std::make_shared<Promise>(Promise{.name = std::move(name), .broken = broken});
}

}  // namespace hocket
