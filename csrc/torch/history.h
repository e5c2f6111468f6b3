// The history of allocations that torch.cuda.memory._record_memory_history() asks for, in PyTorch's terms, so
// that its memory viewer opens what torch.cuda.memory._snapshot() gives.
//
//   Malloc succeeds -> Allocated()  an entry "alloc"; its stack is kept for as long as the block lives
//   Free            -> Freed()      entries "free_requested" and "free_completed"
//   Malloc fails    -> OutOfMemory() an entry "oom"
//   annotateMemory  -> Annotated()  an entry "annotate", with the program's words, of a block that lives
//   recordAnnotation -> NoteRange() begin and end of a torch.profiler.record_function: not an entry of a
//                                   device's, but an annotation beside them
//   chunks come or go: with the next of these, entries "segment_map" and "segment_unmap", as of expandable
//                                    segments
//
// While it is off each call costs one atomic load. A ring per device: the newest `max_entries` are kept.
// "free_completed" stands at the time of the free, also where a recorded stream holds the memory a little
// longer. Memory that moves to the host and back makes no entries: its addresses stay.
//
// Thread-safe. Stacks are gathered with no lock held (that takes Python's).
#ifndef HOCKET_CSRC_TORCH_HISTORY_H_
#define HOCKET_CSRC_TORCH_HISTORY_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "allocator/stats.h"
#include "csrc/torch/torch_version.h"

namespace hocket {

class History {
 public:
  using Entry = pytorch::TraceEntry;
  using Context = std::shared_ptr<c10::GatheredContext>;

  // What is recorded, and how.
  struct Options {
    pytorch::caching::CreateContextFn gather_context = nullptr;
    std::size_t max_entries = 1;
    pytorch::caching::RecordContext when = pytorch::caching::RecordContext::NEVER;
    std::vector<std::string> skip_actions;  // "alloc", "free_requested", ...
  };

  // Starts, or goes on with other options; `clear` drops what was recorded. Raises PyTorch's error for an
  // action that there is not.
  void Start(const Options& options, bool clear);
  // Stops recording and drops what was recorded.
  void Stop();
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  // Segments that have come or gone, in order, each given once. Called with the history locked, so that no
  // other thread's entry comes between: who allocates in memory that has come finds that entered.
  using Changes = absl::FunctionRef<std::vector<SegmentChange>()>;

  void Allocated(c10::DeviceIndex device, std::size_t address, std::size_t size, void* stream,
                 pytorch::MempoolId_t pool, Changes changes);
  void Freed(c10::DeviceIndex device, std::size_t address);
  // `here`: what has gone has been given back by this thread, and its stack says why.
  void SegmentsChanged(c10::DeviceIndex device, bool here, Changes changes);
  void OutOfMemory(c10::DeviceIndex device, std::size_t size, std::size_t free, void* stream);
  // `size`: of the block as it was asked for, for one that is older than the history.
  void Annotated(c10::DeviceIndex device, std::size_t address, std::size_t size, pytorch::MempoolId_t pool,
                 const std::string& text);
  // A snapshot is taken: an entry that lets a reader align the two, with the bytes allocated.
  void SnapshotTaken(c10::DeviceIndex device, std::size_t allocated);
  void NoteRange(c10::DeviceIndex device, const std::vector<std::pair<std::string, std::string>>& annotation);

  // What all entries of the calling thread carry from now on: the compiled region that it is in, and a note
  // of the program's.
  static void PushCompileContext(const std::string& context);
  static void PopCompileContext();
  static void SetUserMetadata(const std::string& metadata);
  static std::string UserMetadata();

  // Oldest first.
  std::vector<Entry> Entries(c10::DeviceIndex device) const;
  std::vector<pytorch::AnnotationEntry> Annotations() const;
  // The stack of the allocation that made the living block at `address`; nullptr: not recorded.
  Context ContextOf(std::size_t address) const;

 private:
  struct Block {
    std::size_t size = 0;
    void* stream = nullptr;
    Context context;
    pytorch::MempoolId_t pool = {0, 0};
  };

  // The stack here, if stacks are wanted for what is recorded at `level` and above.
  Context Gather(pytorch::caching::RecordContext level) const;
  void AddSegments(c10::DeviceIndex device, const Context& came, const Context& gone, Changes changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With the stack that `block` has, where entries are to have one.
  void Add(Entry::Action action, c10::DeviceIndex device, std::size_t address, const Block& block,
           const std::string& text = user_metadata_) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static thread_local std::string user_metadata_;

  std::atomic<bool> enabled_{false};
  mutable absl::Mutex mutex_;
  Options options_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry::Action> skipped_ ABSL_GUARDED_BY(mutex_);
  std::map<c10::DeviceIndex, std::deque<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<pytorch::AnnotationEntry> annotations_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::size_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hocket

#endif  // HOCKET_CSRC_TORCH_HISTORY_H_
