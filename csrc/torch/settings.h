// Settings of PyTorch's allocator that a program changes while it runs
// (torch._C._accelerator_setAllocatorSettings(), torch.cuda.memory._set_allocator_settings(), C++):
//
//   setAllocatorSettings() -> PyTorch's reader of CUDA's options -> here
//
// PyTorch checks them first: what it refuses changes nothing here, and the caller gets its error.
#ifndef HOCKET_CSRC_TORCH_SETTINGS_H_
#define HOCKET_CSRC_TORCH_SETTINGS_H_

#include <atomic>

#include "csrc/torch/devices.h"

namespace hocket {

// To be called while PyTorch's own allocator is the current one: lets PyTorch read PYTORCH_ALLOC_CONF, which
// names that one as its backend if any. What is wrong in it is found, and raised, when CUDA starts.
void ReadSettingsOfEnvironment();

// Under Hocket's allocator: from now on they are heeded as those of PYTORCH_ALLOC_CONF are. Both are borrowed
// and live until the process ends.
void HeedSettings(Devices& devices, const std::atomic<bool>& forked);

// Under PyTorch's own over Hocket's memory: PyTorch heeds them, now and from now on with two of ours.
//   release_lock_on_cudamalloc: a thread that waits for room keeps nobody from freeing
//   expandable_segments: off, as they are not made by cudaMalloc; who asks for them is told once
void KeepOurSettings();

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_SETTINGS_H_
