// A process that uses the emulated GPU as its standard input tells it. One line, one answer: "ok" and what
// was asked for, or the driver's name of the error. Names stand for whatever the driver gave; sizes and
// offsets are in KiB; a stream is a name or "default".
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/emulator/driver_functions.h"

namespace hocket {
namespace {

using namespace hocket::cuda;  // NOLINT: the driver's functions

std::map<std::string, std::uint64_t> names;

std::string ErrorName(Result result) {
  if (result == kSuccess) return "ok";
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == kSuccess ? name : "unknown";
}

// The rest of a line, taken word by word.
class Words {
 public:
  explicit Words(const std::string& line) : stream_(line) {}
  std::string Word() {
    std::string word;
    stream_ >> word;
    return word;
  }
  std::uint64_t Value() { return names.at(Word()); }
  std::uint64_t& New() { return names[Word()]; }
  std::size_t Size() { return static_cast<std::size_t>(Number()) << 10; }
  long long Number() { return std::stoll(Word(), nullptr, 0); }
  hocket::Stream Stream() {
    const std::string word = Word();
    return word == "default" ? nullptr : reinterpret_cast<hocket::Stream>(names.at(word));
  }
  cuda::Event Event() { return reinterpret_cast<cuda::Event>(Value()); }
  void* Pointer() { return reinterpret_cast<void*>(Value()); }
  bool More() { return (stream_ >> std::ws).good(); }

 private:
  std::istringstream stream_;
};

std::string Create(Words& words) {
  std::uint64_t& name = words.New();
  const std::size_t size = words.Size();
  const AllocationProperties properties = OnDevice(words.More() ? static_cast<int>(words.Number()) : 0);
  MemoryHandle handle = 0;
  const Result result = cuMemCreate(&handle, size, &properties, 0);
  name = handle;
  return ErrorName(result);
}

std::string CreateOnHost(Words& words) {
  std::uint64_t& name = words.New();
  AllocationProperties properties = OnDevice(0);
  properties.requested_handle_types = 0;
  properties.location = {kLocationHostNode, 0};
  MemoryHandle handle = 0;
  const Result result = cuMemCreate(&handle, words.Size(), &properties, 0);
  name = handle;
  return ErrorName(result);
}

std::string AccessOfHost(Words& words) {
  const DevicePtr address = words.Value() + words.Size();
  const AccessDescription access{{kLocationHostNode, 0}, kAccessReadWrite};
  return ErrorName(cuMemSetAccess(address, words.Size(), &access, 1));
}

std::string Access(Words& words) {
  const DevicePtr address = words.Value() + words.Size();
  const AccessDescription access = ReadWrite();
  return ErrorName(cuMemSetAccess(address, words.Size(), &access, 1));
}

std::string Map(Words& words) {
  const DevicePtr address = words.Value() + words.Size();
  const std::size_t size = words.Size();
  return ErrorName(cuMemMap(address, size, 0, words.Value(), 0));
}

std::string Export(Words& words) {
  int fd = -1;
  const Result result = cuMemExportToShareableHandle(&fd, words.Value(), kHandlePosixFd, 0);
  return absl::StrCat(ErrorName(result), " ", fd);
}

// import NAME PID DESCRIPTOR
std::string Import(Words& words) {
  std::uint64_t& name = words.New();
  const std::string pid = words.Word();
  const int fd = open(absl::StrCat("/proc/", pid, "/fd/", words.Word()).c_str(), O_RDWR | O_CLOEXEC);
  MemoryHandle handle = 0;
  const Result result = cuMemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), kHandlePosixFd);
  close(fd);
  name = handle;
  return ErrorName(result);
}

std::string Used(Words&) {
  std::size_t free = 0, total = 0;
  const Result result = cuMemGetInfo_v2(&free, &total);
  return absl::StrCat(ErrorName(result), " ", (total - free) >> 10, " of ", total >> 10);
}

// kernel NAME STREAM {read|write NAME OFFSET SIZE}...
std::string Kernel(Words& words) {
  static auto& kept = *new std::set<std::string>;  // messages may name it later
  const char* const name = kept.insert(words.Word()).first->c_str();
  const hocket::Stream stream = words.Stream();
  std::vector<HocketEmulatorRange> ranges;
  while (words.More()) {
    const bool writes = words.Word() == "write";
    const std::uint64_t address = words.Value() + words.Size();
    ranges.push_back({address, words.Size(), writes ? 1 : 0});
  }
  hocket_emulator_begin_kernel(stream, name, ranges.data(), ranges.size());
  hocket_emulator_end_kernel(stream, ranges.data(), ranges.size());
  return "ok";
}

