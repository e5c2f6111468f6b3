#include "csrc/wire/sign.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hocket::wire {
namespace {

constexpr char kWord[] = "hocketd";

std::string NameOfSign(const CoordinatorSeen& self) {
  return absl::StrCat(kWord, " ", self.uid, " ", self.pid, " ", self.epoch, " ", self.device);
}

// None: the name is too long, or the kernel refuses. There is nothing to be done about it: only a hint is
// lost.
UniqueFd Hold(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) return UniqueFd();
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // after a 0: it is no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return UniqueFd();
  shutdown(socket.get(), SHUT_RD);  // nobody can fill it
  return socket;
}

bool IsDevice(const std::string& device) {
  return !device.empty() && std::all_of(device.begin(), device.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

std::optional<CoordinatorSeen> Read(const std::string& line) {
  const size_t at = line.find(absl::StrCat(" @", kWord, " "));
  if (at == std::string::npos) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(line.substr(at + 2), ' ');
  CoordinatorSeen read;
  if (words.size() != 5 || !absl::SimpleAtoi(words[1], &read.uid) || !absl::SimpleAtoi(words[2], &read.pid) ||
      !absl::SimpleAtoi(words[3], &read.epoch) || !IsDevice(words[4]))
    return std::nullopt;
  read.device = words[4];
  return read;
}

}  // namespace

void Signs::Show(const CoordinatorSeen& self, const std::set<std::string>& devices) {
  std::erase_if(shown_, [&](const auto& shown) { return !devices.contains(shown.first); });
  for (const std::string& device : devices) {
    if (device == "cpu" || shown_.contains(device)) continue;
    CoordinatorSeen sign = self;
    sign.device = device;
    if (UniqueFd held = Hold(NameOfSign(sign))) shown_.emplace(device, std::move(held));
  }
}

std::vector<CoordinatorSeen> CoordinatorsIn(const std::string& text) {
  std::set<CoordinatorSeen> seen;
  for (const auto line : absl::StrSplit(text, '\n')) {
    if (auto read = Read(std::string(line))) seen.insert(*std::move(read));
  }
  return {seen.begin(), seen.end()};
}

std::vector<CoordinatorSeen> CoordinatorsSeen() {
  std::ifstream file("/proc/net/unix");
  return CoordinatorsIn(
      std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()));
}

}  // namespace hocket::wire
