// Access between devices, which memory that moves does not give: a kernel of one device that reads another
// one's spilled memory would end the process.
//
//   DenyPeerAccess(): from now on PyTorch is told that no device reaches another one's memory, and copies
//   between devices by way of the driver, as on a machine whose devices are no peers. NCCL, which may read
//   the buffers of another device of its process directly, is asked not to (NCCL_P2P_DIRECT_DISABLE=1,
//   unless the variable is set). Nor is it to register the buffers of captured graphs (NCCL_GRAPH_REGISTER=0,
//   whatever was set): it would go on using the pages that were behind them when they were captured.
//
// What PyTorch has been told before, it remembers. Where its question cannot be redirected (it was linked
// with the CUDA runtime statically), enabling access is refused (refusals.h).
#ifndef HOCKET_CSRC_TORCH_PEERS_H_
#define HOCKET_CSRC_TORCH_PEERS_H_

namespace hocket {

// For good. Not thread-safe against readers of the environment.
void DenyPeerAccess();

// Whether two of the devices that this process sees are peers. REQUIRES: CUDA has started.
bool ArePeers();

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_PEERS_H_
