#pragma once

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"

// Elementwise but for the softmaxes; the functions' contracts are in
// autograd/functions/functions.h.
namespace hvd {
namespace nn {

// max(input, 0), elementwise.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double negative_slope_;
};

class GELU : public Module {
 public:
  explicit GELU(GeluApproximate approximate = GeluApproximate::kNone) : approximate_(approximate) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  GeluApproximate approximate_;
};

class SiLU : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

// Along the axis `dim`; negative counts from the end.
class Softmax : public Module {
 public:
  explicit Softmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t dim_;
};

class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t dim_;
};

}  // namespace nn
}  // namespace hvd
