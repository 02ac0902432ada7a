#include "horovod_cpp/distributed/gradients/rank_votes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {
namespace {

// The last byte of a message.
constexpr std::uint8_t kNewSparse = 1;
constexpr std::uint8_t kNews = 2;

// At least so often, in steps, are parameters compared.
constexpr std::uint64_t kSeldom = 1024;

// In a message a hash and its complement, byte by byte: where two ranks differ, their or has a bit
// in both. Zeros of one that is not compared.
constexpr std::size_t kHashBytes = 16;

void add_hash(std::vector<std::uint8_t>& message, std::uint64_t hash, bool compared) {
  for (int bits = 0; bits < 64; bits += 8) {
    message.push_back(compared ? static_cast<std::uint8_t>(hash >> bits) : 0);
    message.push_back(compared ? static_cast<std::uint8_t>(~hash >> bits) : 0);
  }
}

bool differ(std::span<const std::uint8_t> hashes) {
  for (std::size_t i = 0; i < kHashBytes; i += 2) {
    if ((hashes[i] & hashes[i + 1]) != 0) return true;
  }
  return false;
}

}  // namespace

bool ComparisonSchedule::due() const {
  const bool is_due = counted_ < kSeldom ? std::has_single_bit(counted_) : counted_ % kSeldom == 0;
  return wanted_ && is_due && counted_ != compared_at_;
}

RankVotes::RankVotes(std::string owner, const ReductionContext& context,
                     ReductionSchedule& schedule, const GradientLayout& layout)
    : owner_(std::move(owner)),
      context_(context),
      schedule_(schedule),
      layout_(layout),
      agreement_(context.over_ranks ? layout.agreement() : nullptr),
      comparisons_(context.options.process_set.world()->options().check_parameters) {
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

bool RankVotes::compares_values() const {
  return comparisons_.due() && !agreement_->values_differed();
}

void RankVotes::ask() {
  if (votes_ || asked_ || agreement_ == nullptr) return;
  GradientReduction* const carrier = this->carrier();
  if (carrier == nullptr) return send();
  carrier->flag(own().is_news || compares_values());
}

void RankVotes::send() {
  auto [message, options, is_news] = own();
  asked_options_ = options;
  add_hash(message, options, compares_options_);
  const bool compares_values = this->compares_values();
  const auto values = agreement_->hash_values(*context_.gradients, compares_values);
  add_hash(message, static_cast<std::uint64_t>(values), compares_values);
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
    const auto hashes = std::span(all).subspan(parameters);
    options_differ_ = options_differ_ || differ(hashes);
    values_differ_ = differ(hashes.subspan(kHashBytes));
    all.resize(parameters);
    votes_ = std::move(all);
  } catch (const Error&) {  // the other ranks have it too
    attempts.run([] { throw; });
    give_up();
  }
}

void RankVotes::tell_of_differences(Attempts& attempts) {
  if (options_differ_) tell_of_options(attempts);
  if (!values_differ_) return;
  const auto warning = agreement_->difference_of_values(*context_.gradients, comparisons_.steps());
  values_differ_ = false;
  if (warning) attempts.run([&] { warn(*warning); });
}

void RankVotes::tell_of_options(Attempts& attempts) {
  const auto difference = agreement_->difference("options", context_.gradients->options());
  options_differ_ = false;
  comparisons_.stop();  // the text says that parameters will differ
  // A warning is told once.
  compares_options_ = differing_is_error_;
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
  if (!given_up_) comparisons_.done();
  new_sparse_ = sparse_here_ = asked_ = given_up_ = false;
  return *std::exchange(votes_, {});
}

}  // namespace hvd
