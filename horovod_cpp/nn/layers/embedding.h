#pragma once

#include <optional>

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// int64 indices of any shape -> [..., embedding_dim]: a row of weight [num_embeddings,
// embedding_dim] for each. The weight starts normal; the row padding_idx (negative: from the end)
// starts at zero and gets no gradient. With `sparse` the weight's gradient keeps only the rows that
// were read, until somebody asks for all of it (autograd/row_gradient.h).
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
            std::optional<std::int64_t> padding_idx = std::nullopt, bool sparse = false);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;

 private:
  void parameter_replaced(const Tensor& old, const Tensor& value) override;

  std::optional<std::int64_t> padding_idx_;
  bool sparse_;
};

}  // namespace nn
}  // namespace hvd
