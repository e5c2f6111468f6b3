// Frames as they lie in a socket, without a codec between.
#ifndef HOCKET_TESTS_RECORDED_SOCKET_H_
#define HOCKET_TESTS_RECORDED_SOCKET_H_

#include <string>

#include "csrc/wire/shared_page.h"
#include "tests/recorded/recording.h"

namespace hocket::recorded {

// Throws std::runtime_error where it cannot be sent.
void SendFrame(int socket, const std::string& frame, Carries carries, const wire::SharedPage& page);

// Blocks, at most 20 s. Throws std::runtime_error at the end of the connection. A descriptor is closed.
std::string ReceiveFrame(int socket);

}  // namespace hocket::recorded

#endif  // HOCKET_TESTS_RECORDED_SOCKET_H_
