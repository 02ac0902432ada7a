#include "horovod_cpp/distributed/gradients/rank_votes.h"

#include <utility>

#include "core/base/content_hash.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/warn.h"

namespace hvd {

RankVotes::RankVotes(std::string owner, ProcessSet set, SetupAgreement* agreement)
    : owner_(std::move(owner)),
      set_(std::move(set)),
      agreement_(agreement),
      differing_is_error_(set_.world()->options().check_options == "error"),
      compares_options_(set_.world()->options().check_options != "0") {}

std::vector<std::uint8_t> RankVotes::own(ReductionSchedule& schedule,
                                         const GradientAccess& gradients) const {
  std::vector<std::uint8_t> votes = schedule.vote(gradients.trained());
  // A hash and its complement: where two ranks differ, their or has a bit in both.
  const std::string options = compares_options_ ? gradients.options() : "";
  const std::uint64_t hash = content_hash(std::as_bytes(std::span(options)));
  for (int bits = 0; bits < 64; bits += 8) {
    votes.push_back(compares_options_ ? static_cast<std::uint8_t>(hash >> bits) : 0);
    votes.push_back(compares_options_ ? static_cast<std::uint8_t>(~hash >> bits) : 0);
  }
  votes.push_back(gradients.has_new_sparse() ? 1 : 0);
  return votes;
}

void RankVotes::ask(ReductionSchedule& schedule, const GradientAccess& gradients) {
  if (!votes_ && agreement_ != nullptr) agreement_->ask("votes", own(schedule, gradients));
}

void RankVotes::collect(ReductionSchedule& schedule, const GradientAccess& gradients,
                        Attempts& attempts) {
  if (agreement_ == nullptr) {
    votes_ = schedule.vote(gradients.trained());
    return;
  }
  const std::size_t parameters = gradients.parameters().size();
  try {
    std::vector<std::uint8_t> all = agreement_->bitwise_or("votes");
    new_sparse_ = all.back() != 0;
    for (std::size_t i = parameters; i + 1 < all.size(); i += 2) {
      options_differ_ = options_differ_ || (all[i] & all[i + 1]) != 0;
    }
    all.resize(parameters);
    votes_ = std::move(all);
  } catch (const Error&) {  // the other ranks have it too
    attempts.run([] { throw; });
    give_up(parameters);
  }
}

void RankVotes::compare_options(const GradientAccess& gradients, Attempts& attempts) {
  if (!options_differ_) return;
  const auto difference = agreement_->difference("options", gradients.options());
  options_differ_ = false;
  compares_options_ = differing_is_error_;  // a warning is told once
  const std::string text = owner_ + ": the ranks' optimizers differ: " + difference.text +
                           ". Their parameters will differ too. Give all ranks the same options, a "
                           "scheduler the same metric (hvd.allreduce() it)";
  attempts.run([&] {
    if (differing_is_error_) throw MismatchError(text);
    if (difference.teller != set_.world()->topology().rank) return;
    warn(text + "; HVD_CHECK_OPTIONS=0 turns this check off, =error makes it an error");
  });
}

std::vector<std::uint8_t> RankVotes::forget() {
  new_sparse_ = false;
  return *std::exchange(votes_, {});
}

}  // namespace hvd
