// Somebody's word that the bytes of a block stay what they are.
//
//   given        CachingAllocator::DeclareConstant
//   held to      what a spill has copied of the block stays on the host after the restore, and is not copied
//   again over         when the block is freed, when it is taken back (EndConstant), or when it is seen to be
//   broken
//
// Nothing on a device tells what has been written. So the promise is believed, but for `broken`, and looked
// at in a debug mode (verifier.h).
#ifndef HOCKET_ALLOCATOR_PROMISE_H_
#define HOCKET_ALLOCATOR_PROMISE_H_

#include <functional>
#include <memory>
#include <string>

#include "csrc/base/bytes.h"

namespace hocket {

struct Promise {
  std::string name;  // of what lies there, in the words of who gave it
  // True if it is known to be broken; who is to hear of that is told here. Asked before each spill that
  // relies on it, with the allocator locked: it must not call the allocator, nor wait. Not asked again after
  // it was true.
  std::function<bool()> broken = nullptr;
  // What `broken` looks at. Another promise for the same block that looks at the same adds nothing to it.
  const void* watched = nullptr;
  // It is about so many bytes from the address on, and holds only for a block that was asked for with just
  // that size; 0: for whatever block is there.
  Bytes size = 0;
  std::shared_ptr<const Promise> besides = nullptr;  // given for the same block: broken when either is

  bool Broken() const { return (broken && broken()) || (besides && besides->Broken()); }
};

}  // namespace hocket

#endif  // HOCKET_ALLOCATOR_PROMISE_H_
