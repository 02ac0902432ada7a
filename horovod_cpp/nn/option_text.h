#pragma once

#include <cstdint>
#include <string>

#include "core/base/tensor_view.h"
#include "horovod_cpp/autograd/functions/window.h"

// Options as Module::extra_repr() prints them: Python's words, since PyTorch prints them so.
namespace hvd {
namespace nn {

std::string text_of(double value);         // "0.5", "1.0", "1e-05"
std::string text_of(bool value);           // "True", "False"
std::string text_of(const Shape& values);  // "(3, 4)", "(3,)"
// "3" where both are equal, else "(3, 4)".
std::string text_of(const IntPair& pair);

inline Shape shape_of(const IntPair& pair) {
  return {pair.height, pair.width};
}

// What a convolution is made with; what is as by default is left out. An entry for each axis.
struct ConvolutionText {
  std::int64_t in_channels;
  std::int64_t out_channels;
  Shape kernel_size;
  Shape stride;
  Shape padding;
  bool same_padding = false;
  Shape dilation;
  Shape output_padding = {};
  std::int64_t groups = 1;
  bool bias = true;
};
std::string text_of(const ConvolutionText& layer);

}  // namespace nn
}  // namespace hvd
