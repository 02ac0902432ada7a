#pragma once

#include "horovod_cpp/tensor/random.h"

namespace hvd {

// The state of a generator as a tensor, int64 [2]: seed and position, bit for bit. By default of
// this thread's default generator.
Tensor get_rng_state(const Generator& generator = default_generator());

// Goes on from such a state. Throws InvalidArgumentError unless it is int64 [2].
void set_rng_state(const Tensor& state, Generator& generator = default_generator());

}  // namespace hvd
