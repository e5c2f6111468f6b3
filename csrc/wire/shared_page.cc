#include "csrc/wire/shared_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "csrc/base/cannot.h"
#include "csrc/base/status_macros.h"
#include "csrc/wire/grant_word.h"

namespace hocket::wire {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::Status Failed(const char* what) { return Cannot(absl::StrCat(what, " the job's shared page")); }

absl::StatusOr<PageMapping> Map(int fd, int protection) {
  void* address = mmap(nullptr, kPageSize, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return Failed("map");
  return PageMapping(address);
}

absl::Status CheckSealed(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shared page's descriptor has the seals ", seals, ", expected at least ", kSeals));
  }
  struct stat info {};
  if (fstat(fd, &info) != 0) return Failed("see the size of");
  if (info.st_size != static_cast<off_t>(kPageSize)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shared page has ", info.st_size, " bytes, expected ", kPageSize));
  }
  return absl::OkStatus();
}

}  // namespace

PageMapping::~PageMapping() {
  if (address_ != nullptr) munmap(address_, kPageSize);
}

absl::StatusOr<SharedPage> SharedPage::Create() {
  UniqueFd fd(memfd_create("hocket-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Failed("make");
  if (ftruncate(fd.get(), kPageSize) != 0) return Failed("size");
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Failed("seal");
  HOCKET_ASSIGN_OR_RETURN(PageMapping mapping, Map(fd.get(), PROT_READ | PROT_WRITE));
  mapping.words()->magic.store(kPageMagic, std::memory_order_relaxed);
  mapping.words()->version.store(kPageVersion, std::memory_order_relaxed);
  mapping.words()->length.store(sizeof(PageWords), std::memory_order_relaxed);
  return SharedPage(std::move(fd), std::move(mapping));
}

absl::StatusOr<SharedPageView> SharedPageView::Open(int fd) {
  HOCKET_RETURN_IF_ERROR(CheckSealed(fd));
  auto shared = Map(fd, PROT_READ | PROT_WRITE);
  const bool writable = shared.ok();
  if (!writable) shared = Map(fd, PROT_READ);
  HOCKET_ASSIGN_OR_RETURN(PageMapping mapping, std::move(shared));
  const uint64_t magic = mapping.words()->magic.load(std::memory_order_relaxed);
  const uint32_t version = mapping.words()->version.load(std::memory_order_relaxed);
  const uint32_t length = mapping.words()->length.load(std::memory_order_relaxed);
  if (magic != kPageMagic || version != kPageVersion || length > kPageSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shared page says magic ", absl::Hex(magic), ", version ", version, ", ", length,
                     " bytes; expected magic ", absl::Hex(kPageMagic), ", version ", kPageVersion,
                     ", at most ", kPageSize, " bytes"));
  }
  return SharedPageView(std::move(mapping), length, writable);
}

bool SharedPage::AcceptGrant(uint64_t wait) { return wire::AcceptGrant(words().grant, wait); }

bool SharedPageView::TakeGrantBack(uint64_t wait) {
  std::atomic<uint64_t>& grant = mapping_.words()->grant;
  return writable_ && Has(grant) && wire::TakeGrantBack(grant, wait);
}

bool SharedPageView::Has(const std::atomic<uint64_t>& word) const {
  const auto end = reinterpret_cast<const char*>(&word + 1) - reinterpret_cast<const char*>(mapping_.words());
  return static_cast<uint32_t>(end) <= length_;
}

PageValues SharedPageView::Read() const {
  const PageWords& words = *mapping_.words();
  auto word = [&](const std::atomic<uint64_t>& w) { return Has(w) ? w.load(std::memory_order_relaxed) : 0; };
  return {.steps = word(words.steps),
          .step_time_ns = word(words.step_time_ns),
          .in_step = word(words.in_step),
          .turns = word(words.turns),
          .persistent = word(words.persistent),
          .transient = word(words.transient),
          .spilled = word(words.spilled),
          .last_boundary_ns = word(words.last_boundary_ns),
          .spilled_total = word(words.spilled_total),
          .restored_total = word(words.restored_total),
          .step_begun_ns = word(words.step_begun_ns),
          .strays = word(words.strays),
          .step_allocations = word(words.step_allocations),
          .planned_allocations = word(words.planned_allocations),
          .deviating_allocations = word(words.deviating_allocations),
          .survived_total = word(words.survived_total),
          .foreseen_total = word(words.foreseen_total),
          .adopted = word(words.adopted),
          .adopted_last = word(words.adopted_last),
          .adopted_total = word(words.adopted_total)};
}

}  // namespace hocket::wire
