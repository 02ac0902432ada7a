#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/nn.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/layers.h"

namespace hvd::python {
namespace {

template <typename Layer>
using Class = py::classh<Layer, nn::Module>;

void bind_parametrised(py::module_& m) {
  Class<nn::Linear> linear(m, "Linear",
                           "[..., in_features] -> [..., out_features]: input x weight^T + bias.");
  linear.def(py::init<std::int64_t, std::int64_t, bool>(), py::arg("in_features"),
             py::arg("out_features"), py::arg("bias") = true);
  def_weight_and_bias(linear);
  Class<nn::Conv2d> conv(
      m, "Conv2d", "NCHW convolution with a square kernel: [n, in, h, w] -> [n, out, h', w'].");
  conv.def(py::init<std::int64_t, std::int64_t, int, int, int, bool>(), py::arg("in_channels"),
           py::arg("out_channels"), py::arg("kernel_size"), py::arg("stride") = 1,
           py::arg("padding") = 0, py::arg("bias") = true);
  def_weight_and_bias(conv);
  Class<nn::Embedding> embedding(
      m, "Embedding",
      "A row of weight [num_embeddings, embedding_dim] for each int64 index; with ``sparse`` the\n"
      "gradient keeps only the rows that were read until ``weight.grad`` is asked for.");
  embedding
      .def(py::init<std::int64_t, std::int64_t, std::optional<std::int64_t>, bool>(),
           py::arg("num_embeddings"), py::arg("embedding_dim"), py::arg("padding_idx") = py::none(),
           py::arg("sparse") = false)
      .def_readonly("weight", &nn::Embedding::weight, "The parameter.");
}

template <typename Layer>
void bind_batch_norm(py::module_& m, const char* name, const char* doc) {
  Class<Layer> norm(m, name, doc);
  norm.def(py::init([](std::int64_t num_features, double eps, std::optional<double> momentum,
                       bool affine, bool track_running_stats) {
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
      m, "BatchNorm1d", "Normalises each feature of [n, num_features] or [n, num_features, l].");
  bind_batch_norm<nn::BatchNorm2d>(m, "BatchNorm2d",
                                   "Normalises each channel of [n, num_features, h, w].");
  Class<nn::LayerNorm> layer(m, "LayerNorm",
                             "Normalises over the last axes, of shape ``normalized_shape``.");
  layer.def(py::init([](const py::object& shape, double eps, bool affine) {
              const bool one = py::isinstance<py::int_>(shape);
              return std::make_shared<nn::LayerNorm>(
                  one ? Shape{shape.cast<std::int64_t>()} : shape.cast<Shape>(), eps, affine);
            }),
            py::arg("normalized_shape"), py::arg("eps") = 1e-5,
            py::arg("elementwise_affine") = true);
  def_weight_and_bias(layer);
  Class<nn::GroupNorm> group(m, "GroupNorm",
                             "Normalises groups of channels of each example of [n, c, ...].");
  group.def(py::init<std::int64_t, std::int64_t, double, bool>(), py::arg("num_groups"),
            py::arg("num_channels"), py::arg("eps") = 1e-5, py::arg("affine") = true);
  def_weight_and_bias(group);
}

void bind_pooling(py::module_& m) {
  const auto none = py::none();
  Class<nn::MaxPool2d>(m, "MaxPool2d", "Maximum over windows of [n, c, h, w].")
      .def(py::init([](const py::object& kernel, const py::object& stride,
                       const py::object& padding, bool ceil_mode) {
             return std::make_shared<nn::MaxPool2d>(Pool2dOptions{
                 size2d_from(kernel), size2d_from(stride), size2d_from(padding), ceil_mode});
           }),
           py::arg("kernel_size"), py::arg("stride") = none, py::arg("padding") = 0,
           py::arg("ceil_mode") = false);
  Class<nn::AvgPool2d>(m, "AvgPool2d", "Mean over windows of [n, c, h, w].")
      .def(py::init([](const py::object& kernel, const py::object& stride,
                       const py::object& padding, bool ceil_mode, bool count_include_pad) {
             return std::make_shared<nn::AvgPool2d>(
                 Pool2dOptions{size2d_from(kernel), size2d_from(stride), size2d_from(padding),
                               ceil_mode, count_include_pad});
           }),
           py::arg("kernel_size"), py::arg("stride") = none, py::arg("padding") = 0,
           py::arg("ceil_mode") = false, py::arg("count_include_pad") = true);
  Class<nn::AdaptiveAvgPool2d>(m, "AdaptiveAvgPool2d",
                               "Means over windows that make [n, c, h, w] output_size large.")
      .def(py::init([](const py::object& size) {
             return std::make_shared<nn::AdaptiveAvgPool2d>(size2d_from(size));
           }),
           py::arg("output_size"));
}

void bind_activations(py::module_& m) {
  Class<nn::ReLU>(m, "ReLU", "max(input, 0).").def(py::init<>());
  Class<nn::LeakyReLU>(m, "LeakyReLU", "input where positive, else negative_slope x input.")
      .def(py::init<double>(), py::arg("negative_slope") = 0.01);
  Class<nn::GELU>(m, "GELU", "input x Phi(input); ``approximate``: \"none\" or \"tanh\".")
      .def(py::init([](const std::string& approximate) {
             if (approximate != "none" && approximate != "tanh") {
               throw InvalidArgumentError("GELU: approximate '" + approximate +
                                          "': expected none or tanh");
             }
             return std::make_shared<nn::GELU>(approximate == "tanh" ? GeluApproximate::kTanh
                                                                     : GeluApproximate::kNone);
           }),
           py::arg("approximate") = "none");
  Class<nn::SiLU>(m, "SiLU", "input x sigmoid(input).").def(py::init<>());
  Class<nn::Sigmoid>(m, "Sigmoid", "1 / (1 + exp(-input)).").def(py::init<>());
  Class<nn::Tanh>(m, "Tanh", "Hyperbolic tangent.").def(py::init<>());
  Class<nn::Softmax>(m, "Softmax", "exp(input) normalised to sum 1 along ``dim``.")
      .def(py::init<std::int64_t>(), py::arg("dim"));
  Class<nn::LogSoftmax>(m, "LogSoftmax", "Logarithm of softmax along ``dim``.")
      .def(py::init<std::int64_t>(), py::arg("dim"));
  Class<nn::Identity>(m, "Identity", "The input itself.").def(py::init<>());
  Class<nn::Dropout>(m, "Dropout",
                     "In training, zeroes with probability ``p`` and scales the rest by 1/(1-p).")
      .def(py::init<double>(), py::arg("p") = 0.5);
  Class<nn::Flatten>(m, "Flatten", "Joins the axes from ``start_dim`` on.")
      .def(py::init<std::int64_t>(), py::arg("start_dim") = 1);
}

}  // namespace

void bind_nn_layers(py::module_& m) {
  bind_parametrised(m);
  bind_normalisation(m);
  bind_pooling(m);
  bind_activations(m);
}

}  // namespace hvd::python
