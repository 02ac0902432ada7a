#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/layers/recurrent.h"
#include "horovod_cpp/nn/layers/transformer.h"

namespace hvd::python {
namespace {

template <typename Layer>
std::shared_ptr<Layer> make_recurrent(Integer input_size, Integer hidden_size, Integer num_layers,
                                      Flag<"bias"> bias, Flag<"batch_first"> batch_first,
                                      Number dropout, Flag<"bidirectional"> bidirectional) {
  return std::make_shared<Layer>(
      input_size, hidden_size,
      nn::RecurrentOptions{num_layers, bias, batch_first, dropout, bidirectional});
}

template <typename Layer>
LayerClass<Layer> recurrent_class(py::module_& m, const char* name, const char* doc) {
  LayerClass<Layer> cls(m, name, doc);
  cls.def(py::init(&make_recurrent<Layer>), py::arg("input_size"), py::arg("hidden_size"),
          py::arg("num_layers") = 1, py::arg("bias") = true, py::arg("batch_first") = false,
          py::arg("dropout") = 0.0, py::arg("bidirectional") = false);
  return cls;
}

Typed<"tuple[Tensor, tuple[Tensor, Tensor]]"> run_lstm(
    nn::LSTM& self, const Tensor& input, const std::optional<std::pair<Tensor, Tensor>>& hx) {
  const auto states = hx.value_or(std::pair<Tensor, Tensor>());
  const auto run = [&] {
    const WithoutGil nogil;
    return self(input, states.first, states.second);
  };
  const nn::LstmOutput result = run();
  return py::make_tuple(result.output, py::make_tuple(result.hidden, result.cell));
}

Typed<"tuple[Tensor, Tensor]"> run_gru(nn::GRU& self, const Tensor& input, const MaybeTensor& hx) {
  const auto run = [&] {
    const WithoutGil nogil;
    return self(input, or_none(hx));
  };
  const nn::GruOutput result = run();
  return py::make_tuple(result.output, result.hidden);
}

void bind_recurrent(py::module_& m) {
  const char* doc = R"(Run over a batch of sequences.

Args:
    input: [steps, batch, input_size] (batch_first: [batch, steps, input_size]).
    hx: the first state, [num_layers * directions, batch, hidden_size] each of a pair (h_0, c_0); None: zeros.

Returns:
    (output, (h_n, c_n)): output [steps, batch, directions * hidden_size], the last states.

Raises:
    InvalidArgumentError: shapes do not fit.)";
  recurrent_class<nn::LSTM>(
      m, "LSTM", R"(Long short-term memory over [steps, batch, input_size]; parameters as PyTorch's.

Args:
    input_size: extent of the input's last axis.
    hidden_size: extent of a state.
    num_layers: layers on top of each other.
    bias: whether they have one.
    batch_first: input and output are [batch, steps, ...].
    dropout: probability, in training, on the outputs of every layer but the last.
    bidirectional: also backwards; outputs lie side by side.

Raises:
    InvalidArgumentError: an option is out of range.)")
      .def("__call__", &run_lstm, py::arg("input"), py::arg("hx") = py::none(), doc)
      .def("forward", &run_lstm, py::arg("input"), py::arg("hx") = py::none(), doc);
  const char* gru_doc = R"(Run over a batch of sequences.

Args:
    input: [steps, batch, input_size] (batch_first: [batch, steps, input_size]).
    hx: the first state, [num_layers * directions, batch, hidden_size]; None: zeros.

Returns:
    (output, h_n): output [steps, batch, directions * hidden_size], the last state.

Raises:
    InvalidArgumentError: shapes do not fit.)";
  recurrent_class<nn::GRU>(
      m, "GRU", R"(Gated recurrent units over [steps, batch, input_size]; parameters as PyTorch's.

Args:
    input_size: extent of the input's last axis.
    hidden_size: extent of a state.
    num_layers: layers on top of each other.
    bias: whether they have one.
    batch_first: input and output are [batch, steps, ...].
    dropout: probability, in training, on the outputs of every layer but the last.
    bidirectional: also backwards; outputs lie side by side.

Raises:
    InvalidArgumentError: an option is out of range.)")
      .def("__call__", &run_gru, py::arg("input"), py::arg("hx") = py::none(), gru_doc)
      .def("forward", &run_gru, py::arg("input"), py::arg("hx") = py::none(), gru_doc);
}

Typed<"tuple[Tensor, Tensor | None]"> run_attention(
    nn::MultiheadAttention& self, const Tensor& query, const Tensor& key, const Tensor& value,
    const MaybeTensor& key_padding_mask, Flag<"need_weights"> need_weights,
    const MaybeTensor& attn_mask, Flag<"average_attn_weights"> average_attn_weights) {
  const nn::AttentionOptions options = {or_none(key_padding_mask), need_weights, or_none(attn_mask),
                                        average_attn_weights};
  const auto run = [&] {
    const WithoutGil nogil;
    return self(query, key, value, options);
  };
  const nn::AttentionResult result = run();
  return py::make_tuple(result.output, to_object(result.weights));
}

