#pragma once

#include <cstdint>
#include <vector>

namespace hvd {
namespace data {

// The order in which a DataLoader visits a dataset. Not thread-safe.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Indices in one pass.
  virtual std::int64_t size() const = 0;
  // Starts a pass: the indices in the order they are visited.
  virtual std::vector<std::int64_t> indices() = 0;
  // Chooses the pass that indices() starts next. Orders that do not change ignore it.
  virtual void set_epoch(std::int64_t epoch);
};

// A permutation of 0 .. size-1, made by a Generator (tensor/random.h). It depends on the three
// arguments alone: the same on every machine, rank and thread.
std::vector<std::int64_t> random_permutation(std::int64_t size, std::uint64_t seed,
                                             std::int64_t epoch);

// 0 .. size-1 in order.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size);
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> indices() override;

 private:
  std::int64_t size_;
};

// A new permutation every pass. set_epoch(n) makes the next pass the n-th of this seed, which is
// how a resumed run finds its order again.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size, std::uint64_t seed = 0);
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> indices() override;
  void set_epoch(std::int64_t epoch) override { epoch_ = epoch; }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
};

// One rank's share of a dataset, as PyTorch's: the (shuffled) order is padded from its beginning to
// a multiple of num_replicas, or cut to one with drop_last, and rank r takes the positions r,
// r + num_replicas, ... All ranks must use one seed and call set_epoch() before every pass; without
// it each pass has the same order. Throws InvalidArgumentError unless 0 <= rank < num_replicas.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank, bool shuffle = true,
                     std::uint64_t seed = 0, bool drop_last = false);
  std::int64_t size() const override { return share_; }
  std::vector<std::int64_t> indices() override;
  void set_epoch(std::int64_t epoch) override { epoch_ = epoch; }

 private:
  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t share_;
  std::int64_t epoch_ = 0;
};

}  // namespace data
}  // namespace hvd
