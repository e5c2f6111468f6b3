// The client's name for the lock that all rooms share.
#ifndef HOCKET_CSRC_CLIENT_MUTEX_H_
#define HOCKET_CSRC_CLIENT_MUTEX_H_

#include "csrc/base/mutex.h"

#endif  // HOCKET_CSRC_CLIENT_MUTEX_H_
