// A thread that is known to sleep.
#ifndef HOCKET_TESTS_CLIENT_SLEEPING_THREAD_H_
#define HOCKET_TESTS_CLIENT_SLEEPING_THREAD_H_

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

namespace hocket {

// Blocks until the thread has said who it is (gettid(); 0: not yet), and sleeps.
inline void AwaitsSleep(const std::atomic<int>& tid) {
  for (std::string state; state != "S"; std::this_thread::yield()) {
    std::ifstream stat("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::string number, name;
    state.clear();
    stat >> number >> name >> state;
  }
}

}  // namespace hocket

#endif  // HOCKET_TESTS_CLIENT_SLEEPING_THREAD_H_
