#pragma once

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"
#include "horovod_cpp/nn/options.h"

// What the constructors of convolutions refuse, as nn/options.h.
namespace hvd::nn {

inline void check_pair(const char* layer, const char* argument, IntPair pair, std::int64_t least) {
  check_at_least(layer, argument, pair.height, least);
  check_at_least(layer, argument, pair.width, least);
}

inline void check_channels(const char* layer, std::int64_t in_channels, std::int64_t out_channels,
                           std::int64_t groups) {
  check_positive(layer, "in_channels", in_channels);
  check_positive(layer, "out_channels", out_channels);
  check_positive(layer, "groups", groups);
  if (in_channels % groups == 0 && out_channels % groups == 0) return;
  throw InvalidArgumentError(std::string(layer) + ": in_channels=" + std::to_string(in_channels) +
                             " and out_channels=" + std::to_string(out_channels) +
                             ": expected multiples of groups=" + std::to_string(groups));
}

inline void check_padding(const char* layer, const ConvPadding& padding, IntPair stride) {
  check_pair(layer, "padding", padding.size, 0);
  if (!padding.same || (stride.height == 1 && stride.width == 1)) return;
  throw InvalidArgumentError(std::string(layer) + ": padding 'same' needs a stride of 1");
}

struct Conv1dOptions {
  std::int64_t stride = 1;
  ConvPadding padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// [n, in_channels, l] -> [n, out_channels, l'] as hvd::conv1d: weight [out_channels, in_channels /
// groups, kernel_size], bias [out_channels]. Starts and throws as Conv2d.
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one

 private:
  Conv1dOptions options_;
};

struct Conv2dOptions {
  IntPair stride = 1;
  ConvPadding padding = 0;
  IntPair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// [n, in_channels, h, w] -> [n, out_channels, h', w'] as hvd::conv2d: weight [out_channels,
// in_channels / groups, kernel...], bias [out_channels]. Starts as PyTorch's
// (init::layer_default_). Throws InvalidArgumentError naming the argument that makes no sense.
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         Conv2dOptions options);
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
         IntPair stride = 1, ConvPadding padding = 0, bool with_bias = true)
      : Conv2d(in_channels, out_channels, kernel_size,
               Conv2dOptions{.stride = stride, .padding = padding, .bias = with_bias}) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one

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
// [in_channels, out_channels / groups, kernel...], bias [out_channels]. Starts and throws as
// Conv2d.
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
                  ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one

 private:
  ConvTranspose2dOptions options_;
};

// The largest of each kernel_size x kernel_size window of [n, c, h, w]. A stride of 0 means
// kernel_size.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(int kernel_size, int stride = 0, int padding = 0, bool ceil_mode = false);
  explicit MaxPool2d(const Pool2dOptions& options);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  Pool2dOptions options_;
};

// The mean of each window; see Pool2dOptions for what padding counts.
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(int kernel_size, int stride = 0, int padding = 0, bool ceil_mode = false,
                     bool count_include_pad = true);
  explicit AvgPool2d(const Pool2dOptions& options);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  Pool2dOptions options_;
};

// [n, c, h, w] -> [n, c, output_size]: means over windows that cover the input evenly.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(IntPair output_size);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  IntPair output_size_;
};

}  // namespace hvd::nn
