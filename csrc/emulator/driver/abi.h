// What the emulated driver answers with, beyond the part of the CUDA driver's interface that Hocket calls
// (allocator/cuda_abi.h). Numbers are the vendor's.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_ABI_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_ABI_H_

#include "allocator/cuda_abi.h"

// A function of libcuda.so.1, under the driver's own name.
#define HOCKET_DRIVER_API extern "C" __attribute__((visibility("default")))

struct CUgraph_st;
struct CUgraphExec_st;

namespace hocket::cuda {

using Graph = CUgraph_st*;
using GraphExec = CUgraphExec_st*;
using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream, Result, void*);

inline constexpr int kDriverVersion = 13000;

// X(name, number, the vendor's name, text)
#define HOCKET_DRIVER_ERRORS(X)                                                                        \
  X(kNotInitialized, 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error")                          \
  X(kDeinitialized, 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down")                             \
  X(kInvalidDevice, 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")                        \
  X(kInvalidContext, 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context")                      \
  X(kMapFailed, 205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed")                       \
  X(kInvalidHandle, 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle")                       \
  X(kIllegalState, 401, "CUDA_ERROR_ILLEGAL_STATE",                                                    \
    "the operation cannot be performed in the present state")                                          \
  X(kNotFound, 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found")                                  \
  X(kPrimaryContextActive, 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",                                   \
    "cannot set while device is active in this process")                                               \
  X(kHostAlreadyRegistered, 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",                          \
    "part or all of the requested memory range is already mapped")                                     \
  X(kHostNotRegistered, 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",                                  \
    "pointer does not correspond to a registered memory region")                                       \
  X(kNotPermitted, 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted")                         \
  X(kNotSupported, 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported")                         \
  X(kDriverMismatch, 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",                                         \
    "system has unsupported display driver / cuda driver combination")                                 \
  X(kCaptureUnsupported, 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",                                 \
    "operation not permitted when stream is capturing")                                                \
  X(kCaptureInvalidated, 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",                                 \
    "operation failed due to a previous error during capture")                                         \
  X(kCaptureMerge, 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",                                             \
    "operation would result in a merge of separate capture sequences")                                 \
  X(kCaptureUnmatched, 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",                                     \
    "capture was not ended in the same stream as it began")                                            \
  X(kCaptureUnjoined, 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work") \
  X(kCaptureIsolation, 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",                                     \
    "dependency created on uncaptured work in another stream")                                         \
  X(kCaptureImplicit, 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",                                       \
    "operation would make the legacy stream depend on a capturing blocking stream")                    \
  X(kCapturedEvent, 907, "CUDA_ERROR_CAPTURED_EVENT",                                                  \
    "operation not permitted on an event last recorded in a capturing stream")                         \
  X(kCaptureWrongThread, 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",                                \
    "attempt to terminate a thread-local capture sequence from another thread")                        \
  X(kUnknown, 999, "CUDA_ERROR_UNKNOWN", "unknown error")

#define HOCKET_DECLARE_ERROR(name, number, vendor_name, text) inline constexpr Result name = number;
HOCKET_DRIVER_ERRORS(HOCKET_DECLARE_ERROR)
#undef HOCKET_DECLARE_ERROR

inline constexpr unsigned kEventInterprocess = 4;
inline constexpr int kLocationHost = 2;  // any node
inline constexpr int kAccessNone = 0;
inline constexpr int kCaptureGlobal = 0;
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kCaptureStatusActive = 1;
inline constexpr int kCaptureStatusInvalidated = 2;

inline constexpr int kMemoryTypeHost = 1;
inline constexpr int kMemoryTypeDevice = 2;

// The two names of default streams that are no pointers.
inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;

// An interprocess handle: 64 opaque bytes.
struct IpcHandle {
  unsigned char bytes[64];
};

}  // namespace hocket::cuda

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_ABI_H_
