// How much of the device should stay free beside this allocator's memory, and when others are asked for it.
//
// A program takes device memory that no allocator sees: PyTorch's first side stream, a library's handle, code
// that is loaded late. Where jobs together fill the device to the last chunk such a call fails, in a program
// that would have run alone (docs/decisions/0043). The headroom is what is kept for them. An allocation may
// use it up, and whoever does says so; bytes that come back leave it, unless nobody makes room for both.
//
// Not thread-safe; knows no driver: `free_now` asks it, which takes some 10 us on a GPU, so what it has said
// is believed until half of what was free above the headroom has been taken.
#ifndef HOCKET_ALLOCATOR_HEADROOM_H_
#define HOCKET_ALLOCATOR_HEADROOM_H_

#include <algorithm>
#include <optional>

#include "absl/functional/function_ref.h"
#include "csrc/base/bytes.h"

namespace hocket {

class Headroom {
 public:
  // nullopt: the driver does not say.
  using FreeNow = absl::FunctionRef<std::optional<Bytes>()>;

  // 0: none is kept.
  explicit Headroom(Bytes size) : size_(size) {}

  // Others have had the device, or have made room: what was known is not so any more.
  void Renew();

  // So many bytes more have been taken. Returns how many others should be asked for; 0: enough is free, or
  // about as many have been asked for since Renew().
  Bytes LackingAfter(Bytes taken, FreeNow free_now);

  // Where so many bytes are free; 0, too, if fewer lack than are worth an order. May be asked on any thread.
  Bytes LackingWhere(Bytes free) const;

  // Whether the headroom would still be free after taking so many bytes, which are taken then. Always, while
  // it is spent.
  bool CanSpare(Bytes wanted, FreeNow free_now);

  // Room was asked for beside it, and nobody gave any: in this turn and some more bytes come back into it.
  void Spend() { spent_turns_ = kSpentTurns; }
  void TurnEnds() { spent_turns_ -= spent_turns_ > 0 ? 1 : 0; }

 private:
  Bytes Below(Bytes free) const { return size_ - std::min(size_, free); }

  const Bytes size_;
  Bytes unasked_ = 0;  // can be taken before the driver is asked again
  Bytes told_ = 0;     // what was returned last, less what has been given since
  static constexpr int kSpentTurns = 64;
  int spent_turns_ = 0;
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_HEADROOM_H_
