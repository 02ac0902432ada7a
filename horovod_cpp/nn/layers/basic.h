#pragma once

#include <optional>
#include <string>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"
#include "horovod_cpp/nn/options.h"

namespace hvd::nn {

// [..., in_features] -> [..., out_features]: input * weight^T + bias, with weight
// [out_features, in_features] and bias [out_features]. Starts as PyTorch's (init::layer_default_).
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& input) override { return linear(input, weight, bias); }
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one
};

// The input itself: stands where a model leaves a layer out.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& input) override { return input; }
};

// Joins the axes from start_dim on into one: [n, c, h, w] -> [n, c * h * w] by default.
class Flatten : public Module {
 public:
  explicit Flatten(std::int64_t start_dim = 1) : start_dim_(start_dim) {}
  Tensor forward(const Tensor& input) override { return input.flatten(start_dim_); }
  std::string extra_repr() const override {
    return "start_dim=" + std::to_string(start_dim_) + ", end_dim=-1";
  }

 private:
  std::int64_t start_dim_;
};

// In training: zeroes each element with probability p and scales the rest by 1 / (1 - p), drawing
// from the thread's default generator. In evaluation: the input itself.
class Dropout : public Module {
 public:
  // Throws InvalidArgumentError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5) : p_(p) { check_fraction("Dropout", "p", p); }
  Tensor forward(const Tensor& input) override { return dropout(input, p_, is_training()); }
  std::string extra_repr() const override { return "p=" + text_of(p_) + ", inplace=False"; }

 private:
  double p_;
};

// int64 indices of any shape -> [..., embedding_dim]: a row of weight [num_embeddings,
// embedding_dim] for each. The weight starts normal; the row padding_idx (negative: from the end)
// starts at zero and gets no gradient. With `sparse` the weight's gradient keeps only the rows that
// were read, until all of it is asked for (autograd/row_gradient.h).
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
            std::optional<std::int64_t> padding_idx = std::nullopt, bool sparse = false);
  Tensor forward(const Tensor& input) override {
    return embedding(input, weight, padding_idx_, sparse_);
  }
  std::string extra_repr() const override;

  Tensor weight;

 private:
  void parameter_replaced(const Tensor& old, const Tensor& value) override;

  std::optional<std::int64_t> padding_idx_;
  bool sparse_;
};

// Elementwise except the softmaxes; the functions' contracts are in
// autograd/functions/functions.h.

// max(input, 0), elementwise.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& input) override { return relu(input); }
};

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor forward(const Tensor& input) override { return leaky_relu(input, negative_slope_); }
  std::string extra_repr() const override { return "negative_slope=" + text_of(negative_slope_); }

 private:
  double negative_slope_;
};

class GELU : public Module {
 public:
  explicit GELU(GeluApproximate approximate = GeluApproximate::kNone) : approximate_(approximate) {}
  Tensor forward(const Tensor& input) override { return gelu(input, approximate_); }
  std::string extra_repr() const override {
    return approximate_ == GeluApproximate::kNone ? "approximate='none'" : "approximate='tanh'";
  }

 private:
  GeluApproximate approximate_;
};

class SiLU : public Module {
 public:
  Tensor forward(const Tensor& input) override { return silu(input); }
};

class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& input) override { return sigmoid(input); }
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& input) override { return tanh(input); }
};

// Along the axis `dim`; negative counts from the end.
class Softmax : public Module {
 public:
  explicit Softmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override { return softmax(input, dim_); }
  std::string extra_repr() const override { return "dim=" + std::to_string(dim_); }

 private:
  std::int64_t dim_;
};

class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(std::int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& input) override { return log_softmax(input, dim_); }
  std::string extra_repr() const override { return "dim=" + std::to_string(dim_); }

 private:
  std::int64_t dim_;
};

}  // namespace hvd::nn
