#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"
#include "test/support/message_of.h"

namespace hvd {

using Inputs = std::vector<Tensor>;
using V = std::vector<double>;

// A float64 leaf with values in [low, high).
inline Tensor leaf(Shape shape, double low = -1.0, double high = 1.0, std::uint64_t seed = 1) {
  Generator generator(seed);
  Tensor result = Tensor::empty(std::move(shape), DType::kF64);
  uniform_(result, low, high, generator);
  return result.requires_grad_();
}

inline Tensor values(std::vector<double> numbers, Shape shape) {
  return Tensor::from(std::span<const double>(numbers), std::move(shape));
}

inline Tensor integers(std::vector<std::int64_t> numbers, Shape shape) {
  return Tensor::from(std::span<const std::int64_t>(numbers), std::move(shape));
}

inline Tensor bools(std::vector<double> numbers, Shape shape) {
  return values(std::move(numbers), std::move(shape)).to(DType::kBool);
}

inline std::string error_of(const std::function<void()>& call) {
  return message_of<InvalidArgumentError>(call);
}

}  // namespace hvd
