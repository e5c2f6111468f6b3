// How many bytes PyTorch's elementwise kernels move for each element: sums, products, activations, casts.
//
// The first argument of such a kernel is the number of elements, and its mangled name says how many tensors
// there are (the result and the operands) and, somewhere in the functor, of which type an element is:
//
//   vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, std::array<char*, 3>, ...>(int, ...)
//                                                    type                       tensors
//
// Not seen: operands of another type than the functor's, and those that are expanded from something smaller.
#ifndef HOCKET_CSRC_EMULATOR_RUNTIME_ELEMENTWISE_H_
#define HOCKET_CSRC_EMULATOR_RUNTIME_ELEMENTWISE_H_

#include <optional>

namespace hocket::emulator {

// Bytes that the kernel with that mangled name reads and writes for each element; none: it is another kernel.
std::optional<double> ElementwiseBytesPerElement(const char* name);

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_RUNTIME_ELEMENTWISE_H_
