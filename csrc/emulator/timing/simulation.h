// What one process's streams do as time passes: who runs on which engine, what ends when, what that frees.
//
// A stream is a queue of items. An item starts when the one before it has ended and the items of other
// streams that it waits for have, too. A mark takes no time; timed work (a kernel, a copy) needs `duration`
// of an engine; a host function ends when its caller says so. Engines serve one item of this process at a
// time, the one that became ready first.
//
//        Submit            Settle                     Advance: its share of the engine's time received
//   --> (queued) --+--> (granted) --> (started) ------------------------------------------------> ended
//                  |                      ^
//                  +--- wait ended -------+
//
// Granted means: counted as submitted on the device's timeline. An item is granted as soon as all that it
// waits for is granted on the same engine or has ended: so long as any of it is unreceived the engine has
// something of ours to do, and the shared timeline needs one number per process and not one entry per kernel.
// What waits for something else (a kernel behind a copy) is granted when that ends, at the modelled time.
//
// Pure: no clock, no lock, no thread. Times come in; the timelines' transactions are handed in. The
// caller has one lock around it all. Streams' `last` and `completed` may be read without it.
#ifndef HOCKET_CSRC_EMULATOR_TIMING_SIMULATION_H_
#define HOCKET_CSRC_EMULATOR_TIMING_SIMULATION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "csrc/emulator/timing/timeline.h"

namespace hocket::emulator::timing {

inline constexpr int kMaxDevices = 16;

class Stream;

// Item number `number` of a stream, and all before it.
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t number = 0;

  bool Ended() const;
};

struct Work {
  enum class Kind { kMark, kTimed, kHost };

  Kind kind = Kind::kMark;
  Engine engine = Engine::kCompute;  // kTimed
  Nanos duration = 0;                // kTimed; at least one nanosecond
  // kHost: the function. Else called when the item has been found to have ended, with the modelled time of
  // that, under the engine's lock: it must not call the engine, nor take a lock under which one does.
  std::function<void(Nanos ended)> action;
  // The action must come in time although nobody in this process asks: others see what it does.
  bool prompt = false;
  // What must have ended first, besides the item before it.
  std::vector<Point> after;
};

// The timelines of the devices that this process uses, locked, as one transaction.
class Devices {
 public:
  using Timelines = std::array<std::unique_ptr<DeviceTimeline>, kMaxDevices>;
  // A bit per device.
  using Set = std::uint32_t;

  Devices(const Timelines& timelines, Set used);
  // Commits what was changed.
  ~Devices();

  const Transaction& operator[](int device) const { return *transactions_[device]; }
  Transaction& Change(int device);
  // True while others have work on any of them.
  bool Contended() const;

 private:
  const Set used_;
  Set changed_ = 0;
  std::array<std::optional<Transaction>, kMaxDevices> transactions_;
};

class Stream {
 public:
  explicit Stream(int device) : device_(device) {}

  int device() const { return device_; }
  // The number of the item submitted last; 0: none was.
  std::uint64_t last() const { return last_.load(std::memory_order_acquire); }
  // The number of the item known to have ended last.
  std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }

 private:
  friend class Simulation;

  struct Extra {
    std::function<void(Nanos)> action;
    std::vector<Point> after;
  };
  struct Item {
    Nanos duration;
    Nanos submitted_at;
    std::uint64_t order;  // of submission, over all streams
    Work::Kind kind;
    Engine engine;
    bool prompt;
    std::unique_ptr<Extra> extra;  // most kernels have none
  };

  bool empty() const { return items_.empty(); }
  std::uint64_t granted_until() const { return completed() + granted_; }

  const int device_;
  std::atomic<std::uint64_t> last_ = 0;
  std::atomic<std::uint64_t> completed_ = 0;
  std::deque<Item> items_;                                  // the first is number completed + 1
  std::size_t granted_ = 0;                                 // so many of them, all on engine_
  Engine engine_ = Engine::kCompute;                        // of the granted ones
  bool started_ = false;                                    // the first item has
  std::vector<std::pair<std::uint64_t, Stream*>> waiting_;  // who waits for which number
  std::deque<std::uint64_t> prompt_;                        // numbers of prompt items
  std::size_t place_ = 0;                                   // among the active streams
};

inline bool Point::Ended() const { return stream->completed() >= number; }

