#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace hvd::data {

// Where in its passes a sampler is; enough to go on from there, bit for bit.
struct SamplerState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;     // of the pass begun last, or of the next one if none was begun
  std::int64_t position = 0;  // indices of that pass that were handed out

  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

// The order in which a DataLoader visits a dataset. Not thread-safe.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Indices in one whole pass.
  virtual std::int64_t size() const = 0;
  // All indices of pass `epoch` in the order they are visited. Depends on seed() and epoch alone.
  virtual std::vector<std::int64_t> order(std::int64_t epoch) = 0;

  // Starts a pass and returns its indices; after load_state() the rest of the pass it was in the
  // middle of.
  std::vector<std::int64_t> indices();
  // Chooses the pass that indices() starts next. After load_state() a call with the state's own
  // epoch keeps the position, so that a loop which calls it before every pass can be resumed.
  // Throws InvalidArgumentError if it is negative.
  void set_epoch(std::int64_t epoch);

  std::uint64_t seed() const { return state_.seed; }
  SamplerState state() const { return state_; }
  // The next pass is the rest of the state's pass: nothing of it, if the state was taken at its
  // end. A DistributedSampler needs the rank and number of replicas it was taken with. Throws
  // InvalidArgumentError on a negative epoch or a position outside [0, size()].
  void load_state(const SamplerState& state);

  // For what visits the indices, like a DataLoader: `count` more of them were handed out.
  void advance(std::int64_t count);
  // Passes begun so far.
  std::int64_t passes() const { return passes_; }

 protected:
  // What a pass that was not chosen by set_epoch() does.
  enum class Next { kAnotherEpoch, kSameEpoch };
  Sampler(std::uint64_t seed, Next next) : state_{seed, 0, 0}, next_(next) {}

 private:
  SamplerState state_;
  Next next_;
  bool begun_ = false;  // the pass of state_.epoch
  std::int64_t passes_ = 0;
};

// A permutation of 0 .. size-1, made by a Generator (tensor/random.h). It depends on the three
// arguments alone: the same on every machine, rank and thread.
std::vector<std::int64_t> random_permutation(std::int64_t size, std::uint64_t seed,
                                             std::int64_t epoch);

// 0 .. size-1 in order. The seed is for what examples draw at random (data_loader.h).
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t size, std::uint64_t seed = 0);
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch) override;

 private:
  std::int64_t size_;
};

// A new permutation every pass. set_epoch(n) makes the next pass the n-th of this seed.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t size, std::uint64_t seed = 0);
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> order(std::int64_t epoch) override {
    return random_permutation(size_, seed(), epoch);
  }

 private:
  std::int64_t size_;
};

// What to do when the examples do not divide evenly by the ranks.
enum class Uneven {
  kPad,   // repeat examples from the beginning of the order: equal shares, some examples twice
  kDrop,  // leave out the tail of the order: equal shares
  kKeep,  // every example once: the first ranks have one more (hvd::join() serves the others)
};

// One rank's share of a dataset, as PyTorch's: rank r takes the positions r, r + num_replicas, ...
// of the (shuffled) order, which is first made to fit by the chosen rule. All ranks must use one
// seed and call set_epoch() before every pass; without it each pass has the same order. Throws
// InvalidArgumentError unless 0 <= rank < num_replicas.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank, bool shuffle = true,
                     std::uint64_t seed = 0, bool drop_last = false);
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank, bool shuffle,
                     std::uint64_t seed, Uneven uneven);
  std::int64_t size() const override { return share_; }
  std::vector<std::int64_t> order(std::int64_t epoch) override;

 private:
  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  bool shuffle_;
  std::int64_t share_;
};

// Groups a sampler's indices into batches. Derive from it for other groupings (say, by length):
// override size() and batches(), and take the indices from sampler(), which keeps count of passes
// and of what was handed out. Not thread-safe.
class BatchSampler {
 public:
  // Throws InvalidArgumentError without a sampler or on a batch size below 1.
  BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size, bool drop_last = false);
  virtual ~BatchSampler() = default;

  // Batches in one whole pass.
  virtual std::int64_t size() const;
  // Starts a pass of the sampler: its batches in order, none of them empty.
  virtual std::vector<std::vector<std::int64_t>> batches();

  const std::shared_ptr<Sampler>& sampler() const { return sampler_; }

 private:
  std::shared_ptr<Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;  // leave out a last batch that is not full
};

}  // namespace hvd::data