std::string TouchInKernel(Words& words) {
  const std::string name = words.Word();
  const std::uint64_t address = words.Value() + words.Size();
  hocket_emulator_begin_kernel(nullptr, name.c_str(), nullptr, 0);
  const auto* bytes = reinterpret_cast<const volatile char*>(address + hocket_emulator_alias_offset());
  const int value = *bytes;
  hocket_emulator_end_kernel(nullptr, nullptr, 0);
  return absl::StrCat("ok ", value);
}

std::string Read(Words& words) {
  unsigned char byte = 0;
  const DevicePtr address = words.Value() + words.Size();
  const Result result = cuMemcpyDtoH_v2(&byte, address, 1);
  return absl::StrCat(ErrorName(result), " ", byte);
}

std::string Fill(Words& words) {
  const DevicePtr address = words.Value() + words.Size();
  const std::size_t size = words.Size();
  const auto value = static_cast<unsigned char>(words.Number());
  return ErrorName(cuMemsetD8Async(address, value, size, words.Stream()));
}

std::string NewStream(Words& words) {
  hocket::Stream stream = nullptr;
  std::uint64_t& name = words.New();
  const Result result = cuStreamCreate(&stream, words.Word() == "blocking" ? 0 : kStreamNonBlocking);
  name = reinterpret_cast<std::uint64_t>(stream);
  return ErrorName(result);
}

std::string NewEvent(Words& words) {
  Event event = nullptr;
  std::uint64_t& name = words.New();
  const std::string kind = words.Word();
  unsigned flags = kind == "timed" ? 0 : kEventDisableTiming;
  if (kind == "shared") flags |= kEventInterprocess;
  const Result result = cuEventCreate(&event, flags);
  name = reinterpret_cast<std::uint64_t>(event);
  return ErrorName(result);
}

std::string ShareEvent(Words& words) {
  IpcHandle handle;
  const Result result = cuIpcGetEventHandle(&handle, words.Event());
  const absl::string_view bytes(reinterpret_cast<const char*>(handle.bytes), sizeof(handle.bytes));
  return absl::StrCat(ErrorName(result), " ", absl::BytesToHexString(bytes));
}

std::string OpenEvent(Words& words) {
  std::uint64_t& name = words.New();
  IpcHandle handle;
  std::memcpy(handle.bytes, absl::HexStringToBytes(words.Word()).data(), sizeof(handle.bytes));
  Event event = nullptr;
  const Result result = cuIpcOpenEventHandle(&event, handle);
  name = reinterpret_cast<std::uint64_t>(event);
  return ErrorName(result);
}

std::string ShareMemory(Words& words) {
  IpcHandle handle;
  const Result result = cuIpcGetMemHandle(&handle, words.Value());
  const absl::string_view bytes(reinterpret_cast<const char*>(handle.bytes), sizeof(handle.bytes));
  return absl::StrCat(ErrorName(result), " ", absl::BytesToHexString(bytes));
}

std::string OpenMemory(Words& words) {
  std::uint64_t& name = words.New();
  IpcHandle handle;
  std::memcpy(handle.bytes, absl::HexStringToBytes(words.Word()).data(), sizeof(handle.bytes));
  return ErrorName(cuIpcOpenMemHandle_v2(&name, handle, 1));
}

std::string Pinned(Words& words) {
  void* address = nullptr;
  std::uint64_t& name = words.New();
  const Result result = cuMemHostAlloc(&address, words.Size(), 0);
  name = reinterpret_cast<std::uint64_t>(address);
  return ErrorName(result);
}

// register NAME SIZE TOUCHED: pins fresh memory, of which so much was written before.
std::string Register(Words& words) {
  std::uint64_t& name = words.New();
  const std::size_t size = words.Size();
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, words.Size());
  name = reinterpret_cast<std::uint64_t>(memory);
  return ErrorName(cuMemHostRegister_v2(memory, size, 0));
}

// to-device NAME OFFSET PINNED SIZE STREAM, and to-host with the same words
std::string CopyBetween(Words& words, bool to_device) {
  const DevicePtr address = words.Value() + words.Size();
  void* host = words.Pointer();
  const std::size_t size = words.Size();
  const hocket::Stream stream = words.Stream();
  return ErrorName(to_device ? cuMemcpyHtoDAsync_v2(address, host, size, stream)
                             : cuMemcpyDtoHAsync_v2(host, address, size, stream));
}

