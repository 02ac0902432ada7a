#include "horovod_cpp/tensor/rng_state.h"

#include <bit>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/tensor/copy.h"

namespace hvd {

Tensor get_rng_state(const Generator& generator) {
  const Generator::State state = generator.state();
  const std::int64_t words[] = {std::bit_cast<std::int64_t>(state.seed),
                                std::bit_cast<std::int64_t>(state.position)};
  return Tensor::from(words, {2});
}

void set_rng_state(const Tensor& state, Generator& generator) {
  if (state.dtype() != DType::kI64 || state.shape() != Shape{2}) {
    throw InvalidArgumentError("set_rng_state: " + std::string(name_of(state.dtype())) + " " +
                               to_string(state.shape()) + ", expected int64 [2]");
  }
  const Tensor words = kernels::contiguous(state);
  const auto* first = words.data<std::int64_t>();
  generator.set_state(
      {std::bit_cast<std::uint64_t>(first[0]), std::bit_cast<std::uint64_t>(first[1])});
}

}  // namespace hvd
