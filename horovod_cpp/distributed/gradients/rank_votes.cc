#include "horovod_cpp/distributed/gradients/rank_votes.h"

#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {
namespace {

// The last byte of a message.
constexpr std::uint8_t kNewSparse = 1;
constexpr std::uint8_t kNews = 2;

}  // namespace

RankVotes::RankVotes(std::string owner, ProcessSet set, SetupAgreement* agreement)
    : owner_(std::move(owner)),
      set_(std::move(set)),
      agreement_(agreement),
      differing_is_error_(set_.world()->options().check_options == "error"),
      compares_options_(set_.world()->options().check_options != "0") {}

RankVotes::Own RankVotes::own(ReductionSchedule& schedule, const GradientAccess& gradients) const {
  Own own{.votes = schedule.vote(gradients.trained())};
  if (compares_options_) {
    const std::string options = gradients.options();
    own.options = content_hash(std::as_bytes(std::span(options)));
  }
  own.is_news = early_carrier_ || sparse_here_ || schedule.has_news(own.votes) ||
                own.options != told_options_;
  return own;
}

void RankVotes::ask(ReductionSchedule& schedule, const GradientAccess& gradients,
                    GradientReduction* carrier) {
  if (votes_ || asked_ || agreement_ == nullptr) return;
  if (carrier == nullptr) return send(schedule, gradients);
  carrier->flag(own(schedule, gradients).is_news);
}

void RankVotes::send(ReductionSchedule& schedule, const GradientAccess& gradients) {
  auto [message, options, is_news] = own(schedule, gradients);
  asked_options_ = options;
  // A hash and its complement: where two ranks differ, their or has a bit in both.
  for (int bits = 0; bits < 64; bits += 8) {
    message.push_back(compares_options_ ? static_cast<std::uint8_t>(options >> bits) : 0);
    message.push_back(compares_options_ ? static_cast<std::uint8_t>(~options >> bits) : 0);
  }
  message.push_back((sparse_here_ ? kNewSparse : 0) | (is_news ? kNews : 0));
  agreement_->ask("votes", message);
  asked_ = true;
}

void RankVotes::give_up(std::size_t parameters) {
  votes_.emplace(parameters);
  given_up_ = true;
}

void RankVotes::collect(ReductionSchedule& schedule, const GradientAccess& gradients,
                        const GradientReduction* carrier, Attempts& attempts) {
  if (agreement_ == nullptr) {
    votes_ = schedule.vote(gradients.trained());
    return;
  }
  const std::size_t parameters = gradients.parameters().size();
  if (carrier != nullptr && !asked_) {
    carrier->wait();
    const std::optional<bool> news = carrier->any_flagged();
    if (!news) return give_up(parameters);  // as on all ranks, which finish() throws
    if (!*news) {
      votes_ = schedule.quiet();
      return;
    }
    attempts.run([&] { send(schedule, gradients); });
  }
  if (!asked_) return give_up(parameters);  // it failed
  try {
    std::vector<std::uint8_t> all = agreement_->bitwise_or("votes");
    new_sparse_ = (all.back() & kNewSparse) != 0;
    told_options_ = asked_options_;
    had_news_ = (all.back() & kNews) != 0;
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
  had_news_ = had_news_ || differing_is_error_;
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
  new_sparse_ = sparse_here_ = asked_ = given_up_ = false;
  return *std::exchange(votes_, {});
}

}  // namespace hvd
