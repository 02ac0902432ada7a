// Layers, each as a class and, where there is one, as a function of nn.functional.
#include "horovod_cpp/nn/layers/layers.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/docs.h"
#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/nn/functional.h"

namespace hvd::python {
namespace {

namespace F = nn::functional;

constexpr Arg kNormEps{"eps", "added to the variance."};
constexpr Returns kInputShape{"A Tensor of the input's shape."};
constexpr Returns kInputKind{"A Tensor of the input's shape and dtype."};
constexpr Invalid kUnfit{"shapes or dtypes do not fit."};

void bind_linear(py::module_& m, py::module_& f) {
  auto linear = define_layer<nn::Linear>(
      m, "Linear", "[..., in_features] -> [..., out_features]: input x weight^T + bias.",
      py::init<Integer, Integer, Flag<"bias">>(),
      Arg("in_features", "extent of the input's last axis."),
      Arg("out_features", "extent of the output's last axis."), kBias = true,
      Remark{
          "``weight`` is [out_features, in_features], ``bias`` [out_features]; both start uniform "
          "within\n1 / sqrt(in_features). Calls raise InvalidArgumentError on other shapes, "
          "naming both."});
  def_weight(linear);
  def_bias(linear);
  linear
      .def_property_readonly(
          "in_features", [](const nn::Linear& layer) { return layer.weight.size(1); },
          "Extent of the last axis of the input.")
      .def_property_readonly(
          "out_features", [](const nn::Linear& layer) { return layer.weight.size(0); },
          "Extent of the last axis of the output.");
  define(f, "linear", converting<Tensor, Tensor, MaybeTensor>(&F::linear),
         "input x weight^T + bias.", Arg("input", "[..., in_features]."),
         Arg("weight", "[out_features, in_features]."),
         Arg("bias", "[out_features], or None.") = py::none(), Returns{"[..., out_features]."},
         kMisfit);
}

void bind_embedding(py::module_& m, py::module_& f) {
  auto embedding = define_layer<nn::Embedding>(
      m, "Embedding",
      "A row of weight [num_embeddings, embedding_dim] for each int64 index: [...] -> [..., "
      "embedding_dim].",
      py::init<Integer, Integer, std::optional<Integer>, Flag<"sparse">>(),
      Arg("num_embeddings", "rows."), Arg("embedding_dim", "length of a row."),
      Arg("padding_idx", "a row of zeros that gets no gradient; None: there is none.") = py::none(),
      Arg("sparse",
          "the gradient keeps only the rows that were read until ``weight.grad`` is asked for.") =
          false,
      Remark{"Calls raise InvalidArgumentError on an index out of range."});
  embedding
      .def_property_readonly(
          "num_embeddings", [](const nn::Embedding& layer) { return layer.weight.size(0); },
          "Rows of the table.")
      .def_property_readonly(
          "embedding_dim", [](const nn::Embedding& layer) { return layer.weight.size(1); },
          "Length of a row.");
  def_weight(embedding);
  define(f, "embedding", given<"sparse">(&F::embedding), "A row of ``weight`` for each index.",
         Arg("input", "int64, any shape."), Arg("weight", "[rows, columns]."),
         Arg("padding_idx", "a row that gets no gradient; None: all get one.") = py::none(),
         Arg("sparse", "keep the gradient of ``weight`` as rows.") = false, ReleaseGil(),
         Returns{"[*input.shape, columns]."},
         Invalid{"an index is out of range, or another dtype."});
}

template <typename Layer>
void bind_batch_norm_layer(py::module_& m, const char* name, const char* what) {
  auto norm = define_layer<Layer>(
      m, name, what,
      py::init([](Integer num_features, Number eps, std::optional<Number> momentum,
                  Flag<"affine"> affine, Flag<"track_running_stats"> track_running_stats) {
        return std::make_shared<Layer>(
            num_features, nn::BatchNormOptions{eps, momentum, affine, track_running_stats});
      }),
      kNumFeatures, kNormEps = 1e-5, kStatisticsMomentum = 0.1, kAffine = true,
      kTrackRunningStats = true,
      Remark{"Calls raise InvalidArgumentError on other shapes and dtypes."});
  def_batch_norm_state(norm);
}

void bind_batch_norm(py::module_& m, py::module_& f) {
  bind_batch_norm_layer<nn::BatchNorm1d>(
      m, "BatchNorm1d", "Normalises each feature of [n, num_features] or [n, num_features, l].");
  bind_batch_norm_layer<nn::BatchNorm2d>(m, "BatchNorm2d",
                                         "Normalises each channel of [n, num_features, h, w].");
  define(f, "batch_norm",
         converting<Tensor, MaybeTensor, MaybeTensor, MaybeTensor, MaybeTensor, Flag<"training">,
                    Number, Number>(&F::batch_norm),
         "Normalises each channel of [n, c, ...].",
         Arg("input", "[n, c, ...] of a floating dtype."),
         Arg("running_mean", "[c], or None; used in evaluation, moved in training."),
         Arg("running_var", "[c], or None; likewise."),
         Arg("weight", "[c], factors; None: 1.") = py::none(),
         Arg("bias", "[c], summands; None: 0.") = py::none(),
         Arg("training", "normalise by the batch's own statistics.") = false,
         Arg("momentum", "how far a batch moves the running ones.") = 0.1, kNormEps = 1e-5,
         kInputShape, kUnfit);
}

void bind_layer_norm(py::module_& m, py::module_& f) {
  auto layer = define_layer<nn::LayerNorm>(
      m, "LayerNorm", "Normalises over the last axes, of shape ``normalized_shape``.",
      py::init([](const ShapeLike& shape, Number eps, Flag<"elementwise_affine"> affine) {
        return std::make_shared<nn::LayerNorm>(shape_from(shape), eps, affine);
      }),
      Arg("normalized_shape", "extents of the last axes; a number for one axis."), kNormEps = 1e-5,
      Arg("elementwise_affine", "with ``weight`` (at first 1) and ``bias`` (0) of that shape.") =
          true,
      Remark{"Calls raise InvalidArgumentError on other shapes."});
  def_weight_and_bias(layer);
  define(f, "layer_norm",
         converting<Tensor, Integers, MaybeTensor, MaybeTensor, Number>(&F::layer_norm),
         "Normalises over the last axes.",
         Arg("input", "[..., *normalized_shape] of a floating dtype."),
         Arg("normalized_shape", "extents of the last axes."),
         Arg("weight", "factors of that shape; None: 1.") = py::none(),
         Arg("bias", "summands of that shape; None: 0.") = py::none(), kNormEps = 1e-5, kInputShape,
         kUnfit);
}

void bind_group_norm(py::module_& m, py::module_& f) {
  constexpr Arg kNumGroups{"num_groups", "divides the channels."};
  auto group = define_layer<nn::GroupNorm>(
      m, "GroupNorm", "Normalises groups of channels of each example of [n, num_channels, ...].",
      py::init<Integer, Integer, Number, Flag<"affine">>(), kNumGroups,
      Arg("num_channels", "extent of axis 1."), kNormEps = 1e-5,
      Arg("affine", "with ``weight`` (at first 1) and ``bias`` (0), [num_channels].") = true,
      Invalid{"num_groups does not divide num_channels."});
  def_weight_and_bias(group);
  define(f, "group_norm",
         converting<Tensor, Integer, MaybeTensor, MaybeTensor, Number>(&F::group_norm),
         "Normalises groups of channels of each example.",
         Arg("input", "[n, channels, ...] of a floating dtype."), kNumGroups,
         Arg("weight", "[channels], factors; None: 1.") = py::none(),
         Arg("bias", "[channels], summands; None: 0.") = py::none(), kNormEps = 1e-5, kInputShape,
         kUnfit);
}

IntPair stride_from(const MaybePair& given) {
  return given.is_none() ? 0 : int_pair_from(given);  // 0: that of the window
}

// A layer of Pool2dOptions and its function. `More`: options that only this one has, which `more`
// names.
template <typename Layer, typename... More, typename... Extra>
void bind_pool(py::module_& m, py::module_& f, const char* layer, const char* function,
               Tensor (*call)(const Tensor&, const Pool2dOptions&), const char* what,
               const Extra&... more) {
  const auto kernel = Arg("kernel_size", "of a window: a number of pixels, or (height, width).");
  const auto stride = Arg("stride", "pixels between windows; None: kernel_size.") = py::none();
  const auto pad = Arg("padding", "pixels on each side, at most half a window.") = 0;
  const auto ceil_mode =
      Arg("ceil_mode", "also windows that begin in the image and end beyond it.") = false;
  define_layer<Layer>(
      m, layer, what,
      py::init([](const PairLike& size, const MaybePair& step, const PairLike& padding,
                  Flag<"ceil_mode"> ceil, More... rest) {
        return std::make_shared<Layer>(Pool2dOptions{int_pair_from(size), stride_from(step),
                                                     int_pair_from(padding), ceil, rest...});
      }),
      kernel, stride, pad, ceil_mode, more...);
  define(
      f, function,
      [call](const Tensor& x, const PairLike& size, const MaybePair& step, const PairLike& padding,
             Flag<"ceil_mode"> ceil, More... rest) {
        const Pool2dOptions options = {int_pair_from(size), stride_from(step),
                                       int_pair_from(padding), ceil, rest...};
        return without_gil([&] { return call(x, options); });
      },
      what, Arg("input", "[n, c, h, w] of a floating dtype."), kernel, stride, pad, ceil_mode,
      more..., Returns{"[n, c, h', w'] of the input's dtype."},
      Invalid{"other shapes or dtypes, or options out of range."});
}

void bind_pooling(py::module_& m, py::module_& f) {
  bind_pool<nn::MaxPool2d>(m, f, "MaxPool2d", "max_pool2d", &F::max_pool2d,
                           "Maximum over windows of [n, c, h, w].");
  bind_pool<nn::AvgPool2d, Flag<"count_include_pad">>(
      m, f, "AvgPool2d", "avg_pool2d", &F::avg_pool2d, "Mean over windows of [n, c, h, w].",
      Arg("count_include_pad", "whether padding counts in the mean.") = true);
  constexpr Arg kOutputSize{
      "output_size",
      "extent of the result: a number, or (height, width); None: that of the input."};
  constexpr const char* kWhat = "Means over windows that cover [n, c, h, w] evenly.";
  define_layer<nn::AdaptiveAvgPool2d>(
      m, "AdaptiveAvgPool2d", kWhat, py::init([](const OutputSize& size) {
        return std::make_shared<nn::AdaptiveAvgPool2d>(output_size_from(size));
      }),
      kOutputSize);
  define(
      f, "adaptive_avg_pool2d",
      [](const Tensor& x, const OutputSize& size) {
        const IntPair output = output_size_from(size);
        return without_gil([&] { return F::adaptive_avg_pool2d(x, output); });
      },
      kWhat, Arg("input", "[n, c, h, w] of a floating dtype."), kOutputSize,
      Returns{"[n, c, output height, output width]."}, Invalid{"other shapes or dtypes."});
}

// A layer without options and its function. `what` ends before "any shape".
template <typename Layer>
void bind_plain(py::module_& m, py::module_& f, const char* layer, const char* function,
                Tensor (*call)(const Tensor&), const std::string& what) {
  define_layer<Layer>(m, layer, what + ", any shape.", py::init<>());
  define(f, function, call, what + ".", kInput, ReleaseGil(), kInputKind, kOtherDtype);
}

// `what` opens the error.
GeluApproximate approximate_from(const char* what, const std::string& name) {
  return named_value<GeluApproximate>(
      what, name, {{"none", GeluApproximate::kNone}, {"tanh", GeluApproximate::kTanh}});
}

void bind_activations(py::module_& m, py::module_& f) {
  bind_plain<nn::ReLU>(m, f, "ReLU", "relu", &F::relu, "max(input, 0), element by element");
  bind_plain<nn::SiLU>(m, f, "SiLU", "silu", &F::silu,
                       "input x sigmoid(input), element by element");
  bind_plain<nn::Sigmoid>(m, f, "Sigmoid", "sigmoid", &F::sigmoid,
                          "1 / (1 + exp(-input)), element by element");
  bind_plain<nn::Tanh>(m, f, "Tanh", "tanh", &F::tanh, "Hyperbolic tangent, element by element");
  const auto slope = Arg("negative_slope", "factor below 0.") = 0.01;
  const std::string leaky = "input where positive, else negative_slope x input";
  define_layer<nn::LeakyReLU>(m, "LeakyReLU", leaky + "; any shape.", py::init<Number>(), slope);
  define(f, "leaky_relu", given(&F::leaky_relu), leaky + ".", kInput, slope, ReleaseGil(),
         kInputKind, kOtherDtype);
  const auto approximate = Arg("approximate", "\"none\", or \"tanh\" for the formula with tanh.") =
      "none";
  const std::string gelu = "input x Phi(input), Phi being the normal distribution";
  define_layer<nn::GELU>(
      m, "GELU", gelu + "; any shape.", py::init([](const std::string& name) {
        return std::make_shared<nn::GELU>(approximate_from("GELU: approximate", name));
      }),
      approximate, Invalid{"another ``approximate``."});
  define(
      f, "gelu",
      [](const Tensor& input, const std::string& name) {
        const GeluApproximate formula = approximate_from("gelu: approximate", name);
        return without_gil([&] { return F::gelu(input, formula); });
      },
      gelu + ".", kInput, approximate, kInputKind, kOtherDtype);
}

void bind_softmax_and_dropout(py::module_& m, py::module_& f) {
  constexpr Arg kDim{"dim", "the axis; a negative one counts from the end."};
  define_layer<nn::Softmax>(m, "Softmax", "exp(input) normalised to sum 1 along an axis.",
                            py::init<Integer>(), kDim);
  define(f, "softmax", given(&F::softmax), "exp(input) normalised to sum 1 along ``dim``.", kInput,
         kDim, ReleaseGil(), kInputKind, kOtherDtype);
  define_layer<nn::LogSoftmax>(m, "LogSoftmax", "Logarithm of softmax along an axis.",
                               py::init<Integer>(), kDim);
  define(f, "log_softmax", given(&F::log_softmax),
         "Logarithm of softmax along ``dim``, without overflow.", kInput, kDim, ReleaseGil(),
         kInputKind, kOtherDtype);
  const auto p = Arg("p", "within [0, 1).") = 0.5;
  define_layer<nn::Dropout>(
      m, "Dropout", "In training, zeroes with probability ``p`` and scales the rest by 1/(1-p).",
      py::init<Number>(), p, Invalid{"another ``p``."});
  define(f, "dropout", given<"training">(&F::dropout),
         "Zeroes with probability ``p`` and scales the rest by 1/(1-p).", kInput, p,
         Arg("training", "False gives the input itself.") = true, ReleaseGil(), kInputKind,
         kOtherDtype);
  define_layer<nn::Identity>(m, "Identity", "The input itself, any shape.", py::init<>());
  define_layer<nn::Flatten>(m, "Flatten", "[n, ...] -> [n, product of the rest].",
                            py::init<Integer>(),
                            Arg("start_dim", "the first of the axes that are joined.") = 1);
}

}  // namespace

void bind_nn_layers(py::module_& m, py::module_& functional) {
  bind_linear(m, functional);
  bind_embedding(m, functional);
  bind_batch_norm(m, functional);
  bind_layer_norm(m, functional);
  bind_group_norm(m, functional);
  bind_pooling(m, functional);
  bind_activations(m, functional);
  bind_softmax_and_dropout(m, functional);
}

}  // namespace hvd::python
