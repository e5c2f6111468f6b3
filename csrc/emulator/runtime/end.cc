// How a Python process on the emulated GPU ends: by what its program did, as on Python 3.14 and later.
//
// Before that, Python ends a thread that asks for its lock while the interpreter ends by pthread_exit(),
// which unwinds the thread's stack; in a destructor of PyTorch's (autograd's threads drop tensors at any
// time) that aborts the process. It does so on a GPU, too, now and then; there it is Hocket's affair
// (docs/decisions/0037), here it would spoil whatever is compared with plain PyTorch. This library is
// preloaded, so the interpreter's call comes here: the thread stands still until the process is gone.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

namespace {

// The interpreter's own word, under its name since Python 3.13 or the one before; no Python: false.
bool InterpreterEnds() {
  void* ends = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
  if (ends == nullptr) ends = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
  return ends != nullptr && reinterpret_cast<int (*)()>(ends)() != 0;
}

}  // namespace

extern "C" __attribute__((visibility("default"), noreturn)) void pthread_exit(void* result) {
  while (InterpreterEnds()) pause();
  reinterpret_cast<void (*)(void*)>(dlsym(RTLD_NEXT, "pthread_exit"))(result);
  __builtin_unreachable();
}
