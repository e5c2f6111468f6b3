// For C++ programs that train with LibTorch; link Hocket::hocket.
//
//   hocket::Job job("resnet");                       // before the first CUDA call
//   for (auto& batch : *loader) {
//     auto step = job.Step();                        // waits for the turn
//     ...                                            // forward, backward, optimizer
//   }                                                // the step ends here
#ifndef HOCKET_CSRC_CLIENT_JOB_H_
#define HOCKET_CSRC_CLIENT_JOB_H_

#include <string>
#include <utility>

#include "csrc/client/job_options.h"

namespace hocket {

// The training job of this process. Installs Hocket's allocator as PyTorch's current CUDA allocator, so it
// must be made before CUDA starts in this process; throws std::runtime_error, saying what to do, otherwise.
// HOCKET_ALLOCATOR=native keeps PyTorch's own, over memory that Hocket moves, and then CUDA may have started;
// HOCKET_ALLOCATOR=off only takes turns. There is one job in a process: making a second Job throws too. When
// it dies, the job leaves.
class __attribute__((visibility("default"))) Job {
 public:
  explicit Job(const std::string& name) : Job(JobOptions{.name = name}) {}
  explicit Job(const JobOptions& options);
  Job(const Job&) = delete;
  ~Job();

  // A step lasts as long as this object.
  class __attribute__((visibility("default"))) Scope {
   public:
    Scope(Scope&& other) noexcept : open_(std::exchange(other.open_, false)) {}
    ~Scope();

   private:
    friend class Job;
    Scope() = default;

    bool open_ = true;
  };

  // Waits for the turn and begins a step. Throws std::runtime_error where the turn can never come.
  [[nodiscard]] Scope Step();

  JobInfo Info() const;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_JOB_H_
