#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include "csrc/client/client_impl.h"
#include "tests/client/fake_allocator.h"
#include "tests/recorded/socket.h"
#include "tests/recorded/stages.h"

namespace hocket::recorded {
namespace {

absl::Status Checked(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  return status;
}

// A thread that does one thing after the other.
class Worker {
 public:
  Worker() : thread_([this] { Work(); }) {}
  ~Worker() {
    Post(nullptr);
    thread_.join();
  }
  void Post(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }
  // Until all is done; throws what one of them has thrown.
  void Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return work_.empty(); });
    if (!trouble_.empty()) throw std::runtime_error(trouble_);
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()> next = work_.front();
      if (next == nullptr) return;
      lock.unlock();
      std::string trouble;
      try {
        next();
      } catch (const std::exception& e) {
        trouble = e.what();
      }
      lock.lock();
      if (trouble_.empty()) trouble_ = trouble;
      work_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // the first is being done
  std::string trouble_;
  std::thread thread_;
};

class RealJob final : public Stage {
 public:
  // The lane's lock lies where the job works: recorded paths are relative.
  RealJob() : came_from_(std::filesystem::current_path()) {
    char folder[] = "/tmp/hocket-recorded-XXXXXX";
    folder_ = mkdtemp(folder);
    std::filesystem::current_path(folder_);
  }
  ~RealJob() override {
    peer_.Reset();
    worker_.reset();
    job_.reset();
    std::filesystem::current_path(came_from_);
    std::filesystem::remove_all(folder_);
  }

  void Say(int, const std::string& frame, Carries carries) override {
    SendFrame(peer_.get(), frame, carries, page_);
  }
  std::string Hear(int) override { return ReceiveFrame(peer_.get()); }

  void Do(int, const std::string& verb) override {
    static const std::map<std::string, void (RealJob::*)()> kVerbs = {
        {"join", &RealJob::Join},
        {"await", &RealJob::Await},
        {"begin step", &RealJob::Begin},
        {"end step", &RealJob::End},
        {"allocate", &RealJob::Allocate},
        {"join gang", &RealJob::JoinGang},
        {"leave", &RealJob::Leave},
        {"busy", &RealJob::Busy},
        {"idle", &RealJob::Idle},
        {"lack", &RealJob::Lack},
        {"lack no more", &RealJob::LackNoMore},
    };
    const auto found = kVerbs.find(verb);
    if (found == kVerbs.end()) throw std::runtime_error("there is no verb '" + verb + "' here");
    (this->*found->second)();
  }

 private:
  void Join() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    peer_ = UniqueFd(ends[1]);
    ClientTuning tuning;
    tuning.connect = [end = ends[0]] { return wire::Channel(UniqueFd(end)); };
    tuning.idle_limit = std::chrono::hours(1);
    worker_->Post([this, tuning] {
      auto job = ClientImpl::Join(wire::Join{.name = "job", .device = "gpu-0", .capacity = 1000}, tuning);
      Checked(job.status()).IgnoreError();
      job_ = *std::move(job);
      allocator_.gate = job_.get();
      job_->SetAllocator(&allocator_);
    });
  }
  void Await() { worker_->Await(); }
  void Begin() {
    worker_->Post([this] { Checked(job_->BeginStep()).IgnoreError(); });
  }
  void End() {
    worker_->Post([this] { job_->EndStep(true); });
  }
  void Allocate() {
    worker_->Post([this] { Checked(allocator_.Malloc(1, nullptr).status()).IgnoreError(); });
  }
  void JoinGang() {
    worker_->Post([this] { job_->JoinGang("ddp", 1, 2); });
  }
  void Leave() {
    worker_->Post([this] { job_->Leave(); });
  }
  void Busy() { allocator_.idle = false; }
  void Idle() { allocator_.idle = true; }
  void Lack() { allocator_.lacking = 10; }
  void LackNoMore() { allocator_.lacking = 0; }

  const std::filesystem::path came_from_;
  std::string folder_;
  wire::SharedPage page_ = wire::SharedPage::Create().value();
  UniqueFd peer_;
  FakeAllocator allocator_;
  std::unique_ptr<ClientImpl> job_;
  std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();
};

}  // namespace

std::unique_ptr<Stage> JobStage() { return std::make_unique<RealJob>(); }

}  // namespace hocket::recorded
