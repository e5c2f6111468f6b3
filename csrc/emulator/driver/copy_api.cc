// The driver's functions that copy and fill.
#include "csrc/emulator/driver/copies.h"

using hocket::DevicePtr;
using hocket::Stream;
using hocket::cuda::Context;
using hocket::cuda::Result;
using hocket::emulator::Copy;
using hocket::emulator::CopyAndWait;
using hocket::emulator::Fill;

namespace {

std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Result FillNow(DevicePtr to, std::uint32_t value, int width, std::size_t count) {
  HOCKET_ENTER();
  return Fill(to, value, width, count, nullptr);
}

Result FillLater(DevicePtr to, std::uint32_t value, int width, std::size_t count, Stream stream) {
  HOCKET_ENTER();
  return Fill(to, value, width, count, stream);
}

Result CopyNow(std::uint64_t to, std::uint64_t from, std::size_t size) {
  HOCKET_ENTER();
  return CopyAndWait(to, from, size);
}

Result CopyLater(std::uint64_t to, std::uint64_t from, std::size_t size, Stream stream) {
  HOCKET_ENTER();
  return Copy(to, from, size, stream);
}

}  // namespace

HOCKET_DRIVER_API Result cuMemcpy(DevicePtr to, DevicePtr from, std::size_t size) {
  return CopyNow(to, from, size);
}
HOCKET_DRIVER_API Result cuMemcpyHtoD_v2(DevicePtr to, const void* from, std::size_t size) {
  return CopyNow(to, Address(from), size);
}
HOCKET_DRIVER_API Result cuMemcpyDtoH_v2(void* to, DevicePtr from, std::size_t size) {
  return CopyNow(Address(to), from, size);
}
// As on a GPU, the host does not wait for a copy within the device.
HOCKET_DRIVER_API Result cuMemcpyDtoD_v2(DevicePtr to, DevicePtr from, std::size_t size) {
  return CopyLater(to, from, size, nullptr);
}
HOCKET_DRIVER_API Result cuMemcpyPeer(DevicePtr to, Context, DevicePtr from, Context, std::size_t size) {
  return CopyLater(to, from, size, nullptr);
}

HOCKET_DRIVER_API Result cuMemcpyAsync(DevicePtr to, DevicePtr from, std::size_t size, Stream stream) {
  return CopyLater(to, from, size, stream);
}
HOCKET_DRIVER_API Result cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, std::size_t size,
                                              Stream stream) {
  return CopyLater(to, Address(from), size, stream);
}
HOCKET_DRIVER_API Result cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, std::size_t size, Stream stream) {
  return CopyLater(Address(to), from, size, stream);
}
HOCKET_DRIVER_API Result cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, std::size_t size, Stream stream) {
  return CopyLater(to, from, size, stream);
}
HOCKET_DRIVER_API Result cuMemcpyPeerAsync(DevicePtr to, Context, DevicePtr from, Context, std::size_t size,
                                           Stream stream) {
  return CopyLater(to, from, size, stream);
}

HOCKET_DRIVER_API Result cuMemsetD8_v2(DevicePtr to, unsigned char value, std::size_t count) {
  return FillNow(to, value, 1, count);
}
HOCKET_DRIVER_API Result cuMemsetD16_v2(DevicePtr to, unsigned short value, std::size_t count) {
  return FillNow(to, value, 2, count);
}
HOCKET_DRIVER_API Result cuMemsetD32_v2(DevicePtr to, unsigned value, std::size_t count) {
  return FillNow(to, value, 4, count);
}
HOCKET_DRIVER_API Result cuMemsetD8Async(DevicePtr to, unsigned char value, std::size_t count,
                                         Stream stream) {
  return FillLater(to, value, 1, count, stream);
}
HOCKET_DRIVER_API Result cuMemsetD16Async(DevicePtr to, unsigned short value, std::size_t count,
                                          Stream stream) {
  return FillLater(to, value, 2, count, stream);
}
HOCKET_DRIVER_API Result cuMemsetD32Async(DevicePtr to, unsigned value, std::size_t count, Stream stream) {
  return FillLater(to, value, 4, count, stream);
}
