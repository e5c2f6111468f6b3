// Clients of this process, for what happens to the whole process: a fork, and its end.
#ifndef HOCKET_CSRC_CLIENT_PROCESS_END_H_
#define HOCKET_CSRC_CLIENT_PROCESS_END_H_

namespace hocket {

class ClientImpl;

// From Register() to Unregister(): a forked child's copy is cut off (ClientImpl::AfterForkInChild), and a
// process that ends leaves (ClientImpl::LeaveAtExit).
void RegisterClient(ClientImpl* client);
void UnregisterClient(ClientImpl* client);

// All of them leave, as at the end of the process (which does it again, for those that came later).
void LeaveAtExit();

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_PROCESS_END_H_