std::string Forked(Words&) {
  int from_child[2];
  if (pipe(from_child) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    int count = 0, descriptors = 0;
    for (int fd = 3; fd < 256; ++fd) {
      char target[128] = {};
      if (readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), target, sizeof(target) - 1) > 0 &&
          std::strstr(target, "memfd:hocket") != nullptr) {
        ++descriptors;
      }
    }
    const std::string text =
        absl::StrCat(ErrorName(cuDeviceGetCount(&count)), " ", descriptors, " descriptors");
    (void)!write(from_child[1], text.data(), text.size());
    _exit(0);
  }
  char text[128] = {};
  waitpid(child, nullptr, 0);
  (void)!read(from_child[0], text, sizeof(text) - 1);
  return text;
}

std::string Launch(Words& words) {
  const hocket::Stream stream = words.Stream();
  const double microseconds = static_cast<double>(words.Number());
  const long long times = words.More() ? words.Number() : 1;
  for (long long i = 0; i < times; ++i) hocket_emulator_launch(stream, "kernel", microseconds);
  return "ok";
}

// churn TIMES: takes and gives back memory in every way there is.
std::string Churn(Words& words) {
  const AllocationProperties properties = OnDevice();
  DevicePtr range = 0;
  cuMemAddressReserve(&range, 8 << 20, 0, 0, 0);
  for (long long times = words.Number(), i = 0; i < times; ++i) {
    DevicePtr address = 0;
    MemoryHandle made = 0, imported = 0;
    int fd = -1;
    const Result allocated = cuMemAlloc_v2(&address, 1 << 20);
    const Result created = cuMemCreate(&made, 2 << 20, &properties, 0);
    if (created == kSuccess && cuMemExportToShareableHandle(&fd, made, kHandlePosixFd, 0) == kSuccess) {
      cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                     kHandlePosixFd);
      cuMemMap(range, 2 << 20, 0, imported, 0);
      cuMemRelease(made);
      cuMemUnmap(range, 2 << 20);
      cuMemRelease(imported);
      close(fd);
    }
    if (allocated == kSuccess) cuMemFree_v2(address);
  }
  return "ok";
}

std::string Crash(Words&) {
  const std::uint64_t nowhere = names["nowhere"] + 16;
  return absl::StrCat("ok ", static_cast<int>(*reinterpret_cast<const volatile char*>(nowhere)));
}

std::string Elapsed(Words& words) {
  float milliseconds = 0;
  const Event start = words.Event();
  const Result result = cuEventElapsedTime_v2(&milliseconds, start, words.Event());
  return absl::StrCat(ErrorName(result), " ", absl::StrFormat("%.3f", milliseconds));
}

std::atomic<int> marks = 0;
std::atomic<bool> let_go = false;

// end-capture STREAM NAME
std::string EndCapture(Words& words) {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  Result result = cuStreamEndCapture(words.Stream(), &graph);
  if (result == kSuccess) result = cuGraphInstantiateWithFlags(&exec, graph, 0);
  words.New() = reinterpret_cast<std::uint64_t>(exec);
  return ErrorName(result);
}

std::string LaunchGraph(Words& words) {
  const auto exec = reinterpret_cast<GraphExec>(words.Value());
  return ErrorName(cuGraphLaunch(exec, words.Stream()));
}

// A thread that waits for a stream while others are told something.
std::thread syncs;
Result synced = kSuccess;

std::string BeginToSync(Words& words) {
  Context context = nullptr;
  cuCtxGetCurrent(&context);
  syncs = std::thread([context, stream = words.Stream()] {
    cuCtxSetCurrent(context);
    synced = cuStreamSynchronize(stream);
  });
  return "ok";
}

std::string EndOfSync(Words&) {
  syncs.join();
  return ErrorName(synced);
}

using Verb = std::function<std::string(Words&)>;

