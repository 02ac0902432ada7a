#pragma once

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

// What the convolutions share: their parameters start as PyTorch's (init::layer_default_), and
// their constructors throw InvalidArgumentError naming the invalid argument.
class Convolution : public Module {
 public:
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // [out_channels]; undefined without one

 protected:
  // What a layer is made with. Shapes have an entry for each axis of the images.
  struct Arguments {
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
  // `layer` is named in errors. A transposed one has the input's channels first in its weight.
  Convolution(const char* layer, Arguments arguments, bool transposed = false);

 private:
  Arguments arguments_;
};

template <typename Extent>
struct ConvOptions {
  Extent stride = 1;
  ConvPadding padding = 0;
  Extent dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};
using Conv1dOptions = ConvOptions<std::int64_t>;
using Conv2dOptions = ConvOptions<IntPair>;

// [n, in_channels, l] -> [n, out_channels, l'] as hvd::conv1d: weight [out_channels, in_channels /
// groups, kernel_size].
class Conv1d : public Convolution {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});
  Tensor forward(const Tensor& input) override {
    return conv1d(input, weight, bias, options_.stride, options_.padding, options_.dilation,
                  options_.groups);
  }

 private:
  Conv1dOptions options_;
};

// [n, in_channels, h, w] -> [n, out_channels, h', w'] as hvd::conv2d: weight [out_channels,
// in_channels / groups, kernel...].
class Conv2d : public Convolution {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         Conv2dOptions options);
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         IntPair stride = 1, ConvPadding padding = 0, bool with_bias = true)
      : Conv2d(in_channels, out_channels, kernel_size,
               Conv2dOptions{.stride = stride, .padding = padding, .bias = with_bias}) {}
  Tensor forward(const Tensor& input) override {
    return conv2d(input, weight, bias, options_.stride, options_.padding, options_.dilation,
                  options_.groups);
  }

 private:
  Conv2dOptions options_;
};

struct ConvTranspose2dOptions {
  IntPair stride = 1;
  IntPair padding = 0;
  IntPair output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  IntPair dilation = 1;
};

// [n, in_channels, h, w] -> [n, out_channels, h', w'] as hvd::conv_transpose2d: weight
// [in_channels, out_channels / groups, kernel...].
class ConvTranspose2d : public Convolution {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
                  ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& input) override {
    return conv_transpose2d(input, weight, bias, options_.stride, options_.padding,
                            options_.output_padding, options_.groups, options_.dilation);
  }

 private:
  ConvTranspose2dOptions options_;
};

// The largest of each kernel_size x kernel_size window of [n, c, h, w]. A stride of 0 means
// kernel_size.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(int kernel_size, int stride = 0, int padding = 0, bool ceil_mode = false)
      : MaxPool2d(Pool2dOptions{kernel_size, stride, padding, ceil_mode}) {}
  explicit MaxPool2d(const Pool2dOptions& options);
  Tensor forward(const Tensor& input) override { return max_pool2d(input, options_); }
  std::string extra_repr() const override;

 private:
  Pool2dOptions options_;
};

// The mean of each window; see Pool2dOptions for what padding counts.
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(int kernel_size, int stride = 0, int padding = 0, bool ceil_mode = false,
                     bool count_include_pad = true)
      : AvgPool2d(Pool2dOptions{kernel_size, stride, padding, ceil_mode, count_include_pad}) {}
  explicit AvgPool2d(const Pool2dOptions& options);
  Tensor forward(const Tensor& input) override { return avg_pool2d(input, options_); }
  std::string extra_repr() const override;

 private:
  Pool2dOptions options_;
};

// [n, c, h, w] -> [n, c, output_size]: means over windows that cover the input evenly.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(IntPair output_size);
  Tensor forward(const Tensor& input) override { return adaptive_avg_pool2d(input, output_size_); }
  std::string extra_repr() const override;

 private:
  IntPair output_size_;
};

}  // namespace hvd::nn
