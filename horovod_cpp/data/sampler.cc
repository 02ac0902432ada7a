#include "horovod_cpp/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/tensor/memory.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd::data {
namespace {

// Epochs use stretches of the seed's stream that do not meet, and leave its beginning to others.
constexpr std::uint64_t kBlocksPerEpoch = std::uint64_t{1} << 40;

std::int64_t checked_size(std::int64_t size) {
  if (size < 0) {
    throw InvalidArgumentError("a sampler of ", size, " examples: the size may not be negative");
  }
  return size;
}

// The order that `make` makes of `size` examples.
template <typename Make>
std::vector<std::int64_t> order_of(std::int64_t size, Make make) {
  try {
    return make();
  } catch (const std::exception&) {  // more than the system has, or than a vector may
    throw OutOfMemoryError(str_cat("a sampler of ", size, " examples: no memory for their order"));
  }
}

std::vector<std::int64_t> in_order(std::int64_t size) {
  return order_of(size, [size] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    return order;
  });
}

std::int64_t share_of(std::int64_t size, std::int64_t replicas, std::int64_t rank, Uneven uneven) {
  const std::int64_t whole = size / replicas;
  const std::int64_t left = size % replicas;
  const bool one_more = uneven == Uneven::kPad ? left != 0 : uneven == Uneven::kKeep && rank < left;
  return whole + (one_more ? 1 : 0);
}

}  // namespace

std::vector<std::int64_t> Sampler::indices() {
  if (begun_) {
    state_.position = 0;
    if (next_ == Next::kAnotherEpoch) ++state_.epoch;
  }
  begun_ = true;
  ++passes_;
  std::vector<std::int64_t> rest = order(state_.epoch);
  const auto seen = std::min(state_.position, static_cast<std::int64_t>(rest.size()));
  rest.erase(rest.begin(), rest.begin() + seen);
  return rest;
}

void Sampler::advance(std::int64_t count) {
  if (count < 0) {
    throw InvalidArgumentError("advance: count ", count, ": expected at least 0");
  }
  state_.position += count;
}

void Sampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0) {
    throw InvalidArgumentError("set_epoch: epoch ", epoch, ": expected at least 0");
  }
  if (begun_ || epoch != state_.epoch) state_.position = 0;
  state_.epoch = epoch;
  begun_ = false;
}

void Sampler::load_state(const SamplerState& state) {
  if (state.epoch < 0 || state.position < 0 || state.position > size()) {
    throw InvalidArgumentError("load_state: epoch ", state.epoch, ", position ", state.position,
                               ": expected an epoch >= 0 and ",
                               "a position from 0 to the sampler's ", size());
  }
  state_ = state;
  begun_ = false;
}

std::vector<std::int64_t> random_permutation(std::int64_t size, std::uint64_t seed,
                                             std::int64_t epoch) {
  Generator generator;
  generator.set_state({seed, static_cast<std::uint64_t>(epoch + 1) * kBlocksPerEpoch});
  return order_of(checked_size(size), [&] { return generator.permutation(size); });
}

SequentialSampler::SequentialSampler(std::int64_t size, std::uint64_t seed)
    : Sampler(seed, Next::kAnotherEpoch), size_(checked_size(size)) {}

std::vector<std::int64_t> SequentialSampler::order(std::int64_t) {
  return in_order(size_);
}

RandomSampler::RandomSampler(std::int64_t size, std::uint64_t seed)
    : Sampler(seed, Next::kAnotherEpoch), size_(checked_size(size)) {}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                                       bool shuffle, std::uint64_t seed, bool drop_last)
    : DistributedSampler(dataset_size, num_replicas, rank, shuffle, seed,
                         drop_last ? Uneven::kDrop : Uneven::kPad) {}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                                       bool shuffle, std::uint64_t seed, Uneven uneven)
    : Sampler(seed, Next::kSameEpoch),
      dataset_size_(checked_size(dataset_size)),
      num_replicas_(num_replicas),
      rank_(rank),
      shuffle_(shuffle) {
  if (num_replicas < 1) {
    throw InvalidArgumentError("DistributedSampler: num_replicas is ", num_replicas,
                               "; it must be at least 1");
  }
  if (rank < 0 || rank >= num_replicas) {
    throw InvalidArgumentError("DistributedSampler: rank is ", rank, "; with num_replicas ",
                               num_replicas, " it must be from 0 to ", num_replicas - 1);
  }
  share_ = share_of(dataset_size_, num_replicas_, rank_, uneven);
}

std::vector<std::int64_t> DistributedSampler::order(std::int64_t epoch) {
  const std::vector<std::int64_t> whole =
      shuffle_ ? random_permutation(dataset_size_, seed(), epoch) : in_order(dataset_size_);
  std::vector<std::int64_t> mine;
  mine.reserve(static_cast<std::size_t>(share_));
  for (std::int64_t i = 0; i < share_; ++i) {
    // Past the end the order starts again: that is the padding.
    mine.push_back(whole[static_cast<std::size_t>((rank_ + i * num_replicas_) % dataset_size_)]);
  }
  return mine;
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size,
                           bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  if (sampler_ == nullptr) throw InvalidArgumentError("BatchSampler: no sampler");
  if (batch_size < 1) {
    throw InvalidArgumentError("BatchSampler: batch_size=", batch_size, ": expected at least 1");
  }
}

std::int64_t BatchSampler::size() const {
  const std::int64_t examples = sampler_->size();
  return examples / batch_size_ + (!drop_last_ && examples % batch_size_ != 0 ? 1 : 0);
}

std::vector<std::vector<std::int64_t>> BatchSampler::batches() {
  const std::vector<std::int64_t> indices = sampler_->indices();
  std::vector<std::vector<std::int64_t>> batches;
  auto at = indices.begin();
  while (at != indices.end()) {
    const std::int64_t count = std::min<std::int64_t>(batch_size_, indices.end() - at);
    if (drop_last_ && count < batch_size_) break;
    batches.emplace_back(at, at + count);
    at += count;
  }
  return batches;
}

}  // namespace hvd::data
