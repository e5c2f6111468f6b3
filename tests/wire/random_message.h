// Messages with random content, of every type, for tests that must hold for all of them.
#ifndef HOCKET_TESTS_WIRE_RANDOM_MESSAGE_H_
#define HOCKET_TESTS_WIRE_RANDOM_MESSAGE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "csrc/wire/messages.h"

namespace hocket::wire {

class RandomFields {
 public:
  explicit RandomFields(std::mt19937_64& random) : random_(random) {}
  void operator()(uint16_t, uint64_t& value) { value = random_(); }
  void operator()(uint16_t, int64_t& value) { value = static_cast<int64_t>(random_()); }
  void operator()(uint16_t, double& value) { value = static_cast<double>(random_()) / 3; }
  void operator()(uint16_t, bool& value) { value = random_() % 2 == 1; }
  void operator()(uint16_t, std::string& value) {
    value.resize(random_() % 40);
    for (char& c : value) c = static_cast<char>(random_());
  }

 private:
  std::mt19937_64& random_;
};

template <size_t kIndex = 0>
void AddOneOfEach(std::mt19937_64& random, std::vector<Message>& messages) {
  if constexpr (kIndex < std::variant_size_v<Message>) {
    std::variant_alternative_t<kIndex, Message> message;
    RandomFields fields(random);
    message.VisitFields(fields);
    messages.emplace_back(std::move(message));
    AddOneOfEach<kIndex + 1>(random, messages);
  }
}

inline std::vector<Message> OneOfEach(std::mt19937_64& random) {
  std::vector<Message> messages;
  AddOneOfEach(random, messages);
  return messages;
}

// A message as text, so that two can be compared and printed.
class FieldText {
 public:
  template <typename Value>
  void operator()(uint16_t number, Value& value) {
    text += std::to_string(number) + "=";
    if constexpr (std::is_same_v<Value, std::string>) {
      text += value;
    } else {
      text += std::to_string(value);
    }
    text += ";";
  }
  std::string text;
};

inline std::string ToText(Message message) {
  FieldText fields;
  std::visit([&](auto& m) { m.VisitFields(fields); }, message);
  return std::to_string(message.index()) + ":" + fields.text;
}

}  // namespace hocket::wire

#endif  // HOCKET_TESTS_WIRE_RANDOM_MESSAGE_H_
