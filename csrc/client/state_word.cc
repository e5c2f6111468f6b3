#include "csrc/client/state_word.h"

namespace hocket {

bool StateWord::TryTakeIdle(std::uint32_t begins, Word in_steps) {
  return Try([begins, in_steps](Word word) {
    return Begins(word) == begins ? transition::TryGive(word, in_steps) : std::optional<Word>();
  });
}

}  // namespace hocket
