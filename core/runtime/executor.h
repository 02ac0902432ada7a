#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/rank_protocol.h"
#include "core/runtime/batch.h"
#include "core/runtime/collective.h"
#include "core/runtime/completion_thread.h"
#include "core/runtime/doorbell.h"
#include "core/runtime/observers.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// Runs the batches of the log: starts their operations in log order, keeps several running, polls
// them, and ends the handles. Used by one thread; never waits for another rank or a device.
class Executor {
 public:
  // The arguments outlive the executor.
  Executor(std::span<const std::unique_ptr<Collective>> collectives, Topology topology,
           TensorTable& table, Observers& observers, Doorbell& bell);

  // Takes the next batch of the log. After a failure batches are dropped: the job is about to stop.
  void run(RunBatch plan);
  // Does what can be done now; true if anything moved.
  bool advance();
  // The next batch that is finished on this rank.
  std::optional<std::uint64_t> next_finished();
  // Batches that are not finished, those waiting for a device included.
  bool busy() const { return unfinished_ != 0; }
  // What kept a batch from finishing on this rank; ok if nothing did.
  const Status& failure() const { return failure_; }
  // Ends what is running; afterwards the ports no longer touch the caller's memory. Waits for
  // asynchronous devices, at most a second. Only run() may not be called after it.
  void abort() noexcept;

 private:
  Collective& collective_for(DeviceKind device) const;
  bool start_waiting();
  bool poll_running();
  bool take_ended();
  void finished_here(std::unique_ptr<Batch> batch);
  void finish_handles(Batch& batch);
  void count_finished(const Batch& batch);
  void fail(const Status& why);

  std::span<const std::unique_ptr<Collective>> collectives_;
  Topology topology_;
  TensorTable& table_;
  Observers& observers_;
  Status failure_;
  std::size_t unfinished_ = 0;
  std::deque<std::unique_ptr<Batch>> waiting_;   // not all of its operations started; log order
  std::vector<std::unique_ptr<Batch>> running_;  // log order
  std::deque<std::uint64_t> finished_;
  CompletionThread completion_;  // last: its thread uses the table
};

}  // namespace hvd
