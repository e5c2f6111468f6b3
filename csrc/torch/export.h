// What libhocket.so shows to others; everything else in it is hidden.
#ifndef HOCKET_CSRC_TORCH_EXPORT_H_
#define HOCKET_CSRC_TORCH_EXPORT_H_

#define HOCKET_EXPORT __attribute__((visibility("default")))

#endif  // HOCKET_CSRC_TORCH_EXPORT_H_
