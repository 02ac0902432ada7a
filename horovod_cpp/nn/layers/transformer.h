#pragma once

#include <memory>
#include <vector>

#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/layers/attention.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/normalization.h"

namespace hvd {
namespace nn {

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

  Tensor forward(const Tensor& input) override;
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

  Tensor forward(const Tensor& input) override;
  Tensor forward(const Tensor& input, const TransformerMasks& masks);
  using Module::operator();
  Tensor operator()(const Tensor& input, const TransformerMasks& masks);

 private:
  std::vector<std::shared_ptr<TransformerEncoderLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace nn
}  // namespace hvd
