#include "horovod_cpp/nn/layers/basic.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/init.h"

namespace hvd::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
  check_positive("Linear", "in_features", in_features);
  check_positive("Linear", "out_features", out_features);
  weight = register_parameter("weight", Tensor::empty({out_features, in_features}));
  if (with_bias) bias = register_parameter("bias", Tensor::empty({out_features}));
  init::layer_default_(weight, bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(weight.size(1)) +
         ", out_features=" + std::to_string(weight.size(0)) + ", bias=" + text_of(bias.defined());
}

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     std::optional<std::int64_t> padding_idx, bool sparse)
    : padding_idx_(padding_idx), sparse_(sparse) {
  check_positive("Embedding", "num_embeddings", num_embeddings);
  check_positive("Embedding", "embedding_dim", embedding_dim);
  if (padding_idx && (*padding_idx < -num_embeddings || *padding_idx >= num_embeddings)) {
    throw InvalidArgumentError("Embedding: padding_idx=", *padding_idx, ": expected a row of ",
                               num_embeddings);
  }
  weight = register_parameter("weight", Tensor::empty({num_embeddings, embedding_dim}));
  if (sparse) expect_row_gradients(weight);
  init::normal_(weight);
  if (padding_idx) init::zeros_(weight.detach().select(0, *padding_idx));
}

void Embedding::parameter_replaced(const Tensor& /*old*/, const Tensor& value) {
  if (sparse_) expect_row_gradients(value);
}

std::string Embedding::extra_repr() const {
  const std::int64_t rows = weight.size(0);
  std::string text = std::to_string(rows) + ", " + std::to_string(weight.size(1));
  if (padding_idx_) {
    const std::int64_t row = *padding_idx_ < 0 ? *padding_idx_ + rows : *padding_idx_;
    text += ", padding_idx=" + std::to_string(row);
  }
  return sparse_ ? text + ", sparse=True" : text;
}

}  // namespace hvd::nn
