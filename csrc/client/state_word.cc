#include "csrc/client/state_word.h"

namespace hocket {

bool StateWord::TryTakeIdle(std::uint32_t begins) {
  return Try([begins](Word word) {
    return Begins(word) == begins ? transition::TryGive(word) : std::optional<Word>();
  });
}

}  // namespace hocket
