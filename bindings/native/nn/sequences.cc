#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

#include "bindings/native/nn/nn.h"
#include "horovod_cpp/nn/layers/recurrent.h"
#include "horovod_cpp/nn/layers/transformer.h"

namespace hvd::python {
namespace {

constexpr Invalid kBadOption{"an option is out of range."};
constexpr Invalid kBadShapes{"shapes do not fit."};

// Two sizes and the fields of `Options`.
template <typename Layer, typename Options, typename... Given>
std::shared_ptr<Layer> make(Integer first, Integer second, const Given&... given) {
  return std::make_shared<Layer>(first, second, Options{given...});
}

Typed<"tuple[Tensor, tuple[Tensor, Tensor]]"> run_lstm(
    nn::LSTM& self, const Tensor& input, const std::optional<std::pair<Tensor, Tensor>>& hx) {
  const auto states = hx.value_or(std::pair<Tensor, Tensor>());
  const nn::LstmOutput result =
      without_gil([&] { return self(input, states.first, states.second); });
  return py::make_tuple(result.output, py::make_tuple(result.hidden, result.cell));
}

Typed<"tuple[Tensor, Tensor]"> run_gru(nn::GRU& self, const Tensor& input, const MaybeTensor& hx) {
  const nn::GruOutput result = without_gil([&] { return self(input, native(hx)); });
  return py::make_tuple(result.output, result.hidden);
}

template <typename Layer, typename Run>
void bind_recurrent_layer(py::module_& m, const char* name, const char* what, Run run,
                          const char* state, const char* returns) {
  auto cls = define_layer<Layer>(
      m, name, what,
      py::init(&make<Layer, nn::RecurrentOptions, Integer, Flag<"bias">, Flag<"batch_first">,
                     Number, Flag<"bidirectional">>),
      Arg("input_size", "extent of the input's last axis."),
      Arg("hidden_size", "extent of a state."),
      Arg("num_layers", "layers on top of each other.") = 1,
      Arg("bias", "whether they have one.") = true,
      Arg("batch_first", "input and output are [batch, steps, ...].") = false,
      Arg("dropout", "probability, in training, on the outputs of every layer but the last.") = 0.0,
      Arg("bidirectional", "also backwards; outputs lie side by side.") = false, kBadOption);
  for (const char* call : {"__call__", "forward"}) {
    define(cls, call, run, "Run over a batch of sequences.",
           Arg("input", "[steps, batch, input_size] (batch_first: [batch, steps, input_size])."),
           Arg("hx", state) = py::none(), Returns{returns}, kBadShapes);
  }
}

void bind_recurrent(py::module_& m) {
  bind_recurrent_layer<nn::LSTM>(
      m, "LSTM", "Long short-term memory over [steps, batch, input_size]; parameters as PyTorch's.",
      &run_lstm,
      "the first state, [num_layers * directions, batch, hidden_size] each of a pair (h_0, c_0); "
      "None: zeros.",
      "(output, (h_n, c_n)): output [steps, batch, directions * hidden_size], the last states.");
  bind_recurrent_layer<nn::GRU>(
      m, "GRU", "Gated recurrent units over [steps, batch, input_size]; parameters as PyTorch's.",
      &run_gru, "the first state, [num_layers * directions, batch, hidden_size]; None: zeros.",
      "(output, h_n): output [steps, batch, directions * hidden_size], the last state.");
}

Typed<"tuple[Tensor, Tensor | None]"> run_attention(
    nn::MultiheadAttention& self, const Tensor& query, const Tensor& key, const Tensor& value,
    const MaybeTensor& key_padding_mask, Flag<"need_weights"> need_weights,
    const MaybeTensor& attn_mask, Flag<"average_attn_weights"> average_attn_weights) {
  const nn::AttentionOptions options = {native(key_padding_mask), need_weights, native(attn_mask),
                                        average_attn_weights};
  const nn::AttentionResult result = without_gil([&] { return self(query, key, value, options); });
  return py::make_tuple(result.output, to_object(result.weights));
}

template <typename Layer>
Tensor run_encoder(Layer& self, const Tensor& src, const MaybeTensor& mask,
                   const MaybeTensor& key_padding_mask) {
  const nn::TransformerMasks masks = {native(mask), native(key_padding_mask)};
  const WithoutGil nogil;
  return self(src, masks);
}

template <typename Layer>
void def_encoder_call(LayerClass<Layer>& cls, const char* mask) {
  for (const char* name : {"__call__", "forward"}) {
    define(
        cls, name, &run_encoder<Layer>, "The output for one batch of sequences.",
        Arg("src", "[steps, batch, d_model] (batch_first: [batch, steps, d_model])."),
        Arg(mask,
            "[steps, steps] or [batch * heads, steps, steps], as MultiheadAttention's attn_mask.") =
            py::none(),
        Arg("src_key_padding_mask", "[batch, steps], as MultiheadAttention's key_padding_mask.") =
            py::none(),
        Returns{"A Tensor of the shape of ``src``."}, kBadShapes);
  }
}

nn::TransformerActivation activation_from(const std::string& name) {
  return named_value<nn::TransformerActivation>(
      "TransformerEncoderLayer: activation", name,
      {{"relu", nn::TransformerActivation::kReLU}, {"gelu", nn::TransformerActivation::kGELU}});
}

void bind_attention(py::module_& m) {
  auto attention = define_layer<nn::MultiheadAttention>(
      m, "MultiheadAttention", "Scaled dot products over several heads (Vaswani et al. 2017).",
      py::init(&make<nn::MultiheadAttention, nn::MultiheadAttentionOptions, Number, Flag<"bias">,
                     Flag<"batch_first">>),
      Arg("embed_dim", "extent of queries, keys and values."),
      Arg("num_heads", "divides embed_dim."),
      Arg("dropout", "probability on the weights, in training.") = 0.0,
      Arg("bias", "whether the projections have one.") = true,
      Arg("batch_first", "tensors are [batch, steps, embed_dim].") = false,
      Invalid{"num_heads does not divide embed_dim."});
  for (const char* name : {"__call__", "forward"}) {
    define(
        attention, name, &run_attention, "The queries' attention to the keys.",
        Arg("query",
            "[queries, batch, embed_dim] (batch_first: [batch, queries, embed_dim]); of one "
            "sequence\n        all arguments and results may be without the batch axis."),
        Arg("key", "[keys, batch, embed_dim], likewise."), Arg("value", "as ``key``."),
        Arg("key_padding_mask",
            "[batch, keys], bool (True: not to be attended to) or floating (added).") = py::none(),
        Arg("need_weights", "return them too.") = true,
        Arg("attn_mask", "[queries, keys] or [batch * heads, queries, keys], likewise.") =
            py::none(),
        Arg("average_attn_weights", "return their mean over the heads.") = true,
        Returns{"(output, weights): output like ``query``; weights [batch, queries, keys], with "
                "heads after the\n    batch if not averaged, or None."},
        kBadShapes);
  }
}

void bind_encoders(py::module_& m) {
  auto layer = define_layer<nn::TransformerEncoderLayer>(
      m, "TransformerEncoderLayer", "Self-attention and a feed-forward net, with residuals.",
      py::init([](Integer d_model, Integer nhead, Integer dim_feedforward, Number dropout,
                  const std::string& activation, Number layer_norm_eps,
                  Flag<"batch_first"> batch_first, Flag<"norm_first"> norm_first) {
        return std::make_shared<nn::TransformerEncoderLayer>(
            d_model, nhead,
            nn::TransformerEncoderLayerOptions{dim_feedforward, dropout,
                                               activation_from(activation), layer_norm_eps,
                                               batch_first, norm_first});
      }),
      Arg("d_model", "extent of input and output."),
      Arg("nhead", "heads of the attention; divides d_model."),
      Arg("dim_feedforward", "width of the net.") = 2048,
      Arg("dropout", "probability, in training.") = 0.1,
      Arg("activation", "\"relu\" or \"gelu\".") = "relu",
      Arg("layer_norm_eps", "added to the variance.") = 1e-5,
      Arg("batch_first", "tensors are [batch, steps, d_model].") = false,
      Arg("norm_first", "normalise what enters attention and net, not their sums.") = false,
      kBadOption);
  def_encoder_call(layer, "src_mask");
  auto encoder = define_layer<nn::TransformerEncoder>(
      m, "TransformerEncoder", "Copies of an encoder layer, perhaps a last LayerNorm.",
      py::init<const nn::TransformerEncoderLayer&, Integer, std::shared_ptr<nn::LayerNorm>>(),
      Arg("encoder_layer", "the TransformerEncoderLayer that is copied, with its values."),
      Arg("num_layers", "how many."),
      Arg("norm", "a LayerNorm for the output; None: there is none.") = py::none(),
      Invalid{"fewer than one layer."});
  def_encoder_call(encoder, "mask");
}

}  // namespace

void bind_nn_sequences(py::module_& m) {
  bind_recurrent(m);
  bind_attention(m);
  bind_encoders(m);
}

}  // namespace hvd::python
