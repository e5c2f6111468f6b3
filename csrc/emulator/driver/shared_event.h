// An event that several processes know: how often it was recorded and how often that was reached, in the
// shared page. Waiting for it ends, too, when the process that recorded it is dead: its work is not going to
// be done any more.
#ifndef HOCKET_CSRC_EMULATOR_DRIVER_SHARED_EVENT_H_
#define HOCKET_CSRC_EMULATOR_DRIVER_SHARED_EVENT_H_

#include <memory>
#include <optional>

#include "csrc/emulator/driver/abi.h"
#include "csrc/emulator/driver/shared_state.h"
#include "csrc/emulator/driver/work_queue.h"

namespace hocket::emulator {

class SharedEvent final : public Progress {
 public:
  // nullptr when the table of interprocess events is full.
  static std::shared_ptr<SharedEvent> Create(SharedState& state);
  // The event another process made; nullptr when it is gone.
  static std::shared_ptr<SharedEvent> Open(SharedState& state, const cuda::IpcHandle& handle);
  ~SharedEvent() override;

  cuda::IpcHandle Handle() const;
  // The number of the record that begins now; Reached(number) is to follow.
  std::uint64_t BeginRecord();
  void Reached(std::uint64_t number);
  // Of the record begun last; 0: none was.
  std::uint64_t last() const;

  bool Done(std::uint64_t number) override;
  void Wait(std::uint64_t number) override;

  // Check mode: the recorder's process index and the last of its uses that lie before the record.
  void NoteUses(std::uint64_t use);
  int recorder() const;
  std::uint64_t last_use() const;

 private:
  SharedEvent(SharedState& state, int index, bool owned);
  SharedEventRecord& record() const { return state_.Event(index_); }
  bool Gone() const { return record().generation != generation_; }

  SharedState& state_;
  const int index_;
  const std::uint64_t generation_;
  const bool owned_;
};

}  // namespace hocket::emulator

#endif  // HOCKET_CSRC_EMULATOR_DRIVER_SHARED_EVENT_H_
