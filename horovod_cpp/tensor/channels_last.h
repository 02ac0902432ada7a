#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Images whose channels lie side by side: the shape is [n, c, ...], the strides are those of a
// dense [n, ..., c]. Convolution, pooling and normalisation compute on these rows of c elements;
// functions from element to element keep their operand's strides, so that a network's activations
// stay in this layout until something needs the usual one.
namespace hvd {
namespace kernels {

// [n, c, ...] seen as [n, ..., c], and back: views.
Tensor rows_of(const Tensor& images);
Tensor images_of(const Tensor& rows);

// Dense as rows, and not dense in the usual order too (as with one channel).
bool is_channels_last(const Tensor& a);
Tensor empty_channels_last(const Shape& shape, DType dtype);
// `a` itself when its rows are dense.
Tensor channels_last(const Tensor& a);

}  // namespace kernels
}  // namespace hvd
