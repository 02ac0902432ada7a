#pragma once

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

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

}  // namespace nn
}  // namespace hvd
