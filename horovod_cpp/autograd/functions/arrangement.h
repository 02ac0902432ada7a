#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// Functions that cut, repeat and turn tensors of any dtype; differentiable.
namespace hvd {

// PyTorch's short name of concat (functions.h).
Tensor cat(const std::vector<Tensor>& parts, std::int64_t axis = 0);

// Views of `size` positions each along an axis, the last one what is left; or of the given sizes,
// which add up to the extent. Throws InvalidArgumentError otherwise.
std::vector<Tensor> split(const Tensor& a, std::int64_t size, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis = 0);
// At most `count` views of equal size, but for the last.
std::vector<Tensor> chunk(const Tensor& a, std::int64_t count, std::int64_t axis = 0);

// A copy with the order along each of the axes reversed.
Tensor flip(const Tensor& a, std::vector<std::int64_t> axes);
// A copy of the whole, repeats[i] times along axis i; further repeats make axes in front.
Tensor repeat(const Tensor& a, const std::vector<std::int64_t>& repeats);
// A copy of the matrices (last two axes) with 0 above, or below, a diagonal; diagonal 1 is the one
// above the main one.
Tensor tril(const Tensor& a, std::int64_t diagonal = 0);
Tensor triu(const Tensor& a, std::int64_t diagonal = 0);

}  // namespace hvd
