#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "horovod_cpp/distributed/gradients/attempts.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"
#include "horovod_cpp/distributed/gradients/gradient_buckets.h"
#include "horovod_cpp/distributed/gradients/gradient_claims.h"
#include "horovod_cpp/distributed/gradients/gradient_views.h"
#include "horovod_cpp/distributed/gradients/reduction_schedule.h"
#include "horovod_cpp/distributed/gradients/setup_agreement.h"

namespace hvd {

// The gradients of some parameters on their way through the ranks: hears of them from backward(),
// starts their reductions, gives them back. It serves every DistributedOptimizer and
// DistributedDataParallel; front ends differ in GradientAccess alone. When what is reduced, and why
// all ranks agree on that: ReductionSchedule. One thread.
class GradientReducer {
 public:
  // `options` are checked, but for their groups: `groups` has numbers of parameters. `owner`: the
  // class that reduces, for messages. UnsupportedError: see expect_served().
  GradientReducer(std::shared_ptr<GradientAccess> gradients, const DistributedOptions& options,
                  const GradientBuckets& groups = {}, std::string owner = "DistributedOptimizer");
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // False where there is nothing to do between backward() and the wrapped optimizer: over one rank,
  // without options that do something on each. A front end need not tell of gradients then.
  static bool has_work(const DistributedOptions& options);

  // What a front end's hooks call: before backward() adds to a gradient, and after it has.
  void before_gradient(std::size_t index);
  void on_gradient(std::size_t index);

  // Parameters were appended to the front end's; on all ranks, between two steps.
  void parameters_added();

  // Collective. Reduces what has not been since begin_step(), waits, and gives the gradients back.
  // `on_reduced` hears of parameters as soon as theirs are, until something fails. After an
  // interruption (Ctrl-C) all is as before, and another call waits for the same.
  using OnReduced = std::function<void(GradientAccess::Indices params)>;
  void synchronize(const OnReduced& on_reduced = {});
  // Whether gradients are reduced, and none has come since.
  bool synchronized() const { return schedule_.reduced() && !schedule_.first_late(); }
  // Name of a parameter whose gradient has come after synchronize(); empty if none has.
  std::string late() const;
  // Of this reducer alone in its process set, equal on all ranks.
  std::string name() const { return owner_ + suffix_; }
  // Under which the buckets are reduced, in order.
  std::vector<std::string> call_names() const;
  // Name of a bucket that is in flight; empty if none is.
  std::string in_flight() const;
  // The passes that were made since do not count: their gradients were dropped.
  void drop_accumulated();
  // What comes belongs to another step, which reduces all gradients.
  void begin_step();
  // Collective, once, and after a join() with the ranks that had not taken a step before: that the
  // set-up is the same everywhere. See SetupAgreement.
  void agree_on_setup();

  // backward() only accumulates until release(), and leaves gradients to older reducers of the same
  // parameters, if there are any.
  void hold();
  void release() { schedule_.release(); }
  bool held() const { return schedule_.held(); }
  const std::string& owner() const { return owner_; }
  int backward_passes_per_step() const { return schedule_.passes_per_window(); }
  // Collective: else some ranks would wait for passes that others do not make.
  // Throws MismatchError on every rank, and changes nothing, if the ranks give different numbers.
  void set_backward_passes_per_step(int passes);

 private:
  struct Entry {
    std::shared_ptr<GradientClaims> claims;
    bool has_windows = false;  // closed ones, apart from the gradient
    Tensor residual;           // what int8 lost
    std::shared_ptr<TensorCompressor> compressor;
  };
  // Gradients that travel together, from take() until they are given back.
  struct Reduction {
    std::string name;
    std::string call_name;  // of this reducer's alone
    std::shared_ptr<const CallLabels> labels;
    std::vector<std::size_t> params;
    std::uint64_t order = 0;  // of the last start, among all
    GradientAccess::Taken taken = {};
    bool in_flight = false;
    std::shared_ptr<CallInFlight> call = {};  // of the dense ones
    std::vector<std::shared_ptr<CallInFlight>> sparse_calls = {};
    std::exception_ptr refusal = {};  // why there is no call; told by the next synchronize() too
  };

