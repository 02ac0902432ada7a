#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011): block number `position` of stream `seed` is a function of the two. Equal seeds give equal
// numbers on every platform, normal ones included. Not thread-safe.
class Generator {
 public:
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t position = 0;  // next block; a block is four 32-bit words

    friend bool operator==(const State&, const State&) = default;
  };

  explicit Generator(std::uint64_t seed = 0) : state_{seed, 0} {}

  void manual_seed(std::uint64_t seed) { state_ = {seed, 0}; }
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

  // Each call takes one block of the stream.
  double uniform();                          // [0, 1), 53 bits
  double normal();                           // mean 0, deviation 1
  std::uint64_t below(std::uint64_t bound);  // [0, bound), unbiased; throws if bound is 0

  // 0 .. count-1 in random order (Fisher-Yates).
  std::vector<std::int64_t> permutation(std::int64_t count);

  // Advances by `blocks` and returns the first of them.
  std::uint64_t reserve(std::uint64_t blocks);

 private:
  State state_;
};

// This thread's generator, which functions use that are given none. Every thread starts at seed 0.
Generator& default_generator();

// Seeds this thread's default generator.
void manual_seed(std::uint64_t seed);

// New tensors of a floating dtype (float16 and bfloat16 are rounded float32).
Tensor rand(Shape shape, DType dtype = DType::kF32, Generator& generator = default_generator());
Tensor randn(Shape shape, DType dtype = DType::kF32, Generator& generator = default_generator());
// 1 with probability p, else 0. Throws InvalidArgumentError unless 0 <= p <= 1.
Tensor bernoulli(Shape shape, double p, DType dtype = DType::kF32,
                 Generator& generator = default_generator());
// int64 in [low, high). Throws InvalidArgumentError unless low < high.
Tensor randint(std::int64_t low, std::int64_t high, Shape shape,
               Generator& generator = default_generator());
// int64 [count]: 0 .. count-1 in random order.
Tensor randperm(std::int64_t count, Generator& generator = default_generator());

// Overwrite a tensor of a floating dtype, any strides; not recorded by autograd.
void uniform_(const Tensor& tensor, double low = 0.0, double high = 1.0,
              Generator& generator = default_generator());
void normal_(const Tensor& tensor, double mean = 0.0, double deviation = 1.0,
             Generator& generator = default_generator());

// The state of a generator as a tensor, int64 [2]: seed and position, bit for bit. By default of
// this thread's default generator.
Tensor get_rng_state(const Generator& generator = default_generator());

// Goes on from such a state. Throws InvalidArgumentError unless it is int64 [2].
void set_rng_state(const Tensor& state, Generator& generator = default_generator());

}  // namespace hvd
