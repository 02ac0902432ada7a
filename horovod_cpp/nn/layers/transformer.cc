#include "horovod_cpp/nn/layers/transformer.h"

#include "horovod_cpp/nn/checks.h"
#include "horovod_cpp/nn/functional.h"

namespace hvd {
namespace nn {

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerEncoderLayerOptions& options)
    : d_model_(d_model), nhead_(nhead), options_(options) {
  MultiheadAttentionOptions attention;
  attention.dropout = options.dropout;
  attention.batch_first = options.batch_first;
  self_attn =
      register_module("self_attn", std::make_shared<MultiheadAttention>(d_model, nhead, attention));
  linear1 = register_module("linear1", std::make_shared<Linear>(d_model, options.dim_feedforward));
  dropout = register_module("dropout", std::make_shared<Dropout>(options.dropout));
  linear2 = register_module("linear2", std::make_shared<Linear>(options.dim_feedforward, d_model));
  norm1 = register_module("norm1", std::make_shared<LayerNorm>(d_model, options.layer_norm_eps));
  norm2 = register_module("norm2", std::make_shared<LayerNorm>(d_model, options.layer_norm_eps));
  dropout1 = register_module("dropout1", std::make_shared<Dropout>(options.dropout));
  dropout2 = register_module("dropout2", std::make_shared<Dropout>(options.dropout));
}

Tensor TransformerEncoderLayer::attend(const Tensor& input, const TransformerMasks& masks) {
  AttentionOptions options;
  options.key_padding_mask = masks.key_padding_mask;
  options.need_weights = false;
  options.attn_mask = masks.mask;
  return (*dropout1)((*self_attn)(input, input, input, options).output);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& input) {
  const Tensor wide = (*linear1)(input);
  const bool gelu = options_.activation == TransformerActivation::kGELU;
  const Tensor active = gelu ? functional::gelu(wide) : functional::relu(wide);
  return (*dropout2)((*linear2)((*dropout)(active)));
}

Tensor TransformerEncoderLayer::forward(const Tensor& input) {
  return forward(input, {});
}

Tensor TransformerEncoderLayer::forward(const Tensor& input, const TransformerMasks& masks) {
  if (options_.norm_first) {
    const Tensor attended = input + attend((*norm1)(input), masks);
    return attended + feed_forward((*norm2)(attended));
  }
  const Tensor attended = (*norm1)(input + attend(input, masks));
  return (*norm2)(attended + feed_forward(attended));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& input, const TransformerMasks& masks) {
  return call(input, [&](const Tensor& given) { return forward(given, masks); });
}

std::shared_ptr<TransformerEncoderLayer> TransformerEncoderLayer::copy() const {
  auto result = std::make_shared<TransformerEncoderLayer>(d_model_, nhead_, options_);
  result->load_state_dict(state_dict());
  return result;
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer,
                                       std::int64_t num_layers, std::shared_ptr<LayerNorm> norm) {
  check_positive("TransformerEncoder", "num_layers", num_layers);
  const auto list = register_module("layers", std::make_shared<ModuleList>());
  for (std::int64_t i = 0; i < num_layers; ++i) {
    layers_.push_back(layer.copy());
    list->append(layers_.back());
  }
  if (norm != nullptr) norm_ = register_module("norm", std::move(norm));
}

Tensor TransformerEncoder::forward(const Tensor& input) {
  return forward(input, {});
}

Tensor TransformerEncoder::forward(const Tensor& input, const TransformerMasks& masks) {
  Tensor value = input;
  for (const auto& layer : layers_) value = (*layer)(value, masks);
  return norm_ == nullptr ? value : (*norm_)(value);
}

Tensor TransformerEncoder::operator()(const Tensor& input, const TransformerMasks& masks) {
  return call(input, [&](const Tensor& given) { return forward(given, masks); });
}

}  // namespace nn
}  // namespace hvd
