// For C++ programs that train with LibTorch; link Hocket::hocket.
//
//   hocket::Job job("resnet");                       // before the first CUDA call
//   for (auto& batch : *loader) {
//     auto step = job.Step();                        // waits for the turn
//     ...                                            // forward, backward, optimizer
//   }                                                // the step ends here
#ifndef HOCKET_CSRC_CLIENT_JOB_H_
#define HOCKET_CSRC_CLIENT_JOB_H_

#include <memory>
#include <string>

#include "csrc/client/client.h"

namespace hocket {

// One training job of this process. Installs Hocket's allocator as PyTorch's current CUDA allocator, so it
// must be made before CUDA starts in this process; throws std::runtime_error, saying what to do, otherwise.
class __attribute__((visibility("default"))) Job {
 public:
  explicit Job(const std::string& name) : Job(JobOptions{.name = name}) {}
  explicit Job(const JobOptions& options);
  ~Job();

  // A step lasts as long as this object.
  class __attribute__((visibility("default"))) Scope {
   public:
    explicit Scope(Client* client);
    Scope(Scope&& other) noexcept : client_(std::exchange(other.client_, nullptr)) {}
    ~Scope();

   private:
    Client* client_;
  };

  // Waits for the turn and begins a step.
  [[nodiscard]] Scope Step();

  JobInfo Info() const;
};

}  // namespace hocket

#endif  // HOCKET_CSRC_CLIENT_JOB_H_
