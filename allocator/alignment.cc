#include "allocator/alignment.h"

#include <algorithm>
#include <utility>

namespace hocket {
namespace {

bool Answers(const std::vector<StepEntry>& written, std::size_t index, Bytes size, Stream stream) {
  return index < written.size() && written[index].size == size && written[index].stream == stream;
}

}  // namespace

Alignment::Match Alignment::Next(const std::vector<StepEntry>& written, Bytes size, Stream stream) {
  if (Answers(written, cursor_, size, stream)) {
    jumped_ = false;
    return {.found = true, .sure = true, .index = static_cast<std::uint32_t>(cursor_++)};
  }
  exact_ = false;
  if (jumped_ && Answers(written, before_jump_, size, stream)) {
    jumped_ = false;
    const auto mistake = static_cast<std::uint32_t>(cursor_ - 1);
    cursor_ = before_jump_ + 1;
    return {.found = true,
            .sure = true,
            .undid_jump = true,
            .index = static_cast<std::uint32_t>(before_jump_),
            .mistake = mistake};
  }
  return Jump(written, size, stream);
}

Alignment::Match Alignment::Jump(const std::vector<StepEntry>& written, Bytes size, Stream stream) {
  const std::size_t end = std::min(written.size(), cursor_ + kWindow);
  for (std::size_t i = cursor_; i < end; ++i) {
    if (!Answers(written, i, size, stream)) continue;
    before_jump_ = std::exchange(cursor_, i + 1);
    return {.found = true, .sure = !std::exchange(jumped_, true), .index = static_cast<std::uint32_t>(i)};
  }
  return {};
}

}  // namespace hocket
