#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"
#include "horovod_cpp/distributed/gradients/gradient_layout.h"
#include "horovod_cpp/distributed/gradients/gradient_reduction.h"
#include "horovod_cpp/distributed/gradients/rank_votes.h"
#include "horovod_cpp/distributed/gradients/reduction_schedule.h"

namespace hvd {

class GradientReducer;

// The reducers of one parameter's gradient, of which one may take it. There are several where an
// optimizer was made again and something still holds the old one: a list of trials, a traceback, a
// scheduler, a notebook cell that was run twice; or where some are meant to be used in turn.
class GradientClaims {
 public:
  // Those of the parameter that `identity` tells from others that live at the same time.
  static std::shared_ptr<GradientClaims> of(const void* identity);

  struct Claim {
    GradientReducer* reducer = nullptr;
    std::size_t index = 0;  // the parameter's number there
  };
  void add(const Claim& claim) { claims_.push_back(claim); }
  void remove(const GradientReducer* reducer);
  // As they were made.
  const std::vector<Claim>& all() const { return claims_; }
  // Null: none.
  GradientReducer* newest() const { return claims_.empty() ? nullptr : claims_.back().reducer; }
  // Whether all that were made after this one are inside no_sync().
  bool is_left_to(const GradientReducer* reducer) const;

 private:
  std::vector<Claim> claims_;
};

// False where there is nothing to do between backward() and the wrapped optimizer: over one rank,
// without options that do something on each. A front end need not tell of gradients then.
bool needs_reducer(const DistributedOptions& options);

// The gradients of some parameters on their way through the ranks: hears of them from backward(),
// starts their reductions, gives them back. It serves every DistributedOptimizer and
// DistributedDataParallel; front ends differ in GradientAccess alone. When what is reduced, and why
// all ranks agree on that: ReductionSchedule. One thread.
class GradientReducer {
 public:
  // `options` are checked, except their groups: `groups` has numbers of parameters. `owner`: the
  // class that reduces, for messages. UnsupportedError: see expect_served().
  GradientReducer(std::shared_ptr<GradientAccess> gradients, const DistributedOptions& options,
                  const GradientBuckets& groups = {}, std::string owner = "DistributedOptimizer");
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // What a front end's hooks call: before backward() adds to a gradient, and after it has. The
  // latter submits nothing and does not wait: a front end may hold a lock. True: start_ready()
  // must follow.
  void before_gradient(std::size_t index);
  bool count_gradient(std::size_t index);
  void start_ready();

  // Parameters were appended to the front end's; on all ranks, between two steps.
  void parameters_added();

  // Collective. Reduces what has not been since begin_step(), waits, and gives the gradients back.
  // `on_reduced` hears of parameters as soon as theirs are, until something fails. After an
  // interruption (Ctrl-C) all is as before, and another call waits for the same.
  using OnReduced = std::function<void(GradientAccess::Indices params)>;
  void synchronize(const OnReduced& on_reduced = {});
  // Whether gradients are reduced, and none has come since.
  bool synchronized() const { return schedule_.reduced() && !schedule_.first_unreduced(); }
  // Name of a parameter whose gradient has come, and is not reduced; empty if none has.
  std::string unreduced() const;
  // Of this reducer alone in its process set, equal on all ranks.
  std::string name() const { return owner_ + context_.suffix; }
  // Under which the buckets are reduced, in order.
  std::vector<std::string> call_names() const;
  // Name of a bucket that is in flight; empty if none is.
  std::string in_flight() const;
  // The passes that were made since do not count: their gradients were dropped.
  void drop_accumulated();
  // What comes belongs to another step, which reduces all gradients.
  void begin_step();
  // Collective: see GradientLayout.
  void agree_on_setup() { layout_.agree_on_setup(); }

  // backward() only accumulates until release(), and leaves gradients to older reducers of the same
  // parameters, if there are any.
  void hold();
  void release() { schedule_.release(); }
  bool held() const { return schedule_.held(); }
  const std::string& owner() const { return owner_; }
  // Collective: else some ranks would wait for passes that others do not make.
  // Throws MismatchError on every rank, and changes nothing, if the ranks give different numbers.
  void set_backward_passes_per_step(int passes);

 private:
  struct Entry {
    std::shared_ptr<GradientClaims> claims;
    bool has_windows = false;  // closed ones, apart from the gradient
  };

  void add_buckets(const GradientBuckets& buckets);
  void check_not_replaced() const;
  void average(std::size_t index);
  void start_first_round(std::size_t bucket);
  // They wait to be submitted.
  void start(GradientReduction& reduction, GradientAccess::Indices params);
  // Submits what waits when it is enough, or else when backward() ends.
  void submit_soon();
  // ... now; `all`: also the one that tells the others this rank's news. Throws what the first one
  // failed with.
  void submit_waiting(bool all = false);
  void clip(ClipGradNorm::When when, GradientAccess::Indices which);
  void start_rounds();
  void finish_first_round(const OnReduced& on_reduced);
  void late_round(const OnReduced& on_reduced);
  void give_back(const std::vector<std::size_t>& params, const OnReduced& on_reduced);

  const std::string owner_;
  const bool active_;  // needs_reducer()
  ReductionContext context_;
  ReductionSchedule schedule_;
  std::vector<Entry> entries_;  // as the parameters are numbered
  GradientLayout::Buckets buckets_;
  GradientLayout layout_;
  bool is_given_way_ = false;         // by newer reducers of its parameters, in this step
  std::optional<std::size_t> ready_;  // a bucket that start_ready() will start
  std::vector<GradientReduction*> first_round_;  // in flight, in order of their start
  std::vector<GradientReduction*> waiting_;      // started, to be submitted together
  // Of a synchronize() that goes on, also after an interruption:
  bool clipped_before_ = false;
  RankVotes votes_;
  std::vector<std::unique_ptr<GradientReduction>> late_;
  Attempts attempts_;
  // When the backward() did that has made a bucket ready; the future while it runs.
  std::optional<TimePoint> backward_ended_;
  bool waits_at_once_ = false;  // synchronize() followed at once
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace hvd