template <typename Cls>
void def_attention_call(Cls& cls, const char* name) {
  cls.def(name, &run_attention, py::arg("query"), py::arg("key"), py::arg("value"),
          py::arg("key_padding_mask") = py::none(), py::arg("need_weights") = true,
          py::arg("attn_mask") = py::none(), py::arg("average_attn_weights") = true,
          R"(The queries' attention to the keys.

Args:
    query: [queries, batch, embed_dim] (batch_first: [batch, queries, embed_dim]); of one sequence
        all arguments and results may be without the batch axis.
    key: [keys, batch, embed_dim], likewise.
    value: as ``key``.
    key_padding_mask: [batch, keys], bool (True: not to be attended to) or floating (added).
    need_weights: return them too.
    attn_mask: [queries, keys] or [batch * heads, queries, keys], likewise.
    average_attn_weights: return their mean over the heads.

Returns:
    (output, weights): output like ``query``; weights [batch, queries, keys], with heads after the
    batch if not averaged, or None.

Raises:
    InvalidArgumentError: shapes do not fit.)");
}

template <typename Layer>
Tensor run_encoder(Layer& self, const Tensor& src, const MaybeTensor& mask,
                   const MaybeTensor& key_padding_mask) {
  const nn::TransformerMasks masks = {or_none(mask), or_none(key_padding_mask)};
  const WithoutGil nogil;
  return self(src, masks);
}

template <typename Layer>
void def_encoder_call(LayerClass<Layer>& cls, const char* mask) {
  const std::string doc =
      std::string(R"(The output for one batch of sequences.

Args:
    src: [steps, batch, d_model] (batch_first: [batch, steps, d_model]).
    )") +
      mask +
      R"(: [steps, steps] or [batch * heads, steps, steps], as MultiheadAttention's attn_mask.
    src_key_padding_mask: [batch, steps], as MultiheadAttention's key_padding_mask.

Returns:
    A Tensor of the shape of ``src``.

Raises:
    InvalidArgumentError: shapes do not fit.)";
  for (const char* name : {"__call__", "forward"}) {
    cls.def(name, &run_encoder<Layer>, py::arg("src"), py::arg(mask) = py::none(),
            py::arg("src_key_padding_mask") = py::none(), doc.c_str());
  }
}

nn::TransformerActivation activation_from(const std::string& name) {
  if (name == "relu") return nn::TransformerActivation::kReLU;
  if (name == "gelu") return nn::TransformerActivation::kGELU;
  throw InvalidArgumentError("TransformerEncoderLayer: activation '" + name +
                             "': expected relu or gelu");
}

void bind_attention(py::module_& m) {
  LayerClass<nn::MultiheadAttention> attention(
      m, "MultiheadAttention",
      R"(Scaled dot products over several heads (Vaswani et al. 2017).

Args:
    embed_dim: extent of queries, keys and values.
    num_heads: divides embed_dim.
    dropout: probability on the weights, in training.
    bias: whether the projections have one.
    batch_first: tensors are [batch, steps, embed_dim].

Raises:
    InvalidArgumentError: num_heads does not divide embed_dim.)");
  attention.def(
      py::init([](Integer embed_dim, Integer num_heads, Number dropout, Flag<"bias"> bias,
                  Flag<"batch_first"> batch_first) {
        return std::make_shared<nn::MultiheadAttention>(
            embed_dim, num_heads, nn::MultiheadAttentionOptions{dropout, bias, batch_first});
      }),
      py::arg("embed_dim"), py::arg("num_heads"), py::arg("dropout") = 0.0, py::arg("bias") = true,
      py::arg("batch_first") = false);
  def_attention_call(attention, "__call__");
  def_attention_call(attention, "forward");
}

void bind_encoders(py::module_& m) {
  LayerClass<nn::TransformerEncoderLayer> layer(
      m, "TransformerEncoderLayer",
      R"(Self-attention and a feed-forward net, with residuals.

Args:
    d_model: extent of input and output.
    nhead: heads of the attention; divides d_model.
    dim_feedforward: width of the net.
    dropout: probability, in training.
    activation: "relu" or "gelu".
    layer_norm_eps: added to the variance.
    batch_first: tensors are [batch, steps, d_model].
    norm_first: normalise what enters attention and net, not their sums.

Raises:
    InvalidArgumentError: an option is out of range.)");
  layer.def(py::init([](Integer d_model, Integer nhead, Integer dim_feedforward, Number dropout,
                        const std::string& activation, Number layer_norm_eps,
                        Flag<"batch_first"> batch_first, Flag<"norm_first"> norm_first) {
              return std::make_shared<nn::TransformerEncoderLayer>(
                  d_model, nhead,
                  nn::TransformerEncoderLayerOptions{dim_feedforward, dropout,
                                                     activation_from(activation), layer_norm_eps,
                                                     batch_first, norm_first});
            }),
            py::arg("d_model"), py::arg("nhead"), py::arg("dim_feedforward") = 2048,
            py::arg("dropout") = 0.1, py::arg("activation") = "relu",
            py::arg("layer_norm_eps") = 1e-5, py::arg("batch_first") = false,
            py::arg("norm_first") = false);
  def_encoder_call(layer, "src_mask");
  LayerClass<nn::TransformerEncoder> encoder(
      m, "TransformerEncoder",
      R"(Copies of an encoder layer, perhaps a last LayerNorm.

Args:
    encoder_layer: the TransformerEncoderLayer that is copied, with its values.
    num_layers: how many.
    norm: a LayerNorm for the output; None: there is none.

Raises:
    InvalidArgumentError: fewer than one layer.)");
  encoder.def(
      py::init<const nn::TransformerEncoderLayer&, Integer, std::shared_ptr<nn::LayerNorm>>(),
      py::arg("encoder_layer"), py::arg("num_layers"), py::arg("norm") = py::none());
  def_encoder_call(encoder, "mask");
}

}  // namespace

void bind_nn_sequences(py::module_& m) {
  bind_recurrent(m);
  bind_attention(m);
  bind_encoders(m);
}

}  // namespace hvd::python
