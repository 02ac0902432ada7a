#pragma once

#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// Masks are bool (or uint8), true where attention is forbidden, or floating and added to the
// scores.
struct AttentionOptions {
  Tensor key_padding_mask = {};  // [batch, keys] or undefined
  bool need_weights = true;
  Tensor attn_mask = {};  // [queries, keys] or [batch * heads, queries, keys] or undefined
  bool average_attn_weights = true;
};

struct AttentionResult {
  Tensor output;   // like the query
  Tensor weights;  // [batch, queries, keys], or [batch, heads, queries, keys] if not averaged;
                   // undefined unless need_weights
};

struct MultiheadAttentionOptions {
  double dropout = 0.0;  // on the weights, in training
  bool bias = true;
  bool batch_first = false;  // tensors are [batch, steps, embed_dim]
};

// Vaswani et al.: "Attention is all you need", NIPS 2017. query [queries, batch, embed_dim], key
// and value [keys, batch, embed_dim]. Parameters are PyTorch's: in_proj_weight [3 embed_dim,
// embed_dim] (Xavier uniform), in_proj_bias, out_proj. Of one sequence query, key, value, padding
// mask and results may be without their batch axis.
class MultiheadAttention : public Module {
 public:
  // Throws InvalidArgumentError unless num_heads divides embed_dim.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  // Attention of the input to itself, without masks.
  Tensor forward(const Tensor& input) override;
  AttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options = {});
  using Module::operator();
  AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionOptions& options = {});

  Tensor in_proj_weight;
  Tensor in_proj_bias;  // undefined without bias
  std::shared_ptr<Linear> out_proj;

 private:
  struct Extents {
    std::int64_t batch, queries, keys;
  };
  void parameter_replaced(const Tensor& old, const Tensor& value) override;
  Extents check(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor project(const Tensor& input, std::int64_t part) const;
  // [steps, batch, embed_dim] -> [batch * heads, steps, head_dim]
  Tensor split_heads(const Tensor& projected) const;

  std::int64_t embed_dim_;
  std::int64_t num_heads_;
  MultiheadAttentionOptions options_;
};

}  // namespace nn
}  // namespace hvd
