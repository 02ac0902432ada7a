#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "horovod_cpp/distributed/gradients/gradient_layout.h"

namespace hvd {

// After how many steps parameters are compared: less and less often, since that reads all of them.
class ComparisonSchedule {
 public:
  explicit ComparisonSchedule(bool wanted) : wanted_(wanted) {}

  void count_step() {
    ++steps_;
    ++counted_;
  }
  // All ranks count from here: they may have made different numbers of steps.
  void restart() { counted_ = compared_at_ = 0; }
  void stop() { wanted_ = false; }
  bool due() const;
  void done() { compared_at_ = counted_; }
  std::uint64_t steps() const { return steps_; }

 private:
  bool wanted_;
  std::uint64_t steps_ = 0;
  std::uint64_t counted_ = 0;
  std::uint64_t compared_at_ = 0;
};

// What the ranks tell each other at each synchronize(): their votes on each parameter (see
// ReductionSchedule), a hash of their optimizers' options, whether a gradient has turned out to be
// sparse, and after 1, 2, 4, 8... steps, and each 1,024, a hash of their parameters. That is one
// message, and none where no rank has anything new to say, as in most steps: ranks that have flag a
// bucket that travels anyway, the carrier, and only if any did do all ask. One thread.
class RankVotes {
 public:
  // `owner`: the class that reduces, for messages. The others outlive it.
  RankVotes(std::string owner, const ReductionContext& context, ReductionSchedule& schedule,
            const GradientLayout& layout);

  // A gradient has turned out to be sparse here.
  void add_new_sparse() { sparse_here_ = true; }
  // The ranks have agreed on the set-up, anew if one has joined meanwhile: they ask at once,
  // without a carrier, as after a step in which they had something to say, since they are likely to
  // have again, and count steps from here. Equal on all of them.
  void expect_news() {
    had_news_ = true;
    comparisons_.restart();
  }
  // Whether this rank submits the carrier before it knows what it has to say. Then it is taken to
  // have something.
  void set_early_carrier(bool early) { early_carrier_ = early; }

  // That of the first parameter, whose gradient comes last, unless it travels as coordinates. Null:
  // the ranks ask. By what they have agreed on.
  GradientReduction* carrier() const;
  // Before the carrier is submitted: flags it if this rank has anything to say. Without one, asks.
  // Does not wait.
  void ask();
  // Collective. What the question failed with is a failure of `attempts`, and gives up; after an
  // interruption it goes on.
  void collect(Attempts& attempts);
  // No rank is asked: nothing of this step counts.
  void give_up();
  bool collected() const { return votes_.has_value(); }
  bool given_up() const { return given_up_; }
  // By parameter.
  const std::vector<std::uint8_t>& votes() const { return *votes_; }
  // Whether any rank has met one that is sparse, and was not thought to be.
  bool new_sparse() const { return new_sparse_; }
  // Collective. Tells the user of options that differ, if they do, as HVD_CHECK_OPTIONS wants it:
  // a failure of `attempts` on every rank, or a warning, once; and warns, once, of parameters.
  void tell_of_differences(Attempts& attempts);
  void count_step() { comparisons_.count_step(); }
  // The votes of this synchronize().
  std::vector<std::uint8_t> forget();

 private:
  // What this rank has to say.
  struct Own {
    std::vector<std::uint8_t> votes;
    std::uint64_t options = 0;  // a hash
    bool is_news = false;
  };
  Own own() const;
  bool compares_values() const;
  void send();
  void tell_of_options(Attempts& attempts);

  const std::string owner_;
  const ReductionContext& context_;
  ReductionSchedule& schedule_;
  const GradientLayout& layout_;
  SetupAgreement* const agreement_;  // null: this rank decides alone
  bool differing_is_error_;
  bool compares_options_;
  ComparisonSchedule comparisons_;
  bool sparse_here_ = false;
  bool early_carrier_ = false;
  std::uint64_t told_options_ = 0;  // their hash when the ranks compared them last
  std::uint64_t asked_options_ = 0;
  bool had_news_ = true;
  bool asked_ = false;
  bool given_up_ = false;
  std::optional<std::vector<std::uint8_t>> votes_;
  bool new_sparse_ = false;
  bool options_differ_ = false;
  bool values_differ_ = false;
};

}  // namespace hvd
