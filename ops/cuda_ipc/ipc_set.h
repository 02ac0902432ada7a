#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/ports/collective.h"
#include "ops/cuda/stream.h"
#include "ops/cuda_ipc/ipc_links.h"
#include "ops/cuda_ipc/ipc_work.h"

namespace hvd::engine {

// Whether a collective or the one it is a subset of was aborted. Any thread.
class IpcAbort {
 public:
  explicit IpcAbort(std::shared_ptr<const IpcAbort> parent = nullptr)
      : parent_(std::move(parent)) {}
  void set() noexcept { aborted_ = true; }
  bool is_set() const noexcept { return aborted_ || (parent_ != nullptr && parent_->is_set()); }

 private:
  std::shared_ptr<const IpcAbort> parent_;
  std::atomic<bool> aborted_ = false;
};

// The operations of one set of ranks, one after another in the order of add(), which is equal on
// all ranks. Time is divided into phases: at the end of one every rank records an event behind what
// it enqueued, they tell each other so, and each lets its stream wait for the events of the others.
// So what a rank enqueues in a phase runs after what any rank enqueued in the phases before, and
// the hosts are ahead of their devices. What a step packs in phase p, into chunk p % 3, is not read
// after phase p + 2.
//
// The event of phase p is recorded again in phase p + kIpcEvents, when this rank's device has
// passed that of p + 2: then it has passed its wait for the others' events of p + 1, which stand
// behind their waits for this one. So no stream ever waits for an event that is recorded meanwhile,
// and the host is at most kIpcEvents - 2 phases ahead. Streams only wait for what was enqueued
// earlier, so they cannot wait for each other in a circle, whatever else runs on them.
//
// Used by the coordinator; polled, nothing waits.
class IpcSet {
 public:
  // `work`, or what does the same by way of the host.
  struct Call {
    std::unique_ptr<IpcWork> work;  // empty: always by way of the host
    std::function<std::unique_ptr<Operation>()> staged;
    std::vector<Fence> ready;  // foreign fences that come first
    OperationStats stats;
    std::unique_ptr<Operation> instead;  // what `staged` made; has memory the device still uses
    bool over = false;                   // enqueued
  };

  // `handshakes` has the ranks of this set and serves nothing else. `limit`: for how long a device
  // may stay that far behind; zero = forever. `refused`:
  // called on the lowest rank with the reason why the ranks cannot share memory.
  IpcSet(const IpcPlace& place, const IpcLimits& limits, Duration limit,
         std::unique_ptr<Collective> handshakes, std::shared_ptr<const IpcAbort> abort,
         std::function<void(const std::string&)> refused);
  ~IpcSet();

  void add(std::shared_ptr<Call> call) { calls_.push_back(std::move(call)); }
  // Does what can be done for `call` and those before it; true when it is over. Throws what its
  // operation failed with; a set that failed stays so.
  bool advance(Call& call);
  // How soon to look again; empty = only when rung.
  std::optional<Duration> poll_interval() const;
  std::unique_ptr<Collective> subset_of_handshakes(std::uint32_t number,
                                                   std::span<const Rank> ranks) {
    return handshakes_->subset(number, ranks);
  }
  void progress(TimePoint now) { handshakes_->progress(now); }
  // Any thread; `abort` has been set.
  void abort() noexcept { handshakes_->abort(); }

  // What other ranks have to know the end of.
  struct Remains {
    std::unique_ptr<Collective> handshakes;
    std::unique_ptr<IpcConnection> connection;
    std::unique_ptr<IpcLinks> links;
    bool usable = false;  // nothing failed or was interrupted
  };
  // The set is not used any more, except for the destruction of its calls.
  Remains end();

 private:
  // Where the first call stands.
  struct Progress {
    std::uint64_t begin = 0;                    // the set's phase in which it began
    std::optional<std::uint64_t> steps = {};    // of all ranks, known after the first phase
    bool enqueued = false;                      // what belongs to the current phase
    std::optional<TimePoint> waits_since = {};  // for the device
  };

  void pump();
  bool connected();
  bool run(Call& call);
  bool is_last_phase(const IpcWork& work) const;
  void enqueue_phase(IpcWork& work);
  bool try_end_phase(const IpcWork& work);
  bool device_kept_up();

  const IpcPlace place_;
  const IpcLimits limits_;
  const Duration limit_;
  const std::shared_ptr<const IpcAbort> abort_;
  const std::function<void(const std::string&)> refused_;
  std::unique_ptr<Collective> handshakes_;
  std::unique_ptr<IpcConnection> connection_;  // while it is made
  std::unique_ptr<IpcLinks> links_;
  bool decided_ = false;  // whether there are links
  std::deque<std::shared_ptr<Call>> calls_;
  std::uint64_t phase_ = 0;
  Progress progress_;
  std::int64_t my_steps_ = 0;
  std::vector<std::int64_t> all_steps_;
  std::unique_ptr<Operation> handshake_;  // the end of the current phase
  std::exception_ptr failure_;
};

}  // namespace hvd::engine