class Simulation {
 public:
  // True where work can be submitted at a time up to which nothing was advanced: nothing waits for what
  // might have ended since.
  bool Simple(const Stream& stream, const Work& work) const;
  // REQUIRES: Simple(), or Advance()d to `now`.
  std::uint64_t Submit(Devices& devices, const std::shared_ptr<Stream>& stream, Work work, Nanos now);
  // Ends, in order, all that has ended by `now`.
  void Advance(Devices& devices, Nanos now);

  // A host function that is due now, started; nullopt: none is. End it with EndHost().
  struct HostCall {
    std::shared_ptr<Stream> stream;
    std::function<void(Nanos)> function;
  };
  std::optional<HostCall> TakeHost();
  bool HostDue() const { return !hosts_.empty(); }
  // REQUIRES: Advance()d to `now`.
  void EndHost(Devices& devices, Stream& stream, Nanos now);

  // The item cannot have ended before that: exact where no other stream and no other process gets in its
  // way. kNever: not before a host function that runs has ended. REQUIRES: Advance()d to `now`.
  Nanos EarliestEnd(const Devices& devices, const Stream& stream, std::uint64_t number, Nanos now) const;
  // Nothing happens before that which others must see or which makes work ready. kNever: nothing will.
  Nanos NextByItself(const Devices& devices, Nanos now) const;

  bool idle() const { return active_.empty(); }
  // True while host functions or prompt items are queued.
  bool has_duties() const { return duties_ > 0; }
  // True while NextByItself() has something to say.
  bool needs_attention() const { return duties_ > 0 || ungranted_ > 0; }

  // Drops all that is queued; it counts as ended, and its actions do not happen.
  void Clear();

  // Aborts, naming the first invariant that does not hold. REQUIRES: Advance()d.
  void CheckInvariants(const Devices& devices) const;

 private:
  struct Ready {
    Nanos since;
    std::uint64_t order;
    Stream* stream;
  };
  struct Lane {
    std::deque<Ready> ready;  // the first is being served
    Nanos finished = 0;       // what the items that ended have received, in all
  };
  struct NextEnd {
    int device = 0;
    Engine engine = Engine::kCompute;
    Nanos at = kNever;
  };

  Lane& LaneOf(int device, Engine engine) { return lanes_[device][static_cast<int>(engine)]; }
  const Lane& LaneOf(int device, Engine engine) const { return lanes_[device][static_cast<int>(engine)]; }
  void Push(const std::shared_ptr<Stream>& stream, Work work, Nanos now);
  void Activate(const std::shared_ptr<Stream>& stream);
  void Deactivate(Stream& stream);
  // Grants and starts what can be, from `stream` on, at `at`.
  void Settle(Devices& devices, Stream& stream, Nanos at);
  void Grant(Devices& devices, Stream& stream, Nanos at);
  // The engine on which the first item not yet granted can be; nullopt: on none yet.
  std::optional<Engine> GrantableOn(const Stream& stream) const;
  void NotifyGranted(Stream& stream);
  // True where the first item has ended at once.
  bool StartFirst(Stream& stream, Nanos at);
  void MakeReady(Stream& stream, Nanos at);
  void EndFirst(Stream& stream, Nanos at);
  NextEnd FindNextEnd(const Devices& devices) const;
  Nanos EarliestStart(const Devices& devices, const Stream& stream, Nanos now) const;
  Nanos GrantedEnd(const Devices& devices, const Stream& stream, std::uint64_t number) const;

  // Keeps serving_ true to the lane.
  void MarkServing(int device, Engine engine);

  std::array<std::array<Lane, kEngines>, kMaxDevices> lanes_;
  std::uint64_t serving_ = 0;                    // a bit for each lane where something is ready
  std::vector<std::shared_ptr<Stream>> active_;  // those with items
  std::deque<Stream*> hosts_;                    // whose first item is a host function that is due
  std::vector<Stream*> unsettled_;
  std::vector<std::shared_ptr<Stream>> spent_;  // without items, alive until all is settled
  std::uint64_t submitted_ = 0;
  std::size_t ungranted_ = 0;
  std::size_t duties_ = 0;
};

}  // namespace hocket::emulator::timing

#endif  // HOCKET_CSRC_EMULATOR_TIMING_SIMULATION_H_
