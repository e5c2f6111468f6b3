// Stream capture: what programs queue on a capturing stream becomes a graph instead of work.
//
// A capture begins on one stream and spreads to the streams that wait for its events; all of them must have
// been joined back when it ends. While it lasts, calls that would wait for the device are errors and
// invalidate it, by the rules of the calling thread's mode and of the capture's:
//
//   thread \ capture      global             thread-local (own)   relaxed
//   global                error              error                allowed
//   thread-local          error if own       error                allowed
//   relaxed               allowed            allowed              allowed
//
// In values mode operators are computed while they are captured, because a program must know their results'
// sizes. No device would: so what they overwrite is kept and comes back when the capture ends.
//
// A graph is the captured operations in the order in which they were captured, which respects all their
// dependencies; a launch queues them one after the other. Thread-safe.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_CAPTURES_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_CAPTURES_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {

class StreamState;

// What one stream, or an event, knows to lie before it: for each stream of a capture, how many nodes.
using Knowledge = std::map<std::uint64_t, std::size_t>;

// Bytes as they were, by address; the first version of each byte is kept.
class KeptBytes {
 public:
  // `bytes` is where the host reads what a device knows under `address`.
  void Keep(std::uint64_t address, const char* bytes, std::size_t size);
  // Calls `put_back(address, bytes)` for everything kept.
  template <typename PutBack>
  void ForEach(PutBack put_back) const {
    for (const auto& [address, bytes] : pieces_) put_back(address, bytes);
  }

 private:
  std::map<std::uint64_t, std::vector<char>> pieces_;  // disjoint
};

struct Capture {
  std::uint64_t id = 0;
  int mode = cuda::kCaptureGlobal;
  std::thread::id thread;
  std::uint64_t origin = 0;  // the stream it began on
  bool origin_is_blocking = false;
  bool invalidated = false;
  std::vector<Operation> nodes;
  KeptBytes overwritten;                        // values mode
  std::map<std::uint64_t, Knowledge> branches;  // by stream; its own entry counts its own nodes
};

struct GraphState {
  std::vector<Operation> nodes;
};

class Captures {
 public:
  cuda::Result Begin(StreamState& stream, int mode);
  // `overwritten` gets what is to be put back, whatever came of the capture, once it is over.
  cuda::Result End(StreamState& stream, cuda::Graph* graph, KeptBytes* overwritten);
  // A kernel on the capturing `stream` is about to write `size` bytes.
  void KeepBytes(const StreamState& stream, std::uint64_t address, const char* bytes, std::size_t size);
  // kCaptureStatus..., and the capture's id where there is one.
  int Status(const StreamState& stream, std::uint64_t* id) const;

  // True when `stream` was capturing: the operation is now a node.
  bool Add(const StreamState& stream, Operation& operation);
  bool Add(const StreamState& stream, Operation&& operation) { return Add(stream, operation); }
  bool IsCapturing(const StreamState& stream) const;
  bool Any() const { return active_ != 0; }

  // An event is recorded on `stream`: what is to be kept with it, nullptr outside a capture.
  struct Captured {
    std::uint64_t capture = 0;
    Knowledge knowledge;
  };
  std::shared_ptr<Captured> Record(const StreamState& stream) const;
  // `stream` waits for an event recorded so. Sets *joined where the wait lies within a capture.
  cuda::Result Wait(const StreamState& stream, const std::shared_ptr<Captured>& event, bool* joined);

  // Before calls that no capture allows on this very stream (synchronise, query).
  cuda::Result CheckNotCapturing(const StreamState& stream);
  // Before calls that may wait for the device without saying so (allocate, query an event).
  cuda::Result CheckUnsafe();
  // Before calls that wait for a whole context.
  cuda::Result CheckNoneActive();
  // Before work on the default stream, which would wait for a capturing blocking stream.
  cuda::Result CheckLegacy(const StreamState& stream);

  // The calling thread's mode.
  static int& ThreadMode();

  // --- graphs ---
  cuda::Result Instantiate(cuda::Graph graph, cuda::GraphExec* exec);
  // The nodes to queue; nullptr: not a graph.
  std::shared_ptr<const GraphState> Find(cuda::GraphExec exec) const;
  std::shared_ptr<const GraphState> Find(cuda::Graph graph) const;
  bool Destroy(cuda::Graph graph);
  bool Destroy(cuda::GraphExec exec);

 private:
  using CapturePtr = std::shared_ptr<Capture>;

  // REQUIRES: mutex_ is held, for all below.
  CapturePtr Of(std::uint64_t stream) const;
  bool Joined(const Capture& capture) const;
  void Forget(const Capture& capture);

  std::atomic<int> active_ = 0;  // the usual question, "none?", costs one load
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::uint64_t, CapturePtr> by_stream_;
  std::map<cuda::Graph, std::shared_ptr<GraphState>> graphs_;
  std::map<cuda::GraphExec, std::shared_ptr<GraphState>> execs_;
  std::uint64_t next_id_ = 1;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_CAPTURES_H_
