// The whole of Hocket for a C++ program: #include <hocket.h>, link Hocket::hocket.
#ifndef HOCKET_HOCKET_H_
#define HOCKET_HOCKET_H_

#include "csrc/client/job.h"

#endif  // HOCKET_HOCKET_H_
