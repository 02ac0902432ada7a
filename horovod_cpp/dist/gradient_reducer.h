#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/dist/allreduce_call.h"
#include "horovod_cpp/dist/distributed_optimizer.h"
#include "horovod_cpp/dist/gradient_views.h"

namespace hvd {

// The gradients of some parameters on their way through the ranks: hears of them from backward(),
// starts their reductions, gives them back. The state machine behind DistributedOptimizer, whose
// header tells the rules. One thread.
class GradientReducer {
 public:
  // `parameters` have unique names, equal on all ranks. `options` are checked. Members of
  // options.groups must be among the parameters, and no parameter with an owner of another class
  // (InvalidArgumentError). `owner`: the class that reduces. UnsupportedError: see expect_served().
  GradientReducer(const NamedTensors& parameters, const DistributedOptions& options,
                  std::string owner = "DistributedOptimizer");
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Closes all windows, waits, and puts the reduced gradients where they were. `on_reduced` hears
  // of parameters as soon as theirs are, until something fails; not of those that were before.
  using OnReduced = std::function<void(const std::vector<Tensor>& params)>;
  void synchronize(const OnReduced& on_reduced = {});
  // Name of a parameter whose gradient is in flight; empty if none is.
  std::string in_flight() const;
  // The passes that were made since do not count: their gradients were dropped.
  void drop_accumulated();
  // Gradients may have changed: the next synchronize() reduces again.
  void begin_step() { synchronized_ = false; }

  void hold() { ++holds_; }  // backward() only accumulates until release()
  void release() { --holds_; }
  void set_backward_passes_per_step(int passes) { passes_per_window_ = passes; }
  int backward_passes_per_step() const { return passes_per_window_; }

 private:
  struct Entry {
    std::string name;
    Tensor param;
    int passes = 0;        // backward passes in the open window
    Tensor reduced;        // sum of the windows that ended since the last synchronize()
    Tensor residual;       // what int8 lost
    Tensor view;           // in the arena; undefined: the gradient lies anywhere
    bool by_rows = false;  // it travels as rows, in a bucket of its own
    std::vector<RowGradient> reduced_rows;  // `reduced` of such a gradient
    std::shared_ptr<TensorCompressor> compressor;
    std::function<void()> remove_hook;
  };
  // What is reduced together.
  struct Bucket {
    std::string name;
    std::string call_name;  // of this reducer's alone
    std::shared_ptr<const CallLabels> labels;
    std::vector<Entry*> entries;
    bool started = false;                // a reduction, since the last synchronize()
    std::uint64_t order = 0;             // of the last one, among all
    std::vector<Tensor> gradients;       // in flight
    std::optional<RowGradient> rows;     // in flight, where the gradient travels as rows
    std::shared_ptr<CallInFlight> call;  // null: none
    std::exception_ptr refusal;          // why there is none; told by the next synchronize() too
  };
  using EntryGroups = std::vector<std::vector<Entry*>>;

  // Throws InvalidArgumentError when another class reduces one of them: each would take the
  // gradient away from the other.
  void check_owners(const NamedTensors& parameters) const;
  // Throws UnsupportedError when the job does not serve the memory of one of them.
  void check_devices(const NamedTensors& parameters) const;
  void make_entries(const NamedTensors& parameters);
  EntryGroups divide_entries() const;
  EntryGroups given_groups(const std::vector<Entry*>& all) const;
  EntryGroups groups_by_size(const std::vector<Entry*>& all) const;
  EntryGroups equal_groups(const std::vector<Entry*>& all) const;
  void add_bucket(std::vector<Entry*> entries);

  void on_gradient(Entry& entry, Bucket& bucket);
  // Takes the gradients of its open windows from the parameters. They wait to be submitted.
  void start(Bucket& bucket);
  // Submits what waits when it is enough, or else when backward() ends.
  void submit_soon();
  std::size_t bytes_to_come() const;
  void submit_waiting();
  void submit(Bucket& bucket);
  // Waits until nothing of it is in flight.
  void finish(Bucket& bucket);
  // Lets calls of several rounds go on.
  void drive();
  Tensor take_gradient(Entry& entry);
  // gradient_rows.cc: the same steps for a gradient that travels as rows.
  std::optional<RowGradient> take_rows(Entry& entry);
  void start_rows(Bucket& bucket);
  void finish_rows(Bucket& bucket);
  // Takes the next bucket from those that are left, which are in order of their start: the last,
  // which ends after the others as a rule, so that this thread waits once; with `overtake` the
  // first whose call is over.
  std::size_t next_finished(const std::vector<Bucket*>& left, bool overtake) const;
  // Puts the reduced gradients of a bucket that is finished where they were.
  void give_back(Bucket& bucket);
  void move_into_arena();
  void clip(ClipGradNorm::When when);

  const DistributedOptions options_;
  const std::string owner_;
  const bool reduces_;  // over more ranks than this one
  std::string suffix_;  // behind the names of its calls: another one may reduce equal names
  int passes_per_window_;
  int holds_ = 0;
  bool synchronized_ = false;
  std::uint64_t starts_ = 0;
  GradientViews views_;
  std::vector<std::unique_ptr<Entry>> entries_;  // in parameter order
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Bucket*> waiting_;  // started, but not submitted yet
  std::size_t waiting_bytes_ = 0;
  TimePoint backward_ended_{};  // with something to submit
  bool waits_at_once_ = false;  // synchronize() followed at once
  std::vector<std::shared_ptr<CallInFlight>> driven_;
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace hvd
