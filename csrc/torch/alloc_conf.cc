#include "csrc/torch/alloc_conf.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"

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

struct Option {
  std::string name;
  std::string value;
};

Option Split(const std::string& option) {
  const size_t colon = option.find(':');
  return {option.substr(0, colon), colon == std::string::npos ? "" : option.substr(colon + 1)};
}

bool IsOfPinnedMemory(const std::string& name) { return name.rfind("pinned_", 0) == 0; }

std::optional<double> ParseFraction(const std::string& text) {
  double fraction = 0;
  const bool usable = absl::SimpleAtod(text, &fraction) && fraction >= 0 && fraction <= 1;
  return usable ? std::optional(fraction) : std::nullopt;
}

}  // namespace

AllocConf ParseAllocConf(std::string_view text) {
  AllocConf conf;
  for (const std::string& option : SplitOptions(text)) {
    const auto [name, value] = Split(option);
    if (name.empty() || IsOfPinnedMemory(name) || (name == "backend" && value == "native")) continue;
    if (name == "per_process_memory_fraction") {
      if (const auto fraction = ParseFraction(value)) conf.memory_fraction = fraction;
    } else if (name == "throw_on_cudamalloc_oom") {
      conf.rejects_early = value == "True";
    } else {
      if (name == "expandable_segments") conf.expandable_segments = value == "True";
      conf.without_effect.push_back(name);
    }
  }
  return conf;
}

std::string WithoutBackend(std::string_view text) {
  std::vector<std::string> options = SplitOptions(text);
  std::erase_if(options, [](const std::string& option) {
    const auto [name, value] = Split(option);
    return name == "backend" && (value == "native" || value == "cudaMallocAsync");
  });
  return absl::StrJoin(options, ",");
}

AllocConfVariable FindAllocConf() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != 0) return {name, value};
  }
  return {};
}

}  // namespace hocket
