#include "horovod_cpp/nn/layers/embedding.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/embedding.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/option_text.h"

namespace hvd {
namespace nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     std::optional<std::int64_t> padding_idx, bool sparse)
    : padding_idx_(padding_idx), sparse_(sparse) {
  check_positive("Embedding", "num_embeddings", num_embeddings);
  check_positive("Embedding", "embedding_dim", embedding_dim);
  if (padding_idx && (*padding_idx < -num_embeddings || *padding_idx >= num_embeddings)) {
    throw InvalidArgumentError("Embedding: padding_idx=" + std::to_string(*padding_idx) +
                               ": expected a row of " + std::to_string(num_embeddings));
  }
  weight = register_parameter("weight", Tensor::empty({num_embeddings, embedding_dim}));
  if (sparse) expect_row_gradients(weight);
  init::normal_(weight);
  if (padding_idx) init::zeros_(weight.detach().select(0, *padding_idx));
}

Tensor Embedding::forward(const Tensor& input) {
  return embedding(input, weight, padding_idx_, sparse_);
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

}  // namespace nn
}  // namespace hvd
