#pragma once

#include <memory>
#include <vector>

#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/normalization.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

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

enum class TransformerActivation { kReLU, kGELU };

struct TransformerEncoderLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::kReLU;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // normalises what enters attention and feed-forward, not their sums
};

// Masks as in AttentionOptions; undefined = none.
struct TransformerMasks {
  Tensor mask = {};              // [steps, steps] or [batch * heads, steps, steps]
  Tensor key_padding_mask = {};  // [batch, steps]
};

// Self-attention and two Linear layers, each with a residual connection and a LayerNorm (Vaswani et
// al., NIPS 2017). Input and output [steps, batch, d_model]. Sub-modules are named as PyTorch's:
// self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerEncoderLayerOptions& options = {});

  Tensor forward(const Tensor& input) override { return forward(input, {}); }
  Tensor forward(const Tensor& input, const TransformerMasks& masks);
  using Module::operator();
  Tensor operator()(const Tensor& input, const TransformerMasks& masks);

  // A new layer with the same options and the same values.
  std::shared_ptr<TransformerEncoderLayer> copy() const;

  std::shared_ptr<MultiheadAttention> self_attn;
  std::shared_ptr<Linear> linear1;
  std::shared_ptr<Dropout> dropout;
  std::shared_ptr<Linear> linear2;
  std::shared_ptr<LayerNorm> norm1;
  std::shared_ptr<LayerNorm> norm2;
  std::shared_ptr<Dropout> dropout1;
  std::shared_ptr<Dropout> dropout2;

 private:
  Tensor attend(const Tensor& input, const TransformerMasks& masks);
  Tensor feed_forward(const Tensor& input);

  std::int64_t d_model_;
  std::int64_t nhead_;
  TransformerEncoderLayerOptions options_;
};

// num_layers copies of a layer (as PyTorch's, all start equal) and perhaps a last normalisation:
// "layers.0", ..., "norm".
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     std::shared_ptr<LayerNorm> norm = nullptr);

  Tensor forward(const Tensor& input) override { return forward(input, {}); }
  Tensor forward(const Tensor& input, const TransformerMasks& masks);
  using Module::operator();
  Tensor operator()(const Tensor& input, const TransformerMasks& masks);

 private:
  std::vector<std::shared_ptr<TransformerEncoderLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace hvd::nn
