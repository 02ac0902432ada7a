#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/tensor_view.h"
#include "core/base/topology.h"
#include "core/config/config.h"
#include "core/negotiate/decision.h"
#include "core/negotiate/messages/request.h"
#include "core/observe/observer.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/ports/fence.h"
#include "core/runtime/arena.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"

namespace hvd {

// One rank of a job: owns the ports and the coordinator that serves them. A process may hold
// several (that is how tests get ranks). A world of one rank has no thread, and host tensors are
// done when submit() returns, until something has to wait: work of a device, a transfer whose other
// end is to come. From then on it is as others are.
class Runtime {
 public:
  Runtime(std::unique_ptr<ControlPlane> control,
          std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
          ObserverList observers = {});
  // Shuts down.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Topology& topology() const noexcept;

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

  // The ranks of a process set, ascending. Throws InvalidArgumentError on a set that is not, or no
  // longer, there. Any thread, like all that follows.
  std::vector<Rank> ranks_of(ProcessSetId set) const;
  std::vector<ProcessSetId> process_set_ids() const;  // ascending; 0 is the world
  // Why this rank could not make what it needs for a set that was added: no memory, or too many
  // sets. Ok if it could, or is not in it. The job goes on; the ranks should remove the set.
  Status failure_of(ProcessSetId set) const;

  // How often submit() was called, by whomever: whether somebody used the job meanwhile.
  std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

  // Rank 0 is about to work for up to `wait` without submitting: until then nobody is blamed for
  // waiting for it. Without effect on other ranks.
  void expect_wait_for_root(Duration wait);
  // Rank 0: what is decided from soon on is done under the changed settings. `change` gets those of
  // now, on the coordinator thread: it must not throw, wait or call the Runtime. Throws
  // InvalidArgumentError on other ranks.
  void change_settings(std::function<void(NegotiationSettings&)> change);

  // `where` says where this rank's program is ("train.py:12"), for reports of stalls; called on a
  // thread of its own, and may take locks that the program holds while it waits: an answer that
  // does not come is done without.
  void set_location_callback(std::function<std::string()> where);
  // `report` gets every stall warning, besides the log; on the same thread.
  void on_stall(std::function<void(const std::string&)> report);

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
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace hvd