  void add_buckets(const GradientBuckets& buckets);
  bool is_newest(std::size_t index) const;
  void check_not_replaced() const;
  std::unique_ptr<Reduction> reduction_of(std::vector<std::size_t> params,
                                          const std::string& round) const;
  void average(std::size_t index);
  void start_first_round(std::size_t bucket);
  // Takes the gradients of `params`. They wait to be submitted.
  void start(Reduction& reduction, GradientAccess::Indices params);
  void start_sparse(Reduction& reduction);
  // Submits what waits when it is enough, or else when backward() ends.
  void submit_soon();
  std::size_t bytes_to_come() const;
  void submit_waiting();
  void submit(Reduction& reduction);
  // Waits until nothing of it is in flight; throws only if the wait is interrupted.
  void wait_for(const Reduction& reduction) const;
  // What is not in flight any more; throws what the reduction failed with.
  void finish(Reduction& reduction);
  // Lets calls of several rounds go on.
  void drive();
  // Takes the next one from those that are left, which are in order of their start: the last, which
  // ends after the others as a rule, so that this thread waits once; with `overtake` the first
  // whose call is over.
  std::size_t next_finished(const std::vector<Reduction*>& left, bool overtake) const;
  // What all ranks say of their parameters, see ReductionSchedule.
  void ask_votes();
  const std::vector<std::uint8_t>& votes();
  void finish_first_round(const OnReduced& on_reduced);
  void late_round(const OnReduced& on_reduced);
  void start_late_round(const std::vector<std::size_t>& late);
  void compare_options();
  void give_back(const std::vector<std::size_t>& params, const OnReduced& on_reduced);
  void agree_on_layout();
  void ask_ahead();
  SetupAgreement::Setup setup() const;
  std::vector<std::int64_t> layout() const;
  std::uint64_t joins() const;
  void ask_for_views();
  void move_into_views();
  bool clips(ClipGradNorm::When when) const;

  const std::shared_ptr<GradientAccess> gradients_;
  const DistributedOptions options_;
  const std::string owner_;
  const bool shares_;   // there are more ranks than this one
  const bool reduces_;  // over them, rather than combine what a step changed
  const bool active_;   // has_work()
  std::string suffix_;  // behind the names of its calls: another one may reduce equal names
  ReductionSchedule schedule_;
  std::optional<SetupAgreement> agreement_;
  std::optional<std::uint64_t> agreed_setup_, agreed_layout_;  // joins there were by then
  bool is_first_step_ = true;
  bool compares_options_;
  std::uint64_t starts_ = 0;
  bool wants_views_ = false;
  std::optional<GradientViews> views_;  // asked for, and not taken yet
  std::vector<std::size_t> viewed_;
  std::vector<std::int64_t> agreed_axes_;  // over which gradients are sparse
  std::vector<Entry> entries_;             // as the parameters are numbered
  std::vector<std::unique_ptr<Reduction>> buckets_;
  bool is_given_way_ = false;  // by newer reducers of its parameters, in this step
  // Of a synchronize() that goes on, also after an interruption:
  bool clipped_before_ = false;
  std::optional<std::vector<std::uint8_t>> votes_;
  bool new_sparse_ = false;  // on any rank
  bool options_differ_ = false;
  std::vector<std::unique_ptr<Reduction>> late_;
  Attempts attempts_;
  std::vector<Reduction*> waiting_;  // started, but not submitted yet
  std::size_t waiting_bytes_ = 0;
  TimePoint backward_ended_{};  // with something to submit
  bool waits_at_once_ = false;  // synchronize() followed at once
  std::vector<std::shared_ptr<CallInFlight>> driven_;
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace hvd