const std::map<std::string, Verb>& Verbs() {
  static const auto& verbs = *new std::map<std::string, Verb>{
      {"device", [](Words& w) { return ErrorName(UseDevice(static_cast<int>(w.Number()))); }},
      {"used", Used},
      {"reserve",
       [](Words& w) {
         std::uint64_t& name = w.New();
         return ErrorName(cuMemAddressReserve(&name, w.Size(), 0, 0, 0));
       }},
      {"create", Create},
      {"create-on-host", CreateOnHost},
      {"host-access", AccessOfHost},
      {"release", [](Words& w) { return ErrorName(cuMemRelease(w.Value())); }},
      {"map", Map},
      {"access", Access},
      {"unmap",
       [](Words& w) {
         const DevicePtr address = w.Value() + w.Size();
         return ErrorName(cuMemUnmap(address, w.Size()));
       }},
      {"export", Export},
      {"import", Import},
      {"close", [](Words& w) { return close(static_cast<int>(w.Number())) == 0 ? "ok" : "not open"; }},
      {"alloc",
       [](Words& w) {
         std::uint64_t& name = w.New();
         return ErrorName(cuMemAlloc_v2(&name, w.Size()));
       }},
      {"free", [](Words& w) { return ErrorName(cuMemFree_v2(w.Value())); }},
      {"pinned", Pinned},
      {"register", Register},
      {"free-pinned", [](Words& w) { return ErrorName(cuMemFreeHost(w.Pointer())); }},
      {"to-device", [](Words& w) { return CopyBetween(w, true); }},
      {"to-host", [](Words& w) { return CopyBetween(w, false); }},
      {"fill", Fill},
      {"read", Read},
      {"stream", NewStream},
      {"destroy", [](Words& w) { return ErrorName(cuStreamDestroy_v2(w.Stream())); }},
      {"event", NewEvent},
      {"share-event", ShareEvent},
      {"open-event", OpenEvent},
      {"share-memory", ShareMemory},
      {"open-memory", OpenMemory},
      {"close-memory", [](Words& w) { return ErrorName(cuIpcCloseMemHandle(w.Value())); }},
      {"record",
       [](Words& w) {
         const Event event = w.Event();
         return ErrorName(cuEventRecord(event, w.Stream()));
       }},
      {"record-all",
       [](Words& w) {
         Context context = nullptr;
         cuCtxGetCurrent(&context);
         return ErrorName(cuCtxRecordEvent(context, w.Event()));
       }},
      {"wait",
       [](Words& w) {
         const hocket::Stream stream = w.Stream();
         return ErrorName(cuStreamWaitEvent(stream, w.Event(), 0));
       }},
      {"sync", [](Words& w) { return ErrorName(cuStreamSynchronize(w.Stream())); }},
      {"begin-to-sync", BeginToSync},
      {"end-of-sync", EndOfSync},
      {"sync-event", [](Words& w) { return ErrorName(cuEventSynchronize(w.Event())); }},
      {"query-event", [](Words& w) { return ErrorName(cuEventQuery(w.Event())); }},
      {"sync-all", [](Words&) { return ErrorName(cuCtxSynchronize()); }},
      {"kernel", Kernel},
      {"touch-in-kernel", TouchInKernel},
      {"touch",
       [](Words& w) {
         const auto* bytes = reinterpret_cast<const volatile char*>(w.Value() + w.Size());
         return absl::StrCat("ok ", static_cast<int>(*bytes));
       }},
      {"fork", Forked},
      {"churn", Churn},
      {"crash", Crash},
      {"fail-kernel",
       [](Words& w) {
         hocket_emulator_lose(static_cast<int>(w.Number()));
         return "ok";
       }},
      {"launch", Launch},
      {"elapsed", Elapsed},
      {"mark",
       [](Words& w) {
         return ErrorName(cuLaunchHostFunc(
             w.Stream(), [](void*) { ++marks; }, nullptr));
       }},
      {"hold",  // what follows on the stream waits for let-go
       [](Words& w) {
         let_go = false;
         return ErrorName(cuLaunchHostFunc(
             w.Stream(), [](void*) { let_go.wait(false); }, nullptr));
       }},
      {"let-go",
       [](Words&) {
         let_go = true;
         let_go.notify_all();
         return std::string("ok");
       }},
      {"marks", [](Words&) { return absl::StrCat("ok ", marks.load()); }},
      {"begin-capture",
       [](Words& w) { return ErrorName(cuStreamBeginCapture_v2(w.Stream(), kCaptureGlobal)); }},
      {"end-capture", EndCapture},
      {"launch-graph", LaunchGraph},
  };
  return verbs;
}

}  // namespace
}  // namespace hocket

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    hocket::Words words(line);
    const auto verb = hocket::Verbs().find(words.Word());
    const std::string answer = verb == hocket::Verbs().end() ? "no such word" : verb->second(words);
    std::cout << answer << std::endl;
  }
  return 0;
}
