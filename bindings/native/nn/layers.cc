#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/layers/layers.h"

namespace hvd::python {
namespace {

void bind_parametrised_layers(py::module_& m) {
  LayerClass<nn::Linear> linear(
      m, "Linear",
      R"([..., in_features] -> [..., out_features]: input x weight^T + bias.

Args:
    in_features: extent of the input's last axis.
    out_features: extent of the output's last axis.
    bias: whether there is one.

``weight`` is [out_features, in_features], ``bias`` [out_features]; both start uniform within
1 / sqrt(in_features). Calls raise InvalidArgumentError on other shapes, naming both.)");
  linear.def(py::init<Integer, Integer, Flag<"bias">>(), py::arg("in_features"),
             py::arg("out_features"), py::arg("bias") = true);
  def_weight(linear);
  def_bias(linear);
  linear
      .def_property_readonly(
          "in_features", [](const nn::Linear& layer) { return layer.weight.size(1); },
          "Extent of the last axis of the input.")
      .def_property_readonly(
          "out_features", [](const nn::Linear& layer) { return layer.weight.size(0); },
          "Extent of the last axis of the output.");
  LayerClass<nn::Embedding> embedding(
      m, "Embedding",
      R"(A row of weight [num_embeddings, embedding_dim] for each int64 index: [...] -> [..., embedding_dim].

Args:
    num_embeddings: rows.
    embedding_dim: length of a row.
    padding_idx: a row of zeros that gets no gradient; None: there is none.
    sparse: the gradient keeps only the rows that were read until ``weight.grad`` is asked for.

Calls raise InvalidArgumentError on an index out of range.)");
  embedding
      .def(py::init<Integer, Integer, std::optional<Integer>, Flag<"sparse">>(),
           py::arg("num_embeddings"), py::arg("embedding_dim"), py::arg("padding_idx") = py::none(),
           py::arg("sparse") = false)
      .def_property_readonly(
          "num_embeddings", [](const nn::Embedding& layer) { return layer.weight.size(0); },
          "Rows of the table.")
      .def_property_readonly(
          "embedding_dim", [](const nn::Embedding& layer) { return layer.weight.size(1); },
          "Length of a row.");
  def_weight(embedding);
}

template <typename Layer>
void bind_batch_norm(py::module_& m, const char* name, const char* doc) {
  LayerClass<Layer> norm(m, name, doc);
  norm.def(py::init([](Integer num_features, Number eps, std::optional<Number> momentum,
                       Flag<"affine"> affine, Flag<"track_running_stats"> track_running_stats) {
             return std::make_shared<Layer>(
                 num_features, nn::BatchNormOptions{eps, momentum, affine, track_running_stats});
           }),
           py::arg("num_features"), py::arg("eps") = 1e-5, py::arg("momentum") = 0.1,
           py::arg("affine") = true, py::arg("track_running_stats") = true);
  def_weight_and_bias(norm);
  norm.def_property_readonly(
          "running_mean", [](const Layer& layer) { return to_object(layer.running_mean); },
          "What evaluation uses, [num_features]; a buffer, not a parameter.")
      .def_property_readonly(
          "running_var", [](const Layer& layer) { return to_object(layer.running_var); },
          "What evaluation uses, [num_features]; a buffer, not a parameter.")
      .def_property_readonly(
          "num_batches_tracked",
          [](const Layer& layer) { return to_object(layer.num_batches_tracked); },
          "How many batches moved the statistics, an int64 scalar; a buffer.");
}

void bind_normalisation(py::module_& m) {
  bind_batch_norm<nn::BatchNorm1d>(
      m, "BatchNorm1d", R"(Normalises each feature of [n, num_features] or [n, num_features, l].

Args:
    num_features: extent of axis 1.
    eps: added to the variance.
    momentum: how far a batch moves the running statistics; None: they are the mean over batches.
    affine: with ``weight`` (at first 1) and ``bias`` (0), [num_features].
    track_running_stats: False: evaluation uses the batch's statistics too.

Calls raise InvalidArgumentError on other shapes and dtypes.)");
  bind_batch_norm<nn::BatchNorm2d>(m, "BatchNorm2d",
                                   R"(Normalises each channel of [n, num_features, h, w].

Args:
    num_features: extent of axis 1.
    eps: added to the variance.
    momentum: how far a batch moves the running statistics; None: they are the mean over batches.
    affine: with ``weight`` (at first 1) and ``bias`` (0), [num_features].
    track_running_stats: False: evaluation uses the batch's statistics too.

Calls raise InvalidArgumentError on other shapes and dtypes.)");
  LayerClass<nn::LayerNorm> layer(m, "LayerNorm",
                                  R"(Normalises over the last axes, of shape ``normalized_shape``.

Args:
    normalized_shape: extents of the last axes; a number for one axis.
    eps: added to the variance.
    elementwise_affine: with ``weight`` (at first 1) and ``bias`` (0) of that shape.

Calls raise InvalidArgumentError on other shapes.)");
  layer.def(py::init([](const ShapeLike& shape, Number eps, Flag<"elementwise_affine"> affine) {
              return std::make_shared<nn::LayerNorm>(shape_from(shape), eps, affine);
            }),
            py::arg("normalized_shape"), py::arg("eps") = 1e-5,
            py::arg("elementwise_affine") = true);
  def_weight_and_bias(layer);
  LayerClass<nn::GroupNorm> group(
      m, "GroupNorm",
      R"(Normalises groups of channels of each example of [n, num_channels, ...].

Args:
    num_groups: divides the channels.
    num_channels: extent of axis 1.
    eps: added to the variance.
    affine: with ``weight`` (at first 1) and ``bias`` (0), [num_channels].

Raises:
    InvalidArgumentError: num_groups does not divide num_channels.)");
  group.def(py::init<Integer, Integer, Number, Flag<"affine">>(), py::arg("num_groups"),
            py::arg("num_channels"), py::arg("eps") = 1e-5, py::arg("affine") = true);
  def_weight_and_bias(group);
}

void bind_pooling_layers(py::module_& m) {
  const auto none = py::none();
  LayerClass<nn::MaxPool2d>(m, "MaxPool2d", R"(Maximum over windows of [n, c, h, w].

Args:
    kernel_size: of a window: a number of pixels, or (height, width).
    stride: pixels between windows; None: kernel_size.
    padding: pixels on each side, at most half a window.
    ceil_mode: also windows that begin in the image and end beyond it.)")
      .def(py::init([](const PairLike& kernel, const MaybePair& stride, const PairLike& padding,
                       Flag<"ceil_mode"> ceil_mode) {
             return std::make_shared<nn::MaxPool2d>(Pool2dOptions{
                 int_pair_from(kernel), int_pair_from(stride), int_pair_from(padding), ceil_mode});
           }),
           py::arg("kernel_size"), py::arg("stride") = none, py::arg("padding") = 0,
           py::arg("ceil_mode") = false);
  LayerClass<nn::AvgPool2d>(m, "AvgPool2d", R"(Mean over windows of [n, c, h, w].

Args:
    kernel_size: of a window: a number of pixels, or (height, width).
    stride: pixels between windows; None: kernel_size.
    padding: pixels on each side, at most half a window.
    ceil_mode: also windows that begin in the image and end beyond it.
    count_include_pad: whether padding counts in the mean.)")
      .def(py::init([](const PairLike& kernel, const MaybePair& stride, const PairLike& padding,
                       Flag<"ceil_mode"> ceil_mode, Flag<"count_include_pad"> count_include_pad) {
             return std::make_shared<nn::AvgPool2d>(
                 Pool2dOptions{int_pair_from(kernel), int_pair_from(stride), int_pair_from(padding),
                               ceil_mode, count_include_pad});
           }),
           py::arg("kernel_size"), py::arg("stride") = none, py::arg("padding") = 0,
           py::arg("ceil_mode") = false, py::arg("count_include_pad") = true);
  LayerClass<nn::AdaptiveAvgPool2d>(m, "AdaptiveAvgPool2d",
                                    R"(Means over windows that cover [n, c, h, w] evenly.

Args:
    output_size: extent of the result: a number, or (height, width); None: that of the input.)")
      .def(py::init([](const OutputSize& size) {
             return std::make_shared<nn::AdaptiveAvgPool2d>(output_size_from(size));
           }),
           py::arg("output_size"));
}

void bind_activations_layers(py::module_& m) {
  LayerClass<nn::ReLU>(m, "ReLU", R"(max(input, 0), element by element, any shape.)")
      .def(py::init<>());
  LayerClass<nn::LeakyReLU>(m, "LeakyReLU",
                            R"(input where positive, else negative_slope x input; any shape.

Args:
    negative_slope: factor below 0.)")
      .def(py::init<Number>(), py::arg("negative_slope") = 0.01);
  LayerClass<nn::GELU>(m, "GELU",
                       R"(input x Phi(input), Phi being the normal distribution; any shape.

Args:
    approximate: "none", or "tanh" for the formula with tanh.

Raises:
    InvalidArgumentError: another ``approximate``.)")
      .def(py::init([](const std::string& approximate) {
             if (approximate != "none" && approximate != "tanh") {
               throw InvalidArgumentError("GELU: approximate '" + approximate +
                                          "': expected none or tanh");
             }
             return std::make_shared<nn::GELU>(approximate == "tanh" ? GeluApproximate::kTanh
                                                                     : GeluApproximate::kNone);
           }),
           py::arg("approximate") = "none");
  LayerClass<nn::SiLU>(m, "SiLU", R"(input x sigmoid(input), element by element, any shape.)")
      .def(py::init<>());
  LayerClass<nn::Sigmoid>(m, "Sigmoid", R"(1 / (1 + exp(-input)), element by element, any shape.)")
      .def(py::init<>());
  LayerClass<nn::Tanh>(m, "Tanh", R"(Hyperbolic tangent, element by element, any shape.)")
      .def(py::init<>());
  LayerClass<nn::Softmax>(m, "Softmax", R"(exp(input) normalised to sum 1 along an axis.

Args:
    dim: the axis; a negative one counts from the end.)")
      .def(py::init<Integer>(), py::arg("dim"));
  LayerClass<nn::LogSoftmax>(m, "LogSoftmax", R"(Logarithm of softmax along an axis.

Args:
    dim: the axis; a negative one counts from the end.)")
      .def(py::init<Integer>(), py::arg("dim"));
  LayerClass<nn::Identity>(m, "Identity", R"(The input itself, any shape.)").def(py::init<>());
  LayerClass<nn::Dropout>(
      m, "Dropout",
      R"(In training, zeroes with probability ``p`` and scales the rest by 1/(1-p).

Args:
    p: within [0, 1).

Raises:
    InvalidArgumentError: another ``p``.)")
      .def(py::init<Number>(), py::arg("p") = 0.5);
  LayerClass<nn::Flatten>(m, "Flatten", R"([n, ...] -> [n, product of the rest].

Args:
    start_dim: the first of the axes that are joined.)")
      .def(py::init<Integer>(), py::arg("start_dim") = 1);
}

}  // namespace

void bind_nn_layers(py::module_& m) {
  bind_parametrised_layers(m);
  bind_normalisation(m);
  bind_pooling_layers(m);
  bind_activations_layers(m);
}

}  // namespace hvd::python
