// What neither of Hocket's allocators can do for PyTorch, refused by name with the alternative: memory that
// moves between device and host cannot be known elsewhere by its address.
#ifndef HOCKET_CSRC_TORCH_REFUSALS_H_
#define HOCKET_CSRC_TORCH_REFUSALS_H_

#include <c10/core/Device.h>

namespace hocket {

inline constexpr char kWithoutHocket[] =
    "or start the program with HOCKET_ALLOCATOR=off: it then takes turns, and PyTorch "
    "manages its memory.";
// Where only Hocket's allocator cannot.
inline constexpr char kWithNative[] =
    "or start the program with HOCKET_ALLOCATOR=native: PyTorch then keeps its own allocator, "
    "over memory that Hocket moves.";

[[noreturn]] void RefuseToRegister();
[[noreturn]] void RefuseToShare();
[[noreturn]] void RefusePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer);

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_REFUSALS_H_
