#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/rank_protocol.h"
#include "core/observe/observers.h"
#include "core/ports/collective.h"
#include "core/ports/doorbell.h"
#include "core/runtime/batch.h"
#include "core/runtime/completion_thread.h"
#include "core/runtime/process_set.h"
#include "core/runtime/retired_resources.h"
#include "core/runtime/tensor_table.h"

namespace hvd::engine {

// Runs the batches of the log: starts their operations in log order, keeps several running, polls
// them, and ends the handles. Host batches of different process sets do not wait for each other.
// Used by one thread; never waits for another rank or a device.
class Executor {
 public:
  // `world` are the collectives of all ranks, one per device. The arguments outlive the executor.
  // `orders`: where devices have it, handles tell what they are behind before the device is there.
  Executor(std::span<const std::unique_ptr<Collective>> world, Rank rank, TensorTable& table,
           Observers& observers, Doorbell& bell, bool orders = true);

  // This rank is in the set: makes its collectives. All of its ranks call this at the same place of
  // the log. Throws Error; the set has none of them then.
  void add_set(const ProcessSetPtr& set);
  // Nothing of the set follows; its collectives go once its batches are finished.
  void remove_set(ProcessSetId id);

  // Of a submission that alone is in flight: shows the others already what this rank brings to it,
  // where that spares them a wait.
  void show_early(const InFlight& entry);
  // The submission failed, and is in no batch.
  void hide_early(Ticket ticket) noexcept;

  // Takes the next batch of the log. After a failure batches are dropped: the job is about to stop.
  void run(RunBatch plan);
  // Does what can be done now; true if anything moved.
  bool advance(TimePoint now);
  // The next batch that is finished on this rank.
  std::optional<RunBatch> next_finished();
  // Batches that are not finished, those waiting for a device included.
  bool busy() const { return unfinished_ != 0; }
  bool busy(ProcessSetId set) const;
  // Those, for reports; of them those of which all is enqueued on an asynchronous device.
  std::vector<UnfinishedBatch> unfinished() const;
  std::vector<UnfinishedBatch> on_devices() const;
  // What kept a batch from finishing on this rank; ok if nothing did.
  const Status& failure() const { return failure_; }
  // Ends what is running; nothing is run any more. Afterwards the ports no longer touch the
  // members' memory, or that is kept with what does. Waits for asynchronous devices, at most a
  // second.
  void fail(const Status& why) noexcept;

 private:
  using PortKey = std::pair<ProcessSetId, DeviceKind>;
  using BatchPtr = std::unique_ptr<Batch>;

  // Where the batches of one process set and device move.
  struct Port {
    Collective* collective = nullptr;
    ProcessSetPtr set;
    Rank position = 0;                  // of this rank in the set
    std::unique_ptr<Collective> owned;  // of all sets but the world
    std::size_t unfinished = 0;         // batches
    bool removed = false;
    ScratchMemory scratch;
  };

  static PortKey lane_of(const FusionKey& key);
  void add_port(const ProcessSetPtr& set, Collective& collective);
  Port& port_for(const FusionKey& key);
  bool start_waiting(std::deque<BatchPtr>& lane);
  bool poll_running();
  bool take_ended();
  void retire(CompletionThread::Ended ended);
  void progress(TimePoint now);
  void finished_here(BatchPtr batch);
  void order_handles(Batch& batch, const Fence& past);
  void finish_handles(Batch& batch);
  void count_finished(BatchPtr batch);
  void let_go(BatchPtr batch) noexcept;

  std::span<const std::unique_ptr<Collective>> world_;
  const Rank rank_;
  TensorTable& table_;
  Observers& observers_;
  const bool orders_;
  Status failure_;
  std::size_t unfinished_ = 0;
  struct Shown {
    Ticket ticket = 0;
    PortKey port;
  } shown_;                        // last, by show_early()
  std::map<PortKey, Port> ports_;  // before the batches, which use them
  // Batches not all of whose operations are started, in log order: see lane_of().
  std::map<PortKey, std::deque<BatchPtr>> waiting_;
  std::vector<BatchPtr> running_;         // log order
  std::vector<const Batch*> on_devices_;  // in completion_
  std::deque<RunBatch> finished_;
  RetiredResources retired_;
  CompletionThread completion_;  // last: its thread uses the table
};

}  // namespace hvd::engine
