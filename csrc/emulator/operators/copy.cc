// aten::copy_ where a CUDA tensor takes part.
//
// On the device it is a kernel like any other. Between host and device it is a copy of the driver's, which
// happens later, on the stream: what the two sides do not have in common (element type, strides) is changed
// on either side of it.
#include "csrc/emulator/operators/copy.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "csrc/emulator/operators/alias.h"
#include "csrc/emulator/operators/kernel.h"
#include "csrc/emulator/operators/recording.h"

namespace hocket::emulator {
namespace {

// As PyTorch orders a copy between devices: the streams of both wait for each other, before it and after it.
void JoinStreams(const at::Tensor& a, const at::Tensor& b) {
  if (a.device() == b.device()) return;
  const c10::Stream of_a = c10::cuda::getCurrentCUDAStream(a.device().index()).unwrap();
  const c10::Stream of_b = c10::cuda::getCurrentCUDAStream(b.device().index()).unwrap();
  // Not at::cuda::CUDAEvent, whose header needs more of CUDA's than the wheels of torch 2.11 bring.
  c10::Event reached_a(c10::DeviceType::CUDA), reached_b(c10::DeviceType::CUDA);
  reached_a.record(of_a);
  reached_b.record(of_b);
  reached_a.block(of_b);
  reached_b.block(of_a);
}

void CopyOnDevice(const at::Tensor& to, const at::Tensor& from) {
  const c10::cuda::CUDAGuard guard(to.device());  // a default stream is named by its device
  JoinStreams(to, from);
  Aliases aliases;
  const at::Tensor to_alias = aliases.Of(to, true);
  const at::Tensor from_alias = aliases.Of(from, false);
  Recording recording(to.device());
  {
    const Kernel kernel("copy_", to.device(), aliases.ranges(), aliases.range_count());
    const at::AutoDispatchBelowADInplaceOrView below;
    to_alias.copy_(from_alias);
  }
  JoinStreams(to, from);
  if (!recording.active()) return;
  recording.Keep("copy_", RecordedResults().Touched(aliases), [to_alias, from_alias] {
    const at::AutoDispatchBelowADInplaceOrView below;
    to_alias.copy_(from_alias);
  });
}

bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.is_non_overlapping_and_dense() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// Both sides have the same layout. `non_blocking`: the caller keeps the host side alive and unread.
void Transfer(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Tensor& device_side = to.is_cuda() ? to : from;
  const at::Tensor& host_side = to.is_cuda() ? from : to;
  const c10::cuda::CUDAGuard guard(device_side.device());
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  void* host = host_side.is_same(to) ? to.mutable_data_ptr() : const_cast<void*>(from.const_data_ptr());
  void* device = device_side.is_same(to) ? to.mutable_data_ptr() : const_cast<void*>(from.const_data_ptr());
  C10_CUDA_CHECK(to.is_cuda() ? cudaMemcpyAsync(device, host, to.nbytes(), cudaMemcpyHostToDevice, stream)
                              : cudaMemcpyAsync(host, device, to.nbytes(), cudaMemcpyDeviceToHost, stream));
  if (!non_blocking) return c10::cuda::stream_synchronize(stream);
  // Pinned memory is not given to anyone else before the copy is over.
  at::getHostAllocator(at::kCUDA)->record_event(host, host_side.storage().data_ptr().get_context(),
                                                stream.unwrap());
}

void CopyToDevice(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (SameBytes(to, from)) return Transfer(to, from, non_blocking);
  if (!to.is_non_overlapping_and_dense() || to.is_conj() || to.is_neg()) {
    return CopyOnDevice(to, from.to(to.device(), to.scalar_type()));
  }
  const at::Tensor staged = at::empty_strided(to.sizes(), to.strides(), to.options().device(at::kCPU));
  staged.copy_(from);
  Transfer(to, staged, false);
}

void CopyToHost(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (SameBytes(to, from)) return Transfer(to, from, non_blocking);
  const at::Tensor dense = from.contiguous().resolve_conj().resolve_neg();
  const at::Tensor staged =
      at::empty_strided(dense.sizes(), dense.strides(), dense.options().device(at::kCPU));
  Transfer(staged, dense, false);
  to.copy_(staged);
}

}  // namespace

at::Tensor& Copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.is_same(source) || self.numel() == 0) return self;
  const at::Tensor from = source.expand_as(self);
  if (self.is_cuda() && from.is_cuda())
    CopyOnDevice(self, from);
  else if (self.is_cuda())
    CopyToDevice(self, from, non_blocking);
  else
    CopyToHost(self, from, non_blocking);
  return self;
}

}  // namespace hocket::emulator
