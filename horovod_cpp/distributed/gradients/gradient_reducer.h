#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"
#include "horovod_cpp/distributed/gradients/gradient_buckets.h"
#include "horovod_cpp/distributed/gradients/gradient_views.h"
#include "horovod_cpp/distributed/gradients/setup_agreement.h"

namespace hvd {

// The gradients of some parameters on their way through the ranks: hears of them from backward(),
// starts their reductions, gives them back. The state machine behind every DistributedOptimizer,
// whose header tells the rules: front ends differ in GradientAccess alone. One thread.
class GradientReducer {
 public:
  // `options` are checked, but for their groups: `groups` has numbers of parameters. `owner`: the
  // class that reduces, for messages. UnsupportedError: see expect_served().
  GradientReducer(std::shared_ptr<GradientAccess> gradients, const DistributedOptions& options,
                  const GradientBuckets& groups = {}, std::string owner = "DistributedOptimizer");
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // False where there is nothing to do between backward() and the wrapped optimizer: over one rank,
  // without options that do something on each. A front end need not tell of gradients then.
  static bool has_work(const DistributedOptions& options);

  // What a front end's hooks call. Before backward() writes a gradient that stays where it is while
  // it is reduced; waits if it is.
  void before_gradient(std::size_t index);
  // backward() has finished a gradient.
  void on_gradient(std::size_t index);

  // Parameters were appended to the front end's; on all ranks, between two steps.
  void parameters_added();

  // Closes all windows, waits, and gives the reduced gradients back; does nothing if no backward()
  // nor begin_step() was since. `on_reduced` hears of parameters as soon as theirs are, until
  // something fails. After an interruption (Ctrl-C) all is as before, and another call waits for
  // the same.
  using OnReduced = std::function<void(GradientAccess::Indices params)>;
  void synchronize(const OnReduced& on_reduced = {});
  bool synchronized() const { return synchronized_; }
  // Waits for what was started, and starts nothing.
  void finish_in_flight();
  // Of this reducer alone in its process set, equal on all ranks.
  std::string name() const { return owner_ + suffix_; }
  // Under which the buckets are reduced, in order.
  std::vector<std::string> call_names() const;
  // Name of a bucket that is in flight; empty if none is.
  std::string in_flight() const;
  // The passes that were made since do not count: their gradients were dropped.
  void drop_accumulated();
  // Gradients may have changed: the next synchronize() reduces again.
  void begin_step() { synchronized_ = false; }
  // Collective, once, and after a join() with the ranks that had not taken a step before: that the
  // set-up is the same everywhere. See SetupAgreement.
  void agree_on_setup();

  void hold() { ++holds_; }  // backward() only accumulates until release()
  void release() { --holds_; }
  int backward_passes_per_step() const { return passes_per_window_; }
  // Collective: else the ranks would add up gradients of other passes.
  // Throws MismatchError on every rank, and changes nothing, if the ranks give different numbers.
  void set_backward_passes_per_step(int passes);

 private:
  struct Entry {
    int passes = 0;       // backward passes in the open window
    bool trained = true;  // when last looked at
    std::size_t bucket = 0;
    Tensor residual;  // what int8 lost
    std::shared_ptr<TensorCompressor> compressor;
  };
  // What is reduced together.
  struct Bucket {
    std::string name;
    std::string call_name;  // of this reducer's alone
    std::shared_ptr<const CallLabels> labels;
    std::vector<std::size_t> params;
    bool started = false;     // a reduction, since the last synchronize()
    bool given_back = false;  // by a synchronize() that has not ended
    std::uint64_t order = 0;  // of the last start, among all
    GradientAccess::Taken taken;
    bool in_flight = false;              // taken, and neither given back nor set aside
    std::shared_ptr<CallInFlight> call;  // of the dense ones
    std::vector<std::shared_ptr<CallInFlight>> sparse_calls;
    std::exception_ptr refusal;  // why there is no call; told by the next synchronize() too
  };

  void add_buckets(const GradientBuckets& buckets);
  bool is_full(const Bucket& bucket) const;
  bool has_open_window(const Bucket& bucket) const;
  // Takes the gradients of its open windows. They wait to be submitted.
  void start(Bucket& bucket);
  void start_sparse(Bucket& bucket);
  // Submits what waits when it is enough, or else when backward() ends.
  void submit_soon();
  std::size_t bytes_to_come() const;
  void submit_waiting();
  void submit(Bucket& bucket);
  // Waits until nothing of it is in flight; throws only if the wait is interrupted.
  void wait_for(const Bucket& bucket) const;
  // What is not in flight any more; throws what the reduction failed with.
  void finish(Bucket& bucket);
  void set_aside(Bucket& bucket);
  // Lets calls of several rounds go on.
  void drive();
  // Takes the next bucket from those that are left, which are in order of their start: the last,
  // which ends after the others as a rule, so that this thread waits once; with `overtake` the
  // first whose call is over.
  std::size_t next_finished(const std::vector<Bucket*>& left, bool overtake) const;
  void agree_on_layout();
  void ask_ahead();
  SetupAgreement::Setup setup() const;
  std::vector<std::int64_t> layout() const;
  std::uint64_t joins() const;
  void look_who_is_trained();
  void ask_for_views();
  void move_into_views();
  void clip(ClipGradNorm::When when);

  const std::shared_ptr<GradientAccess> gradients_;
  const DistributedOptions options_;
  const std::string owner_;
  const bool shares_;   // there are more ranks than this one
  const bool reduces_;  // over them, rather than combine what a step changed
  const bool clips_;
  const bool active_;   // has_work()
  std::string suffix_;  // behind the names of its calls: another one may reduce equal names
  std::optional<SetupAgreement> agreement_;
  std::optional<std::uint64_t> agreed_setup_, agreed_layout_;  // joins there were by then
  bool is_first_step_ = true;
  int passes_per_window_;
  int holds_ = 0;
  bool synchronized_ = false;
  bool clipped_before_ = false;  // in this synchronize()
  std::uint64_t starts_ = 0;
  bool wants_views_ = false;
  std::optional<GradientViews> views_;  // asked for, and not taken yet
  std::vector<std::size_t> viewed_;
  std::vector<Entry> entries_;  // as the parameters are numbered
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Bucket*> waiting_;  // started, but not submitted yet
  std::size_t waiting_bytes_ = 0;
  TimePoint backward_ended_{};  // with something to submit
  bool waits_at_once_ = false;  // synchronize() followed at once
  std::vector<std::shared_ptr<CallInFlight>> driven_;
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace hvd
