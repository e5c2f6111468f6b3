// One page of memory in which a job tells the coordinator how it is doing, without a message.
//
// The job makes it (memfd, sealed against any change of its size), writes it with relaxed atomics and sends
// its descriptor with Join. The coordinator maps it after checking size and seals, so that nothing the job
// does later can make an access fault. What stands in it is the job's word, good for display and estimates;
// turns and the ledger follow messages only.
//
// One word is written by both: `grant`, in which they agree whether a Grant that the job has not read yet is
// still its own (grant_word.h). The coordinator writes nothing else, and maps the page read-only where its
// descriptor allows no more.
#ifndef HOCKET_CSRC_WIRE_SHARED_PAGE_H_
#define HOCKET_CSRC_WIRE_SHARED_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "csrc/base/unique_fd.h"

namespace hocket::wire {

inline constexpr uint64_t kPageMagic = 0x4547415054454b48;  // "HKETPAGE"
inline constexpr uint32_t kPageVersion = 1;
inline constexpr size_t kPageSize = 4096;

// As it lies in memory. New words come at the end; `length` says how many bytes the writer knows, and a
// reader takes the ones it does not have as 0. Another `version` is not read.
struct PageWords {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> length;
  std::atomic<uint64_t> steps;             // completed
  std::atomic<uint64_t> step_time_ns;      // running average of a step's time
  std::atomic<uint64_t> in_step;           // 1 while a thread is in a step
  std::atomic<uint64_t> turns;             // taken
  std::atomic<uint64_t> persistent;        // bytes resident on the device
  std::atomic<uint64_t> transient;         // bytes of the arena in use
  std::atomic<uint64_t> spilled;           // bytes on the host
  std::atomic<uint64_t> last_boundary_ns;  // CLOCK_MONOTONIC; steps shorter than 1 ms may leave it as it was
  std::atomic<uint64_t> spilled_total;     // bytes moved to the host since the start
  std::atomic<uint64_t> restored_total;    // and back
  std::atomic<uint64_t> step_begun_ns;  // CLOCK_MONOTONIC; the latest, of a job with several threads in steps
  std::atomic<uint64_t> grant;          // whose is the Grant sent last: grant_word.h
  std::atomic<uint64_t> strays;         // so often work of an unseen thread was seen around a spill
  // Of the allocator, as in Holdings (allocator/caching_allocator.h): since the start, but for two of them.
  std::atomic<uint64_t> step_allocations;       // in steps, and of these
  std::atomic<uint64_t> planned_allocations;    // placed by plan, and
  std::atomic<uint64_t> deviating_allocations;  // that deviated from it
  std::atomic<uint64_t> survived_total;         // bytes that outlived their step, and of these
  std::atomic<uint64_t> foreseen_total;         // in persistent memory from their birth
  std::atomic<uint64_t> adopted;                // bytes held now in chunks adopted for survivors
  std::atomic<uint64_t> adopted_last;           // bytes of chunks adopted at the last hand-over
  std::atomic<uint64_t> adopted_total;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(PageWords) <= kPageSize);

// The words at one time; each is right by itself, not all together.
struct PageValues {
  uint64_t steps = 0;
  uint64_t step_time_ns = 0;
  uint64_t in_step = 0;
  uint64_t turns = 0;
  uint64_t persistent = 0;
  uint64_t transient = 0;
  uint64_t spilled = 0;
  uint64_t last_boundary_ns = 0;
  uint64_t spilled_total = 0;
  uint64_t restored_total = 0;
  uint64_t step_begun_ns = 0;
  uint64_t strays = 0;
  uint64_t step_allocations = 0;
  uint64_t planned_allocations = 0;
  uint64_t deviating_allocations = 0;
  uint64_t survived_total = 0;
  uint64_t foreseen_total = 0;
  uint64_t adopted = 0;
  uint64_t adopted_last = 0;
  uint64_t adopted_total = 0;
};

// A mapping of the page; move-only.
class PageMapping {
 public:
  PageMapping() = default;
  explicit PageMapping(void* address) : address_(address) {}
  PageMapping(PageMapping&& other) noexcept : address_(std::exchange(other.address_, nullptr)) {}
  PageMapping& operator=(PageMapping&& other) noexcept {
    std::swap(address_, other.address_);
    return *this;
  }
  ~PageMapping();
  PageWords* words() const { return static_cast<PageWords*>(address_); }

 private:
  void* address_ = nullptr;
};

// The job's end.
class SharedPage {
 public:
  // A page with magic, version and length set and all else 0. kUnavailable, with errno's text, when the
  // kernel gives none.
  static absl::StatusOr<SharedPage> Create();

  // Stays valid when the object moves. Write with std::memory_order_relaxed.
  PageWords& words() { return *mapping_.words(); }
  // The Grant that answers the Wait of this number has come. False: it was taken back; do not obey it.
  bool AcceptGrant(uint64_t wait);
  // To be sent with Join.
  int fd() const { return fd_.get(); }

 private:
  SharedPage(UniqueFd fd, PageMapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  UniqueFd fd_;
  PageMapping mapping_;
};

// The coordinator's end.
class SharedPageView {
 public:
  // Maps `fd` and does not keep it. kInvalidArgument, with what was found and expected, when it is no sealed
  // page of ours.
  static absl::StatusOr<SharedPageView> Open(int fd);

  PageValues Read() const;
  // Makes the Grant that answers the job's Wait of this number void. False: the job has accepted it, or the
  // page has no such word, or cannot be written to; then the turn is the job's.
  bool TakeGrantBack(uint64_t wait);

 private:
  SharedPageView(PageMapping mapping, uint32_t length, bool writable)
      : mapping_(std::move(mapping)), length_(length), writable_(writable) {}
  bool Has(const std::atomic<uint64_t>& word) const;
  PageMapping mapping_;
  uint32_t length_;  // of the words that the job knows, in bytes
  bool writable_;
};

}  // namespace hocket::wire

#endif  // HOCKET_CSRC_WIRE_SHARED_PAGE_H_
