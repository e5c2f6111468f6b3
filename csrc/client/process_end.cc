#include "csrc/client/process_end.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "csrc/client/client_impl.h"
#include "csrc/client/mutex.h"

namespace hocket {
namespace {

struct Clients {
  Mutex mutex;
  std::vector<ClientImpl*> all;  // guarded by mutex; locked from before a fork until after it
};

// Never destroyed: the handlers below run late.
Clients& TheClients() {
  static Clients* const clients = new Clients;
  return *clients;
}

void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  TheClients().mutex.Lock();
  for (ClientImpl* client : TheClients().all) client->BeforeFork();
}

void AfterForkInParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (ClientImpl* client : TheClients().all) client->AfterForkInParent();
  TheClients().mutex.Unlock();
}

void AfterForkInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (ClientImpl* client : TheClients().all) client->AfterForkInChild();
  TheClients().mutex.Unlock();
}

bool InstallHandlers() {
  pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  std::atexit(LeaveAtExit);
  return true;
}

}  // namespace

void RegisterClient(ClientImpl* client) {
  static const bool installed = InstallHandlers();
  (void)installed;
  MutexLock lock(&TheClients().mutex);
  TheClients().all.push_back(client);
}

void UnregisterClient(ClientImpl* client) {
  MutexLock lock(&TheClients().mutex);
  std::erase(TheClients().all, client);
}

void LeaveAtExit() {
  std::vector<ClientImpl*> all;
  {
    MutexLock lock(&TheClients().mutex);
    all = TheClients().all;
  }
  for (ClientImpl* client : all) client->LeaveAtExit();
}

}  // namespace hocket
