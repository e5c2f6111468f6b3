#include "csrc/torch/settings.h"

#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "csrc/base/say.h"
#include "csrc/torch/alloc_conf.h"
#include "csrc/torch/torch_version.h"

namespace hocket {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
using Reader = std::function<void(const std::string&)>;

constexpr char kOurs[] = "release_lock_on_cudamalloc:True,expandable_segments:False";

// `hear` is given what was set, and PyTorch's own reader.
void ReadBy(std::function<void(const std::string&, const Reader&)> hear) {
  Reader& reader = Config::getConfigParserHook();
  if (!reader) return;  // a PyTorch without CUDA's options
  reader = [theirs = std::move(reader), hear = std::move(hear)](const std::string& text) {
    hear(text, theirs);
  };
}

void SayIfExpandable(const std::string& text) {
  static std::once_flag said;
  if (!ParseAllocConf(text).expandable_segments) return;
  std::call_once(said, [] { Say("expandable_segments is switched off: Hocket cannot move them."); });
}

}  // namespace

void ReadSettingsOfEnvironment() {
  try {
    (void)pytorch::caching::CUDAAllocatorConfig::instance();
  } catch (const std::exception&) {
  }
}

void HeedSettings(Devices& devices, const std::atomic<bool>& forked) {
  ReadBy([&](const std::string& text, const Reader& theirs) {
    theirs(WithoutBackend(text));
    if (!forked) devices.HeedSettings(text);
  });
}

// All that were given are said again: some versions of PyTorch give those that are not named their defaults.
// Our own come last, and count.
void KeepOurSettings() {
  ReadBy([](const std::string& text, const Reader& theirs) {
    theirs(text);
    SayIfExpandable(text);
    const std::string all = text + (text.empty() || text.back() == ',' ? "" : ",") + kOurs;
    Config::instance().parseArgs(all);
    theirs(all);
  });
  std::string given = c10::CachingAllocator::getAllocatorSettings();
  if (given.empty()) given = FindAllocConf().value;
  c10::CachingAllocator::setAllocatorSettings(given);
}

}  // namespace hocket
