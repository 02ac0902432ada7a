#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/tensor_view.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/config/config.h"
#include "core/negotiate/messages/request.h"
#include "core/observe/observer.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/runtime/arena.h"
#include "core/runtime/callback_queue.h"
#include "core/runtime/handle.h"
#include "core/runtime/notifier.h"
#include "core/runtime/process_set.h"
#include "core/runtime/submission.h"
#include "core/system/process.h"

namespace hvd::engine {

class Coordinator;

// One rank of a job: owns the ports and the coordinator that serves them. A process may hold
// several (that is how tests get ranks). Among others a rank has a thread for the coordinator. One
// alone can do at once whatever is submitted, so those who submit run it, and host tensors are done
// when submit() returns, until something has to wait: work of a device, a transfer whose other end
// is to come. From then on it is as others are.
class Runtime {
 public:
  Runtime(std::unique_ptr<ControlPlane> control,
          std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
          ObserverList observers = {});
  // Shuts down.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Topology& topology() const noexcept { return topology_; }

  // Any thread; never waits for another rank. Throws InvalidArgumentError on a name that is already
  // in flight, a tensor that does not fit its request, a process set that is not there, does not
  // have this rank or was joined by it; and the reason once the job has stopped. Adding a process
  // set and removing one are submissions of the whole world.
  Handle submit(Submission submission);
  // All or none of them are submitted.
  std::vector<Handle> submit(std::vector<Submission> submissions);
  // The same into as many handles as there are submissions, which are moved from.
  void submit(std::span<Submission> submissions, std::span<Handle> handles);

  // Sends or receives one tensor; ranks and errors as above. Transfers between two ranks with one
  // tag pair up in order. The handle fails with MismatchError when the two ends differ in dtype or
  // size, and with StalledError when the other end does not come within the stall limit.
  Handle submit(PointToPoint transfer);

  // Communication memory for allreduces in place, on `device`; collective in the process set, under
  // one name, size and kind of device. From the handle's wait() on submissions find out by
  // themselves what lies in it. Errors as above; wait() throws MismatchError on all ranks when
  // their sizes differ. Not every backend has one: Arena::shared(). What lies in it when the job
  // has stopped may be overwritten by ranks that do not know it yet.
  ArenaHandle make_arena(const std::string& name, std::size_t bytes, ProcessSetId set = kWorldSet,
                         Device device = {});

  // The process sets that are there. Any thread, like all that follows.
  const SetRegistry& sets() const;
  // How often submit() was called, by any thread: whether the job was used meanwhile.
  std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

  // For Handle::then: calls what follows the end of a submission.
  const std::shared_ptr<CallbackQueue>& callbacks() const;
  // Takes the callbacks of the program.
  Notifier& notifier() const;
  // Throws AbortedError in a forked child, as all of this does.
  Coordinator& coordinator() const;

  // Leaves in order: what is complete on all ranks still runs, the rest fails with AbortedError.
  // Idempotent; returns when this rank may go. When the InterruptibleWaits of the thread end, the
  // others are told so; it throws after that. Any thread.
  void shutdown();
  // Why the job stopped; ok while it runs.
  Status stopped() const;
  // Whether the job ended other than in order, however this rank learned of it: others may be gone,
  // or hang.
  bool ended_in_error() const;

 private:
  void start_thread() HVD_REQUIRES(turn_);
  void submitted() noexcept;
  void check_fits(const Submission& submission) const;
  void check_fits(const PointToPoint& transfer) const;
  bool serves(DeviceKind device) const;
  void leave();

  const Topology topology_;
  const std::uint32_t generation_ = fork_generation();
  std::vector<DeviceKind> devices_;
  const std::shared_ptr<ArenaRegistry> arenas_ = std::make_shared<ArenaRegistry>();
  std::shared_ptr<Coordinator> coordinator_;  // which runs by itself if its thread is stuck
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> abandoned_{false};
  Mutex turn_;  // of those who run a coordinator that has no thread
  std::atomic<bool> has_thread_{false};
  std::thread thread_;
};

}  // namespace hvd::engine
