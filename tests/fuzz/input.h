// A fuzzer's bytes, read from the front; at their end everything is 0 and empty. And the other way, for the
// programs that write the corpus: Output appends what Input reads.
#ifndef HOCKET_TESTS_FUZZ_INPUT_H_
#define HOCKET_TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hocket::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool ended() const { return at_ >= size_; }
  uint8_t Byte() { return ended() ? 0 : data_[at_++]; }
  uint16_t Short() {
    const uint16_t low = Byte();
    return static_cast<uint16_t>(low | Byte() << 8);
  }
  // A length of two bytes, then so many, or as many as are left.
  std::string Text() {
    const size_t length = std::min<size_t>(Short(), size_ - at_);
    std::string text(reinterpret_cast<const char*>(data_ + at_), length);
    at_ += length;
    return text;
  }

 private:
  const uint8_t* data_;
  const size_t size_;
  size_t at_ = 0;
};

class Output {
 public:
  Output& Byte(unsigned value) {
    bytes_ += static_cast<char>(value);
    return *this;
  }
  Output& Short(unsigned value) { return Byte(value & 0xff).Byte(value >> 8); }
  Output& Text(const std::string& text) {
    Short(static_cast<unsigned>(text.size()));
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace hocket::fuzz

#endif  // HOCKET_TESTS_FUZZ_INPUT_H_
