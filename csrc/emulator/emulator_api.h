// What the emulated GPU's own pieces say to each other; nobody outside csrc/emulator includes this.
//
// The emulated driver (libcuda.so.1) exports these beside the driver's own functions. The emulated
// runtime and the operators call them. C linkage, so that the pieces need not share a C++ runtime.
//
// A device address is PROT_NONE to the host. The bytes are reached through an alias: the same memory,
// mapped a second time at address + hocket_emulator_alias_offset().
#ifndef HOCKET_CSRC_EMULATOR_EMULATOR_API_H_
#define HOCKET_CSRC_EMULATOR_EMULATOR_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A CUstream / cudaStream_t; NULL is the legacy default stream of the current device.
typedef void* HocketEmulatorStream;

// A machine has so many emulated devices at most.
enum { HOCKET_EMULATOR_MAX_DEVICES = 16 };

// Bytes that a kernel reads (write == 0) or writes. `address` may be a device or a host address.
typedef struct {
  uint64_t address;
  uint64_t bytes;
  int write;
} HocketEmulatorRange;

// 1 where kernels compute nothing and take modelled time (timing mode), 0 in values mode.
int hocket_emulator_is_timing(void);

// Added to a device address it gives the address at which the process may touch the bytes.
ptrdiff_t hocket_emulator_alias_offset(void);

// 1 if `address` lies in the device address window.
int hocket_emulator_is_device_address(uint64_t address);

// Values mode. A kernel is about to run on the calling thread in place of `stream`: waits until
// everything queued on the stream before it is done, then (check mode) verifies and records the uses.
// A range on unmapped memory ends the process with the kernel and the address named.
void hocket_emulator_begin_kernel(HocketEmulatorStream stream, const char* name,
                                  const HocketEmulatorRange* ranges, size_t count);
// The same where all ranges at device addresses lie in device memory that they may use, and stay there for
// the time being: 1. Otherwise no kernel has begun: 0. On a GPU an operator allocates its results before it
// launches anything, and the allocator may see to it, then, that its arguments are on the device.
int hocket_emulator_begin_resident_kernel(HocketEmulatorStream stream, const char* name,
                                          const HocketEmulatorRange* ranges, size_t count);
// The kernel begun last on this thread has finished. `late` uses (fresh outputs) may be recorded here.
void hocket_emulator_end_kernel(HocketEmulatorStream stream, const HocketEmulatorRange* ranges, size_t count);

// Stream capture (values mode). While a stream captures, a device computes nothing; here an operator must
// run once all the same, so that its results have sizes. What kernels overwrite on a capturing stream is
// therefore put back when the capture ends. Kernels begun on this thread between begin and end of a recording
// become one node of the graph: launching the graph calls `compute(data)` on the launching thread (0: done;
// anything else fails the launch, and the callee has said why), `drop(data)` when the graph is gone. With
// compute == NULL nothing becomes a node. A kernel outside a recording makes a graph that cannot be launched.
// 1 while any stream of the process captures: one load.
int hocket_emulator_any_capture(void);
// 1 while `stream` captures.
int hocket_emulator_is_capturing(HocketEmulatorStream stream);
void hocket_emulator_begin_recording(void);
void hocket_emulator_end_recording(HocketEmulatorStream stream, const char* name,
                                   const HocketEmulatorRange* ranges, size_t count, int (*compute)(void*),
                                   void* data, void (*drop)(void*));

// Timing mode. Queues `microseconds` of device time on `stream`; returns at once.
void hocket_emulator_launch(HocketEmulatorStream stream, const char* name, double microseconds);

// Timing mode. Between begin and end kernels launched on this thread take no time: they are parts of one
// operator, which is one piece of work on `stream`. `of` is a timing::OperatorClass; the rest is what
// timing::KernelWork says (timing/kernel_work.h). A zero `bytes` and `operations`: it turned out to be
// nothing, and takes no time. Operators nest: the outermost counts.
void hocket_emulator_begin_operator(void);
void hocket_emulator_end_operator(HocketEmulatorStream stream, const char* name, int of, int element,
                                  double operations, double bytes);

// A kernel of this process has failed with `error` (a CUresult): from now on what works on a device answers
// that error, until the process has ended.
void hocket_emulator_lose(int error);
// That error; 0: no kernel has failed.
int hocket_emulator_lost(void);

// Ends the process the way a lost device does in this emulator: message to stderr, then SIGABRT.
void hocket_emulator_fatal(const char* message);

#ifdef __cplusplus
}
#endif

#endif  // HOCKET_CSRC_EMULATOR_EMULATOR_API_H_
