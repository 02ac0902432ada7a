#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "horovod_cpp/distributed/gradients/attempts.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"
#include "horovod_cpp/distributed/gradients/reduction_schedule.h"
#include "horovod_cpp/distributed/gradients/setup_agreement.h"

namespace hvd {

// What the ranks tell each other at each synchronize(), in one message: their votes on each
// parameter (see ReductionSchedule), a hash of their optimizers' options, and whether a gradient
// has turned out to be sparse. One thread.
class RankVotes {
 public:
  // `owner`: the class that reduces, for messages. `agreement` outlives it; null: this rank decides
  // alone.
  RankVotes(std::string owner, ProcessSet set, SetupAgreement* agreement);

  // Asks, once until they are collected, and does not wait.
  void ask(ReductionSchedule& schedule, const GradientAccess& gradients);
  // Collective. What the question failed with is a failure of `attempts`, and gives up; after an
  // interruption it goes on.
  void collect(ReductionSchedule& schedule, const GradientAccess& gradients, Attempts& attempts);
  // No rank is asked: nothing of this step counts.
  void give_up(std::size_t parameters) { votes_.emplace(parameters); }
  bool collected() const { return votes_.has_value(); }
  // By parameter.
  const std::vector<std::uint8_t>& votes() const { return *votes_; }
  // Whether any rank has met one that is sparse, and was not thought to be.
  bool new_sparse() const { return new_sparse_; }
  // Collective. Tells the user of options that differ, if they do, as HVD_CHECK_OPTIONS wants it:
  // a failure of `attempts` on every rank, or a warning, once.
  void compare_options(const GradientAccess& gradients, Attempts& attempts);
  // The votes of this synchronize().
  std::vector<std::uint8_t> forget();

 private:
  std::vector<std::uint8_t> own(ReductionSchedule& schedule, const GradientAccess& gradients) const;

  const std::string owner_;
  const ProcessSet set_;
  SetupAgreement* const agreement_;
  const bool differing_is_error_;
  bool compares_options_;
  std::optional<std::vector<std::uint8_t>> votes_;
  bool new_sparse_ = false;
  bool options_differ_ = false;
};

}  // namespace hvd
