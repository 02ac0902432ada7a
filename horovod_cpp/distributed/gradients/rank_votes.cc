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

RankVotes::RankVotes(std::string owner, const ReductionContext& context,
                     ReductionSchedule& schedule, const GradientLayout& layout)
    : owner_(std::move(owner)),
      context_(context),
      schedule_(schedule),
      layout_(layout),
      agreement_(context.over_ranks ? layout.agreement() : nullptr) {
  const std::string check = context.options.process_set.world()->options().check_options;
  differing_is_error_ = check == "error";
  compares_options_ = check != "0";
}

GradientReduction* RankVotes::carrier() const {
  if (schedule_.reduced() || had_news_) return nullptr;
  if (context_.options.overlap_step)
    return nullptr;  // votes are needed before all buckets are there
  return layout_.first_dense();
}

RankVotes::Own RankVotes::own() const {
  Own own{.votes = schedule_.vote(context_.gradients->trained())};
  if (compares_options_) {
    const std::string options = context_.gradients->options();
    own.options = content_hash(std::as_bytes(std::span(options)));
  }
  own.is_news = early_carrier_ || sparse_here_ || schedule_.has_news(own.votes) ||
                own.options != told_options_;
  return own;
}

void RankVotes::ask() {
  if (votes_ || asked_ || agreement_ == nullptr) return;
  GradientReduction* const carrier = this->carrier();
  if (carrier == nullptr) return send();
  carrier->flag(own().is_news);
}

void RankVotes::send() {
  auto [message, options, is_news] = own();
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

void RankVotes::give_up() {
  votes_.emplace(context_.gradients->parameters().size());
  given_up_ = true;
}

void RankVotes::collect(Attempts& attempts) {
  if (agreement_ == nullptr) {
    votes_ = schedule_.vote(context_.gradients->trained());
    return;
  }
  const GradientReduction* const carrier = this->carrier();
  if (carrier != nullptr && !asked_) {
    carrier->wait();
    const std::optional<bool> news = carrier->any_flagged();
    if (!news) return give_up();  // as on all ranks, which finish() throws
    if (!*news) {
      votes_ = schedule_.quiet();
      return;
    }
    attempts.run([&] { send(); });
  }
  if (!asked_) return give_up();  // it failed
  try {
    std::vector<std::uint8_t> all = agreement_->bitwise_or("votes");
    new_sparse_ = (all.back() & kNewSparse) != 0;
    told_options_ = asked_options_;
    had_news_ = (all.back() & kNews) != 0;
    const std::size_t parameters = context_.gradients->parameters().size();
    for (std::size_t i = parameters; i + 1 < all.size(); i += 2) {
      options_differ_ = options_differ_ || (all[i] & all[i + 1]) != 0;
    }
    all.resize(parameters);
    votes_ = std::move(all);
  } catch (const Error&) {  // the other ranks have it too
    attempts.run([] { throw; });
    give_up();
  }
}

void RankVotes::compare_options(Attempts& attempts) {
  if (!options_differ_) return;
  const auto difference = agreement_->difference("options", context_.gradients->options());
  options_differ_ = false;
  compares_options_ = differing_is_error_;  // a warning is told once
  had_news_ = had_news_ || differing_is_error_;
  const std::string text = owner_ + ": the ranks' optimizers differ: " + difference.text +
                           ". Their parameters will differ too. Give all ranks the same options, a "
                           "scheduler the same metric (hvd.allreduce() it)";
  attempts.run([&] {
    if (differing_is_error_) throw MismatchError(text);
    if (difference.teller != context_.options.process_set.world()->topology().rank) return;
    warn(text + "; HVD_CHECK_OPTIONS=0 turns this check off, =error makes it an error");
  });
}

std::vector<std::uint8_t> RankVotes::forget() {
  new_sparse_ = sparse_here_ = asked_ = given_up_ = false;
  return *std::exchange(votes_, {});
}

}  // namespace hvd
