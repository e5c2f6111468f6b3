#include "csrc/torch/alloc_conf.h"

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace hocket {
namespace {

// The commas that separate options: those within brackets separate values.
std::vector<std::string> SplitOptions(std::string_view text) {
  std::vector<std::string> options(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      options.emplace_back();
    } else if (c != ' ') {
      options.back().push_back(c);
    }
  }
  return options;
}

bool IsOfPinnedMemory(const std::string& name) { return name.rfind("pinned_", 0) == 0; }

}  // namespace

AllocConf ParseAllocConf(std::string_view text) {
  AllocConf conf;
  for (const std::string& option : SplitOptions(text)) {
    const size_t colon = option.find(':');
    const std::string name = option.substr(0, colon);
    const std::string value = colon == std::string::npos ? "" : option.substr(colon + 1);
    double fraction = 0;
    if (name.empty() || IsOfPinnedMemory(name) || (name == "backend" && value == "native")) continue;
    const bool usable = absl::SimpleAtod(value, &fraction) && fraction > 0 && fraction <= 1;
    if (name == "per_process_memory_fraction" && usable) {
      conf.memory_fraction = fraction;
    } else {
      conf.without_effect.push_back(name);
    }
  }
  return conf;
}

AllocConfVariable FindAllocConf() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != 0) return {name, value};
  }
  return {};
}

}  // namespace hocket
