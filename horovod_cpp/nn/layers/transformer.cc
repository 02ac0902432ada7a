#include "horovod_cpp/nn/layers/transformer.h"

#include <cmath>
#include <limits>

#include "core/base/status.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/options.h"

namespace hvd::nn {
namespace {

// What is added to the scores: -infinity where a bool mask is true; a floating mask itself.
Tensor additive(const Tensor& mask, DType dtype, const char* what) {
  if (is_floating(mask.dtype())) return mask.to(dtype);
  if (mask.dtype() != DType::kBool && mask.dtype() != DType::kU8) {
    throw InvalidArgumentError(what, " is ", mask.dtype(), ": expected bool or a floating dtype");
  }
  return masked_fill(Tensor::zeros(mask.shape(), dtype), mask.to(DType::kBool),
                     -std::numeric_limits<double>::infinity());
}

void require_shape(const Tensor& mask, const std::vector<Shape>& expected, const char* what) {
  std::string names;
  for (const Shape& shape : expected) {
    if (mask.shape() == shape) return;
    names += (names.empty() ? "" : " or ") + to_string(shape);
  }
  throw InvalidArgumentError(what, " ", mask.shape(), ": expected ", names);
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : embed_dim_(embed_dim), num_heads_(num_heads), options_(options) {
  check_positive("MultiheadAttention", "embed_dim", embed_dim);
  check_positive("MultiheadAttention", "num_heads", num_heads);
  check_fraction("MultiheadAttention", "dropout", options.dropout);
  if (embed_dim % num_heads != 0) {
    throw InvalidArgumentError("MultiheadAttention: embed_dim=", embed_dim,
                               " does not divide into num_heads=", num_heads);
  }
  in_proj_weight = register_parameter("in_proj_weight", Tensor::empty({3 * embed_dim, embed_dim}));
  init::xavier_uniform_(in_proj_weight);
  if (options.bias)
    in_proj_bias = register_parameter("in_proj_bias", Tensor::zeros({3 * embed_dim}));
  out_proj = register_module("out_proj", Linear(embed_dim, embed_dim, options.bias));
  if (options.bias) init::zeros_(out_proj->bias);
}

void MultiheadAttention::parameter_replaced(const Tensor& old, const Tensor& value) {
  for (Tensor* own : {&in_proj_weight, &in_proj_bias}) {
    if (own->is(old)) *own = value;
  }
}

MultiheadAttention::Extents MultiheadAttention::check(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  const std::int64_t batch_axis = options_.batch_first ? 0 : 1;
  const bool fits = query.dim() == 3 && key.dim() == 3 && key.shape() == value.shape() &&
                    query.size(2) == embed_dim_ && key.size(2) == embed_dim_ &&
                    query.size(batch_axis) == key.size(batch_axis);
  if (!fits) {
    throw InvalidArgumentError("query ", query.shape(), ", key ", key.shape(), " and value ",
                               value.shape(), " do not fit embed_dim ", embed_dim_);
  }
  return {query.size(batch_axis), query.size(1 - batch_axis), key.size(1 - batch_axis)};
}

Tensor MultiheadAttention::project(const Tensor& input, std::int64_t part) const {
  const std::int64_t begin = part * embed_dim_;
  const Tensor weight = in_proj_weight.slice(0, begin, begin + embed_dim_);
  const Tensor bias =
      in_proj_bias.defined() ? in_proj_bias.slice(0, begin, begin + embed_dim_) : in_proj_bias;
  return functional::linear(input, weight, bias);
}

Tensor MultiheadAttention::split_heads(const Tensor& projected) const {
  const std::int64_t steps = projected.size(0);
  return projected.reshape({steps, projected.size(1) * num_heads_, embed_dim_ / num_heads_})
      .transpose(0, 1);
}

Tensor MultiheadAttention::forward(const Tensor& input) {
  AttentionOptions options;
  options.need_weights = false;
  return forward(input, input, input, options).output;
}

AttentionResult MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                            const Tensor& value, const AttentionOptions& options) {
  if (query.dim() == 2 && key.dim() == 2 && value.dim() == 2) {  // one sequence, no batch axis
    const std::int64_t batch_axis = options_.batch_first ? 0 : 1;
    AttentionOptions batched = options;
    if (options.key_padding_mask.defined()) {
      require_shape(options.key_padding_mask, {{key.size(0)}}, "key_padding_mask");
      batched.key_padding_mask = options.key_padding_mask.unsqueeze(0);
    }
    AttentionResult result = forward(query.unsqueeze(batch_axis), key.unsqueeze(batch_axis),
                                     value.unsqueeze(batch_axis), batched);
    result.output = result.output.squeeze(batch_axis);
    if (result.weights.defined()) result.weights = result.weights.squeeze(0);
    return result;
  }
  const auto [batch, queries, keys] = check(query, key, value);
  const auto steps_first = [this](const Tensor& tensor) {
    return options_.batch_first ? tensor.transpose(0, 1) : tensor;
  };
  const std::int64_t head_dim = embed_dim_ / num_heads_;
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const Tensor q = split_heads(project(steps_first(query), 0) * scale);
  const Tensor k = split_heads(project(steps_first(key), 1));
  const Tensor v = split_heads(project(steps_first(value), 2));
  Tensor scores = matmul(q, k.transpose(1, 2));
  if (options.attn_mask.defined()) {
    require_shape(options.attn_mask, {{queries, keys}, {batch * num_heads_, queries, keys}},
                  "attn_mask");
    scores = scores + additive(options.attn_mask, scores.dtype(), "attn_mask");
  }
  if (options.key_padding_mask.defined()) {
    require_shape(options.key_padding_mask, {{batch, keys}}, "key_padding_mask");
    const Tensor mask = additive(options.key_padding_mask, scores.dtype(), "key_padding_mask");
    scores = scores + mask.reshape({batch, 1, keys})
                          .expand({batch, num_heads_, keys})
                          .reshape({batch * num_heads_, 1, keys});
  }
  const Tensor weights = dropout(softmax(scores, -1), options_.dropout, is_training());
  const Tensor joined = matmul(weights, v).transpose(0, 1).reshape({queries, batch, embed_dim_});
  AttentionResult result;
  result.output = (*out_proj)(joined);
  if (options_.batch_first) result.output = result.output.transpose(0, 1).contiguous();
  if (!options.need_weights) return result;
  result.weights = weights.reshape({batch, num_heads_, queries, keys});
  if (options.average_attn_weights) result.weights = mean(result.weights, {1});
  return result;
}

AttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                               const Tensor& value,
                                               const AttentionOptions& options) {
  return call_with_outputs(*this, query, &AttentionResult::output, [&](const Tensor& given) {
    return forward(given, key, value, options);
  });
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerEncoderLayerOptions& options)
    : d_model_(d_model), nhead_(nhead), options_(options) {
  MultiheadAttentionOptions attention;
  attention.dropout = options.dropout;
  attention.batch_first = options.batch_first;
  self_attn = register_module("self_attn", MultiheadAttention(d_model, nhead, attention));
  linear1 = register_module("linear1", Linear(d_model, options.dim_feedforward));
  dropout = register_module("dropout", Dropout(options.dropout));
  linear2 = register_module("linear2", Linear(options.dim_feedforward, d_model));
  norm1 = register_module("norm1", LayerNorm(d_model, options.layer_norm_eps));
  norm2 = register_module("norm2", LayerNorm(d_model, options.layer_norm_eps));
  dropout1 = register_module("dropout1", Dropout(options.dropout));
  dropout2 = register_module("dropout2", Dropout(options.dropout));
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

Tensor TransformerEncoder::forward(const Tensor& input, const TransformerMasks& masks) {
  Tensor value = input;
  for (const auto& layer : layers_) value = (*layer)(value, masks);
  return norm_ == nullptr ? value : (*norm_)(value);
}

Tensor TransformerEncoder::operator()(const Tensor& input, const TransformerMasks& masks) {
  return call(input, [&](const Tensor& given) { return forward(given, masks); });
}

}  // namespace hvd::nn
