#include "horovod_cpp/data/sampler.h"

#include <numeric>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace data {
namespace {

// Epochs use stretches of the seed's stream that do not meet, and leave its beginning to others.
constexpr std::uint64_t kBlocksPerEpoch = std::uint64_t{1} << 40;

std::int64_t checked_size(std::int64_t size) {
  if (size < 0) {
    throw InvalidArgumentError("a sampler of " + std::to_string(size) +
                               " examples: the size may not be negative");
  }
  return size;
}

std::vector<std::int64_t> in_order(std::int64_t size) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

// Each rank's number of examples.
std::int64_t share_of(std::int64_t size, std::int64_t replicas, bool drop_last) {
  return drop_last ? size / replicas : size / replicas + (size % replicas != 0 ? 1 : 0);
}

}  // namespace

void Sampler::set_epoch(std::int64_t) {}

std::vector<std::int64_t> random_permutation(std::int64_t size, std::uint64_t seed,
                                             std::int64_t epoch) {
  Generator generator;
  generator.set_state({seed, static_cast<std::uint64_t>(epoch + 1) * kBlocksPerEpoch});
  return generator.permutation(checked_size(size));
}

SequentialSampler::SequentialSampler(std::int64_t size) : size_(checked_size(size)) {}

std::vector<std::int64_t> SequentialSampler::indices() {
  return in_order(size_);
}

RandomSampler::RandomSampler(std::int64_t size, std::uint64_t seed)
    : size_(checked_size(size)), seed_(seed) {}

std::vector<std::int64_t> RandomSampler::indices() {
  return random_permutation(size_, seed_, epoch_++);
}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                                       bool shuffle, std::uint64_t seed, bool drop_last)
    : dataset_size_(checked_size(dataset_size)),
      num_replicas_(num_replicas),
      rank_(rank),
      shuffle_(shuffle),
      seed_(seed) {
  if (num_replicas < 1 || rank < 0 || rank >= num_replicas) {
    throw InvalidArgumentError("DistributedSampler: rank " + std::to_string(rank) + " of " +
                               std::to_string(num_replicas) +
                               " replicas: expected 0 <= rank < num_replicas");
  }
  share_ = share_of(dataset_size_, num_replicas_, drop_last);
}

std::vector<std::int64_t> DistributedSampler::indices() {
  const std::vector<std::int64_t> order =
      shuffle_ ? random_permutation(dataset_size_, seed_, epoch_) : in_order(dataset_size_);
  std::vector<std::int64_t> mine;
  mine.reserve(static_cast<std::size_t>(share_));
  for (std::int64_t i = 0; i < share_; ++i) {
    // Past the end the order starts again: that is the padding.
    mine.push_back(order[static_cast<std::size_t>((rank_ + i * num_replicas_) % dataset_size_)]);
  }
  return mine;
}

}  // namespace data
}  // namespace hvd
