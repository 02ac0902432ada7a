#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Whether elements share memory, as those of an expanded tensor do: what such a tensor holds after
// a write would depend on the order in which its elements were written.
bool is_expanded(const Tensor& tensor);

// Functions that write into `tensor` call this first. Throws InvalidArgumentError naming `function`
// and the shape if it is expanded.
void refuse_expanded(const Tensor& tensor, const char* function);

}  // namespace hvd

namespace hvd::kernels {

// -- images whose channels lie side by side: the shape is [n, c, ...], the strides are those of a
// dense [n, ..., c]. Convolution, pooling and normalisation compute on these rows of c elements;
// functions from element to element keep their operand's strides, so that a network's activations
// stay in this layout until something needs the usual one.

// [n, c, ...] seen as [n, ..., c], and back: views.
Tensor rows_of(const Tensor& images);
Tensor images_of(const Tensor& rows);

// Dense as rows, and not dense in the usual order too (as with one channel).
bool is_channels_last(const Tensor& a);
Tensor empty_channels_last(const Shape& shape, DType dtype);
// `a` itself when its rows are dense.
Tensor channels_last(const Tensor& a);

// Where the rows of a dense matrix begin: what Kernels::transpose takes of each side.
inline std::vector<std::int64_t> row_offsets(std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) offsets.push_back(row * columns);
  return offsets;
}

// -- these do what their namesakes in hvd do, outside the graph: autograd
// records them. Results are contiguous and new, unless a comment says otherwise.

Tensor contiguous(const Tensor& a);  // `a` itself when it is
Tensor clone(const Tensor& a);
Tensor to(const Tensor& a, DType dtype);                  // `a` itself when it has this dtype
Tensor to_device(const Tensor& a, const Device& device);  // `a` itself when it is there

// Whether an element of one may lie where one of the other does; both are on one device.
bool may_overlap(const Tensor& a, const Tensor& b);
// `read`, or a copy where writing into `written` may change it.
Tensor apart_from(const Tensor& written, const Tensor& read);
// A tensor for a kernel's result of this shape and of a's dtype: `place`, if it is one and lies
// apart from what the kernel reads, else a new one.
Tensor in_place_of(const Tensor& place, Shape shape, const Tensor& a, const Tensor& b);

// Broadcasts and converts `source`, of any device, into `target`'s memory, which may not overlap it
// unless both are the same elements. Complex elements become complex ones only, else
// InvalidArgumentError.
void copy_into(const Tensor& target, const Tensor& source);
// Throws InvalidArgumentError if `value` does not fit (see require_fits).
void fill(const Tensor& target, double value);

// Not if an integer dtype does not reach to `value`, its fraction aside, or if `value` is neither 0
// nor 1 for bool.
bool fits(double value, DType dtype);
// Otherwise throws InvalidArgumentError naming `function`.
void require_fits(double value, DType dtype, const char* function);
// Throws InvalidArgumentError if integers or bools would lose the fraction of `value`.
void require_whole(double value, DType dtype);

}  // namespace hvd::kernels
