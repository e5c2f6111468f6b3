#include "csrc/client/client_impl.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "csrc/base/cannot.h"
#include "csrc/base/status_macros.h"
#include "csrc/client/blocking.h"
#include "csrc/client/daemon_launcher.h"
#include "csrc/client/job_facts.h"
#include "csrc/client/process_end.h"

namespace hocket {
namespace {

// Of one that serves: others stand still until it gives its turn up. Longer than a program needs from one
// request to the next that waits already.
constexpr auto kServerIdleLimit = std::chrono::microseconds(200);

std::string ForceSpill() {
  const char* value = std::getenv("HOCKET_FORCE_SPILL");
  return value != nullptr ? value : "";
}

// The child keeps the number, so that nobody closes somebody else's file by it.
void PointAtNothing(int fd) {
  if (fd < 0) return;
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  dup3(null, fd, O_CLOEXEC);
  close(null);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Join(const JobOptions& options,
                                                     const std::string& device_uuid,
                                                     const std::string& device_name, Bytes capacity) {
  HOCKET_ASSIGN_OR_RETURN(wire::Join facts, JoinFor(options, device_uuid, device_name, capacity));
  const std::string forced = ForceSpill();
  ClientTuning tuning{.connect = ConnectOrStart,
                      .force_spill = forced == "1" || forced == "random",
                      .spill_at_random = forced == "random"};
  if (facts.serves) tuning.idle_limit = kServerIdleLimit;
  return ClientImpl::Join(std::move(facts), std::move(tuning));
}

absl::StatusOr<std::unique_ptr<ClientImpl>> ClientImpl::Join(wire::Join facts, ClientTuning tuning) {
  HOCKET_ASSIGN_OR_RETURN(wire::Channel channel, ConnectFirst(tuning));
  HOCKET_ASSIGN_OR_RETURN(wire::SharedPage page, wire::SharedPage::Create());
  std::unique_ptr<ClientImpl> client(new ClientImpl(std::move(facts), std::move(tuning), std::move(page)));
  if (!client->wake_ || !client->connection_.valid()) return Cannot("join", EMFILE);
  {
    MutexLock receiving(&client->receive_mutex_);
    MutexLock lock(&client->mutex_);
    client->SendJoin(std::move(channel), Holdings());
  }
  client->agent_ = std::make_unique<std::thread>([c = client.get()] { c->AgentMain(); });
  HOCKET_RETURN_IF_ERROR(client->AwaitJoined());
  RegisterClient(client.get());
  return client;
}

ClientImpl::ClientImpl(wire::Join facts, ClientTuning tuning, wire::SharedPage page)
    : tuning_(std::move(tuning)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      threads_([this](const ThreadRecord& gone) { ThreadHasEnded(gone); }),
      progress_(std::move(page)),
      facts_(std::move(facts)),
      reconnect_pause_(tuning_.retry_pause) {
  info_.device_name = facts_.device_name;
  if (tuning_.force_spill) word_.Ask(kSlow);
}

// On the thread that ends, away or in a step. As EndAway() and EndStep(), but it cannot wait: the agent gives
// the turn.
void ClientImpl::ThreadHasEnded(const ThreadRecord& gone) {
  if (gone.away) {
    MutexLock lock(&mutex_);
    --at_doors_.threads;
    if (gone.parked) --parked_;
    return;
  }
  if (CachingAllocator* allocator = allocator_.load(std::memory_order_acquire)) allocator->EndStep();
  progress_.StepEnded(/*begun=*/0, /*count=*/false);
  if (gone.guessed) guessed_.fetch_sub(1);
  (void)word_.End();
  MutexLock lock(&mutex_);
  ArmIdleCheck();
}

ClientImpl::~ClientImpl() {
  UnregisterClient(this);
  LeaveAtExit();
  StopAgent();
}

void ClientImpl::StopAgent() {
  if (!agent_) return;
  if (in_child_.load()) {
    (void)agent_.release();  // these threads do not exist here
    (void)parker_.release();
    return;
  }
  stop_.store(true, std::memory_order_release);
  Wake();
  agent_->join();
  agent_.reset();
  if (parker_) parker_->join();
}

// What was told of the arena already is made known to it first.
void ClientImpl::SetAllocator(CachingAllocator* allocator) {
  MutexLock receiving(&receive_mutex_);
  for (ArenaChange& change : std::exchange(arena_changes_, {}))
    MakeArenaChange(*allocator, std::move(change));
  TellArenaHeard();
  if (limit_) allocator->SetMemoryLimit(limit_->bytes, limit_->together);
  if (pace_.count() > 0) allocator->SetPace(pace_);
  allocator_.store(allocator, std::memory_order_release);
}

void ClientImpl::JoinGang(const std::string& gang, std::uint64_t rank, std::uint64_t size) {
  if (in_child_.load()) return;
  MutexLock lock(&mutex_);
  facts_.gang = gang;
  facts_.gang_rank = rank;
  facts_.gang_size = size;
  Tell(wire::Gang{.gang = gang, .rank = rank, .size = size});
}

JobInfo ClientImpl::Info() const {
  MutexLock lock(&mutex_);
  JobInfo info = info_;
  info.joined = info_.joined && !outside_;
  info.steps = progress_.steps();
  info.turns = progress_.turns();
  info.holds_turn = phase_ == Phase::kHeld && !outside_;
  return info;
}

// --- leaving --------------------------------------------------------------------------------------

// What was spilled comes back first: nobody will bring it back later.
void ClientImpl::Leave() {
  if (in_child_.load()) return;
  if (Held().spilled > 0) (void)WaitForTurn(/*step=*/false, /*interruptible=*/false);
  const Blocking blocking(threads_.Mine());
  LeaveNow(/*keeps_running=*/true, Clock::time_point::max());
}

void ClientImpl::LeaveAtExit() {
  if (!in_child_.load()) LeaveNow(/*keeps_running=*/false, Clock::now() + tuning_.exit_patience);
}

void ClientImpl::LeaveNow(bool keeps_running, Clock::time_point patience) {
  MutexLock lock(&mutex_);
  DropTurnTakenHere();
  while (!outside_ && (phase_ == Phase::kTaking || phase_ == Phase::kGiving || spilling_ || mapping_)) {
    // Nothing is lost: the kernel tells the coordinator when the process is gone.
    if (Clock::now() >= patience) return;
    if (patience == Clock::time_point::max()) {
      changed_.Wait(&mutex_);
    } else {
      changed_.WaitUntil(&mutex_, patience);
    }
  }
  if (outside_) return;
  spilling_ = true;  // nobody takes a turn from here on
  const bool free = phase_ != Phase::kHeld || GiveForGood();
  if (free) GoOutside(keeps_running);
  spilling_ = false;
  NotifyAll();
}

// Also while threads are in steps: their process takes no further part. False: what runs on the device
// cannot be waited for, so the turn stays.
bool ClientImpl::GiveForGood() {
  word_.ForceGive();
  phase_ = Phase::kGiving;
  bool drained;
  {
    const MutexUnlock unlock(&mutex_);
    CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire);
    drained = (allocator == nullptr || allocator->Drain().ok()) && FinishGiving(/*drain_ns=*/0);
  }
  if (!drained) AbortGive();
  return drained;
}

// REQUIRES: spilling_ is set, so that nobody takes a turn and nobody spills meanwhile.
void ClientImpl::GoOutside(bool keeps_running) {
  const Holdings held = HeldUnlocked();
  stranded_ = !keeps_running && held.spilled > 0;
  if (CachingAllocator* const allocator = allocator_.load(std::memory_order_acquire)) {
    const MutexUnlock unlock(&mutex_);
    allocator->LeaveArena();  // no block of this job lies there any more
  }
  outside_ = true;
  lane_.Release();  // it may have been taken without a coordinator
  phase_ = Phase::kNone;
  word_.BecomeOutside();
  stand_by_.reset();
  promise_.reset();
  Tell(wire::Leave{
      .keeps_running = keeps_running, .most_held = held.most_held, .most_transient = held.most_transient});
  connection_.AwaitReader(0, tuning_.exit_patience);  // what is queued goes with the process
  AnswerRoom(absl::ResourceExhaustedError("this job has left Hocket: nobody makes room for it"));
  stop_.store(true, std::memory_order_release);
  Wake();
}

// --- a forked child -------------------------------------------------------------------------------

void ClientImpl::AfterForkInChild() {
  in_child_.store(true);
  outside_ = true;
  allocator_.store(nullptr);
  waiters_.clear();
  stand_by_.reset();
  promise_.reset();
  awaited_.reset();
  room_.reset();  // nobody answers here
  threads_.Forget();
  threads_.Mine().away = false;
  at_doors_ = AtDoors();
  parked_ = helpers_at_work_ = 0;
  word_.BecomeOutside(threads_.Mine().depth > 0 ? 1 : 0);
  for (int fd : {lane_.fd(), wake_.get()}) PointAtNothing(fd);
  for (int fd : connection_.Descriptors()) PointAtNothing(fd);
  connection_.ForgetQueue();  // chunks of the arena: their memory would stay for as long as the child lives
  mutex_.Unlock();
}

}  // namespace hocket
