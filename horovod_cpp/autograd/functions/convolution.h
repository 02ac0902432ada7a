#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>

#include "horovod_cpp/tensor/tensor.h"

// Convolutions with PyTorch's arguments and order of arguments; cross-correlation, zero padding.
// Everything is floating and of one dtype. Shapes and options that do not fit throw
// InvalidArgumentError naming the function, the shapes and the option. Results of images may be
// strided "channels last" (a dense [n, h, w, c] under the shape [n, c, h, w]); contiguous() gives
// the usual order.
namespace hvd {

// Images, windows, strides and paddings are not larger, so that arithmetic with them is exact.
inline constexpr std::int64_t kMostExtent = std::numeric_limits<std::int32_t>::max();

// An extent along the height and one along the width; one number stands for both.
struct IntPair {
  // Implicit: kernel_size = 3 means {3, 3}.
  IntPair(std::int64_t both) : height(both), width(both) {}
  IntPair(int both) : height(both), width(both) {}
  IntPair(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  friend bool operator==(const IntPair&, const IntPair&) = default;
  // Whether both are from `least` to kMostExtent.
  bool is_within(std::int64_t least) const {
    return height >= least && width >= least && height <= kMostExtent && width <= kMostExtent;
  }

  std::int64_t height;
  std::int64_t width;
};

// In the place of an extent of adaptive_avg_pool2d's output_size: the input's.
inline constexpr std::int64_t kInputExtent = std::numeric_limits<std::int64_t>::min();

// Zeros on each side of the images: how many, or "valid" (none), or "same": as many as keep the
// extent at a stride of 1, one more after the image than before it where the number is odd.
struct ConvPadding {
  template <std::integral Number>
  ConvPadding(Number both) : size(both) {}
  ConvPadding(std::int64_t h, std::int64_t w) : size(h, w) {}
  ConvPadding(IntPair pair) : size(pair) {}
  // Throws InvalidArgumentError naming any other word.
  ConvPadding(std::string_view word);
  ConvPadding(const char* word) : ConvPadding(std::string_view(word)) {}

  bool same = false;
  IntPair size = 0;  // unless `same`
};

// input [n, ci, h, w], weight [co, ci / groups, kh, kw], bias [co] or undefined -> [n, co, oh, ow],
// oh = (h + 2 padding - dilation (kh - 1) - 1) / stride + 1, rounded down.
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              IntPair stride = 1, ConvPadding padding = 0, IntPair dilation = 1,
              std::int64_t groups = 1);

// input [n, ci, l], weight [co, ci / groups, k] -> [n, co, ol]; of `padding` the width counts.
Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
              std::int64_t stride = 1, ConvPadding padding = 0, std::int64_t dilation = 1,
              std::int64_t groups = 1);

// The gradient of conv2d to its input as a function of its own (Zeiler, Krishnan, Taylor, Fergus:
// "Deconvolutional networks", CVPR 2010). input [n, ci, h, w], weight [ci, co / groups, kh, kw] ->
// [n, co, oh, ow], oh = (h - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1;
// output_padding is smaller than the stride or the dilation.
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias = {},
                        IntPair stride = 1, IntPair padding = 0, IntPair output_padding = 0,
                        std::int64_t groups = 1, IntPair dilation = 1);

}  // namespace hvd
