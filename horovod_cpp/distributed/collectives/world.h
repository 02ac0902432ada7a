#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/config/config.h"
#include "core/observe/observability.h"
#include "core/runtime/runtime.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "ops/connect/gpu_assignments.h"

namespace hvd {

struct WorldOptions {
  // DistributedOptimizer groups parameters, in order, up to this many bytes, and sends gradients
  // during backward() once this many bytes wait; 0 = each on its own as soon as it is there.
  std::size_t bucket_bytes = Config{}.fusion_threshold;
  // Whether ranks compare their parameters at the first step of an optimizer, and now and then.
  bool check_parameters = true;
  // What follows if options of their optimizers differ: "0", "warn" or "error".
  std::string check_options = "warn";
  // Whether MPI granted MPI_THREAD_MULTIPLE; empty = this job does without MPI.
  std::optional<bool> mpi_threads = {};
  std::function<void(bool in_error)> ended = {};  // as Ports has it
  // Whose observers the Runtime has; null = none.
  std::shared_ptr<engine::Observability> observability = nullptr;
  // What serves tensors of GPUs; empty = nothing does.
  std::optional<engine::RankGpu> gpu = {};
};

// The ranks of a job. The functions of this folder use the World that init() made, through their
// ProcessSet; a test makes several in one process. Held by a shared_ptr. Any thread.
class World : public std::enable_shared_from_this<World> {
 public:
  explicit World(std::unique_ptr<engine::Runtime> runtime, WorldOptions options = {})
      : options_(std::move(options)), runtime_(std::move(runtime)) {}

  const Topology& topology() const noexcept { return runtime_->topology(); }
  const WorldOptions& options() const noexcept { return options_; }
  engine::Runtime& runtime() noexcept { return *runtime_; }

  // See process_set.h.
  ProcessSet global_process_set();
  ProcessSet process_set(ProcessSetId id);
  std::vector<ProcessSetId> process_set_ids() const;
  // Callers that add sets from several threads, in no common order, give `name`s that pair calls.
  ProcessSet add_process_set(std::vector<Rank> ranks, const std::string& name = "");
  bool remove_process_set(const ProcessSet& set);

  // Unnamed calls so far of one kind in one set: equal on all ranks that call in the same order.
  std::uint64_t count_unnamed(CollectiveKind kind, ProcessSetId set);
  // That call was not made after all. Without effect if others have been counted since.
  void uncount_unnamed(CollectiveKind kind, ProcessSetId set, std::uint64_t number);
  // This rank joined the set: ranks that ran out of data early made fewer calls, so that all count
  // from 0 again.
  void restart_unnamed(ProcessSetId set);
  // How often that was: ranks agree again on what those that had joined missed.
  std::uint64_t joins(ProcessSetId set);

  // For what makes calls again and again, such as an optimizer: what it appends to the names of
  // its calls, so that they never meet those of another one of its kind. Nothing for the first one
  // in this set, then " (optimizer 2)" and so on; equal on ranks that ask equally often.
  std::string unique_suffix(const std::string& kind, ProcessSetId set);

  // Whether this was not asked before: for what is worth saying once. Of very many texts only the
  // first ones are.
  bool is_first_of(const std::string& text);

  // Leaves the job in order. Idempotent.
  void shutdown() { runtime_->shutdown(); }
  // Why the job stopped; ok while it runs.
  Status stopped() const { return runtime_->stopped(); }

 private:
  std::string failures_of(ProcessSetId id);

  const WorldOptions options_;
  std::unique_ptr<engine::Runtime> runtime_;  // after what observes it
  Mutex mutex_;
  std::once_flag global_made_;  // when it is first asked for
  std::optional<ProcessSet> global_;
  std::map<std::pair<CollectiveKind, ProcessSetId>, std::uint64_t> unnamed_ HVD_GUARDED_BY(mutex_);
  std::map<ProcessSetId, std::uint64_t> joins_ HVD_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, ProcessSetId>, std::uint64_t> kinds_ HVD_GUARDED_BY(mutex_);
  std::set<std::string> told_ HVD_GUARDED_BY(mutex_);
};

// The ranks behind the functions of this folder: those of init()'s job. Throws InvalidArgumentError
// before init(). The pointer keeps the engine alive while a call uses it, even if another thread
// shuts down.
std::shared_ptr<World> world();
// Null before init() and after shutdown().
std::shared_ptr<World> world_if_any();
// For init() and shutdown(): what world() returns from now on. Returns what it returned before.
std::shared_ptr<World> exchange_world(std::shared_ptr<World> next);

}  // namespace hvd
