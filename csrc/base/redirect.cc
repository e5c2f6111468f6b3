#include "csrc/base/redirect.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "csrc/base/cannot.h"

namespace hocket {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kEntryTypes[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#elif defined(__aarch64__)
constexpr std::uint32_t kEntryTypes[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#else
constexpr std::uint32_t kEntryTypes[] = {0, 0};  // R_*_NONE
#endif

// The tables of a loaded library that say what it imports.
struct Imports {
  ElfW(Addr) base = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * first = nullptr;
    std::size_t count = 0;
  } tables[2];  // of functions called, and of addresses taken
  // What the dynamic linker has made read-only.
  ElfW(Addr) read_only = 0;
  std::size_t read_only_size = 0;
};

// glibc writes addresses into the dynamic section, other linkers leave offsets there.
ElfW(Addr) Located(ElfW(Addr) base, ElfW(Addr) value) { return value < base ? base + value : value; }

void ReadDynamic(const ElfW(Dyn) * entry, Imports& imports) {
  for (; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) address = Located(imports.base, entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        imports.symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        imports.names = reinterpret_cast<const char*>(address);
        break;
      case DT_JMPREL:
        imports.tables[0].first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        imports.tables[0].count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        imports.tables[1].first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        imports.tables[1].count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
    }
  }
}

// A loaded library, or the program, whose name is empty.
using Wanted = absl::FunctionRef<bool(const dl_phdr_info&)>;

struct Search {
  Wanted wanted;
  bool found = false;
  Imports imports = {};
};

bool IsNamed(const dl_phdr_info& info, std::string_view library) {
  const std::string_view path = info.dlpi_name;
  return path.substr(path.rfind('/') + 1) == library;  // npos + 1 is 0
}

bool Has(const dl_phdr_info& info, const void* address) {
  const auto at = reinterpret_cast<ElfW(Addr)>(address);
  return std::any_of(info.dlpi_phdr, info.dlpi_phdr + info.dlpi_phnum, [&](const ElfW(Phdr) & header) {
    const ElfW(Addr) begin = info.dlpi_addr + header.p_vaddr;
    return header.p_type == PT_LOAD && at >= begin && at - begin < header.p_memsz;
  });
}

int LookAt(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  if (!search->wanted(*info)) return 0;
  search->found = true;
  search->imports.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_DYNAMIC) {
      ReadDynamic(reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + header.p_vaddr), search->imports);
    } else if (header.p_type == PT_GNU_RELRO) {
      // Whole pages only: the last one's rest stays writable.
      const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
      const ElfW(Addr) end = (info->dlpi_addr + header.p_vaddr + header.p_memsz) / page * page;
      search->imports.read_only = info->dlpi_addr + header.p_vaddr;
      search->imports.read_only_size = end - std::min(end, search->imports.read_only);
    }
  }
  return 1;
}

bool IsEntry(std::uint32_t type) { return type == kEntryTypes[0] || type == kEntryTypes[1]; }

// The entries that lead to `function`: more than one where it is both called and pointed to.
std::vector<void**> EntriesOf(const Imports& imports, std::string_view function) {
  std::vector<void**> entries;
  for (const Imports::Table& table : imports.tables) {
    for (std::size_t i = 0; table.first != nullptr && i < table.count; ++i) {
      const ElfW(Rela)& relocation = table.first[i];
      if (!IsEntry(ELF64_R_TYPE(relocation.r_info))) continue;
      const ElfW(Sym)& symbol = imports.symbols[ELF64_R_SYM(relocation.r_info)];
      if (imports.names + symbol.st_name != function) continue;
      entries.push_back(reinterpret_cast<void**>(imports.base + relocation.r_offset));
    }
  }
  return entries;
}

bool IsReadOnly(const Imports& imports, void** entry) {
  const auto address = reinterpret_cast<ElfW(Addr)>(entry);
  return address >= imports.read_only && address < imports.read_only + imports.read_only_size;
}

// Of the page that the entry lies in.
bool Protect(void** entry, int protection) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(entry) / page * page;
  return mprotect(reinterpret_cast<void*>(begin), page, protection) == 0;
}

// `caller`: for messages.
absl::Status Redirect(Wanted wanted, const std::string& caller, absl::Span<const Redirection> redirections) {
  if (kEntryTypes[0] == 0) {
    return absl::UnimplementedError(
        absl::StrCat("cannot redirect calls of ", caller, ": not on this processor"));
  }
  Search search{wanted};
  dl_iterate_phdr(&LookAt, &search);
  if (!search.found || search.imports.symbols == nullptr || search.imports.names == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot redirect calls of ", caller, ": it is not loaded"));
  }
  std::vector<std::pair<void**, void*>> writes;
  for (const Redirection& redirection : redirections) {
    const std::vector<void**> entries = EntriesOf(search.imports, redirection.function);
    if (entries.empty()) {
      return absl::NotFoundError(absl::StrCat("cannot redirect calls of ", caller, ": it does not import ",
                                              redirection.function, " from another library"));
    }
    for (void** entry : entries) writes.emplace_back(entry, redirection.target);
  }
  for (const auto& [entry, target] : writes) {
    if (IsReadOnly(search.imports, entry) && !Protect(entry, PROT_READ | PROT_WRITE)) {
      return Cannot(absl::StrCat("make the imports of ", caller, " writable"));
    }
  }
  for (const auto& [entry, target] : writes) __atomic_store_n(entry, target, __ATOMIC_RELEASE);
  for (const auto& [entry, target] : writes) {
    if (IsReadOnly(search.imports, entry)) (void)Protect(entry, PROT_READ);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RedirectCalls(const std::string& library, absl::Span<const Redirection> redirections) {
  return Redirect([&](const dl_phdr_info& info) { return IsNamed(info, library); }, library, redirections);
}

absl::Status RedirectCallsFrom(const void* address, absl::Span<const Redirection> redirections) {
  return Redirect([&](const dl_phdr_info& info) { return Has(info, address); },
                  absl::StrFormat("what is loaded at %p", address), redirections);
}

}  // namespace hocket
