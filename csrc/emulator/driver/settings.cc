#include "csrc/emulator/driver/settings.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "csrc/emulator/emulator_api.h"
#include "csrc/emulator/timing/cost.h"

namespace hocket::emulator {
namespace {

[[noreturn]] void Refuse(const char* variable, const char* text, const char* wanted) {
  hocket_emulator_fatal(absl::StrCat("cannot read ", variable, "=", text, ": ", wanted).c_str());
  std::abort();
}

// Of the environment, else of the device whose costs these are (timing/cost.h).
const char* Value(const char* variable) {
  const char* text = std::getenv(variable);
  if (text != nullptr && *text != '\0') return text;
  const auto& settings = timing::CostModel::Default().settings;
  const auto row = settings.find(std::string_view(variable).substr(std::strlen("HOCKET_EMULATOR_")));
  return row != settings.end() ? row->second.c_str() : nullptr;
}

void ReadBytes(const char* variable, Bytes& value) {
  const char* text = Value(variable);
  if (text == nullptr) return;
  const absl::StatusOr<Bytes> bytes = ParseBytes(text);
  if (!bytes.ok()) Refuse(variable, text, "wanted a size such as 8GiB.");
  value = *bytes;
}

constexpr Bytes kSmallestGranularity = Bytes{64} << 10;  // a multiple of every host's page

void ReadGranularity(Bytes& value) {
  const char* variable = "HOCKET_EMULATOR_GRANULARITY";
  ReadBytes(variable, value);
  if (!std::has_single_bit(value) || value < kSmallestGranularity) {
    Refuse(variable, Value(variable), "wanted a power of two, at least 64KiB.");
  }
}

int ReadInt(const char* variable, int fallback, int least, int most) {
  const char* text = Value(variable);
  int value = fallback;
  if (text == nullptr) return value;
  if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
    Refuse(variable, text, absl::StrCat("wanted a number from ", least, " to ", most, ".").c_str());
  }
  return value;
}

std::string ReadName(std::string fallback) {
  const char* text = Value("HOCKET_EMULATOR_NAME");
  if (text == nullptr) return fallback;
  if (std::strlen(text) > 64 || std::strchr(text, '/') != nullptr) {
    Refuse("HOCKET_EMULATOR_NAME", text, "wanted at most 64 characters and no slash.");
  }
  return text;
}

bool ReadTiming() {
  const char* text = Value("HOCKET_EMULATOR_MODE");
  if (text == nullptr || std::strcmp(text, "values") == 0) return false;
  if (std::strcmp(text, "timing") != 0) Refuse("HOCKET_EMULATOR_MODE", text, "wanted values or timing.");
  return true;
}

constexpr int kDayInMs = 24 * 3600 * 1000;

Settings FromEnvironment() {
  Settings settings;
  settings.name = ReadName(settings.name);
  ReadBytes("HOCKET_EMULATOR_MEMORY", settings.memory);
  ReadBytes("HOCKET_EMULATOR_CONTEXT_MEMORY", settings.context_memory);
  ReadBytes("HOCKET_EMULATOR_STREAM_MEMORY", settings.stream_memory);
  settings.context = std::chrono::milliseconds(ReadInt("HOCKET_EMULATOR_CONTEXT_MS", 0, 0, kDayInMs));
  ReadGranularity(settings.granularity);
  settings.devices = ReadInt("HOCKET_EMULATOR_DEVICES", 1, 1, kMaxDevices);
  settings.peers = ReadInt("HOCKET_EMULATOR_PEERS", 0, 0, 1) == 1;
  settings.host_mapping = ReadInt("HOCKET_EMULATOR_HOST_MAPPING", 1, 0, 1) == 1;
  settings.lost_memory_calls = ReadInt("HOCKET_EMULATOR_LOST_MEMORY_CALLS", 0, 0, 1) == 1;
  settings.exclusive = ReadInt("HOCKET_EMULATOR_EXCLUSIVE", 0, 0, 1) == 1;
  settings.timing = ReadTiming();
  settings.all_users = ReadInt("HOCKET_EMULATOR_ALL_USERS", 0, 0, 1) == 1;
  settings.check = ReadInt("HOCKET_EMULATOR_CHECK", 0, 0, 1) == 1;
  settings.teardown = std::chrono::milliseconds(ReadInt("HOCKET_EMULATOR_TEARDOWN_MS", 0, 0, kDayInMs));
  settings.copy_delay = std::chrono::microseconds(ReadInt("HOCKET_EMULATOR_COPY_DELAY_US", 0, 0, 60'000'000));
  settings.slice = std::chrono::microseconds(ReadInt("HOCKET_EMULATOR_SLICE_US", 2000, 10, 1'000'000));
  return settings;
}

}  // namespace

const Settings& Settings::Get() {
  static const Settings& settings = *new Settings(FromEnvironment());
  return settings;
}

}  // namespace hocket::emulator
