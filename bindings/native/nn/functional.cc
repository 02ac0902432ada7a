#include "horovod_cpp/nn/functional.h"

#include <pybind11/stl.h>

#include <string>

#include "bindings/native/nn/docs.h"
#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"

namespace hvd::python {
namespace {

namespace F = nn::functional;

// Runs `body` without the GIL; its arguments are converted already.
template <typename Body>
Tensor released(Body body) {
  const WithoutGil nogil;
  return body();
}

Tensor gelu_by_name(const Tensor& input, const std::string& approximate) {
  if (approximate == "none") return released([&] { return F::gelu(input); });
  if (approximate == "tanh") {
    return released([&] { return F::gelu(input, GeluApproximate::kTanh); });
  }
  throw InvalidArgumentError("gelu: approximate '" + approximate + "': expected none or tanh");
}

void bind_activations(py::module_& f) {
  const auto input = py::arg("input");
  f.def("relu", &F::relu, input, ReleaseGil(),
        activation_doc("max(input, 0), element by element.").c_str());
  f.def("leaky_relu", given(&F::leaky_relu), input, py::arg("negative_slope") = 0.01, ReleaseGil(),
        activation_doc("input where positive, else negative_slope x input.",
                       "    negative_slope: factor below 0.\n")
            .c_str());
  f.def("gelu", &gelu_by_name, input, py::arg("approximate") = "none",
        activation_doc("input x Phi(input), Phi being the normal distribution.",
                       "    approximate: \"none\", or \"tanh\" for the formula with tanh.\n")
            .c_str());
  f.def("silu", &F::silu, input, ReleaseGil(),
        activation_doc("input x sigmoid(input), element by element.").c_str());
  f.def("sigmoid", &F::sigmoid, input, ReleaseGil(),
        activation_doc("1 / (1 + exp(-input)), element by element.").c_str());
  f.def("tanh", &F::tanh, input, ReleaseGil(),
        activation_doc("Hyperbolic tangent, element by element.").c_str());
  f.def("softmax", given(&F::softmax), input, py::arg("dim"), ReleaseGil(),
        activation_doc("exp(input) normalised to sum 1 along ``dim``.",
                       "    dim: the axis; a negative one counts from the end.\n")
            .c_str());
  f.def("log_softmax", given(&F::log_softmax), input, py::arg("dim"), ReleaseGil(),
        activation_doc("Logarithm of softmax along ``dim``, without overflow.",
                       "    dim: the axis; a negative one counts from the end.\n")
            .c_str());
  f.def("dropout", given<"training">(&F::dropout), input, py::arg("p") = 0.5,
        py::arg("training") = true, ReleaseGil(),
        activation_doc("Zeroes with probability ``p`` and scales the rest by 1/(1-p).",
                       "    p: within [0, 1).\n"
                       "    training: False gives the input itself.\n")
            .c_str());
}

void bind_pooling(py::module_& f) {
  const auto input = py::arg("input");
  const auto kernel = py::arg("kernel_size");
  f.def(
      "max_pool2d",
      [](const Tensor& x, const PairLike& size, const MaybePair& stride, const PairLike& padding,
         Flag<"ceil_mode"> ceil_mode) {
        const Pool2dOptions options = {int_pair_from(size), int_pair_from(stride),
                                       int_pair_from(padding), ceil_mode};
        return released([&] { return F::max_pool2d(x, options); });
      },
      input, kernel, py::arg("stride") = py::none(), py::arg("padding") = 0,
      py::arg("ceil_mode") = false, pool_doc("Maximum over windows of [n, c, h, w].").c_str());
  f.def(
      "avg_pool2d",
      [](const Tensor& x, const PairLike& size, const MaybePair& stride, const PairLike& padding,
         Flag<"ceil_mode"> ceil_mode, Flag<"count_include_pad"> count_include_pad) {
        const Pool2dOptions options = {int_pair_from(size), int_pair_from(stride),
                                       int_pair_from(padding), ceil_mode, count_include_pad};
        return released([&] { return F::avg_pool2d(x, options); });
      },
      input, kernel, py::arg("stride") = py::none(), py::arg("padding") = 0,
      py::arg("ceil_mode") = false, py::arg("count_include_pad") = true,
      pool_doc("Mean over windows of [n, c, h, w].",
               "    count_include_pad: whether padding counts in the mean.\n")
          .c_str());
  f.def(
      "adaptive_avg_pool2d",
      [](const Tensor& x, const OutputSize& size) {
        const IntPair output = output_size_from(size);
        return released([&] { return F::adaptive_avg_pool2d(x, output); });
      },
      input, py::arg("output_size"),
      R"(Means over windows that cover [n, c, h, w] evenly.

Args:
    input: [n, c, h, w] of a floating dtype.
    output_size: extent of the result: a number, or (height, width); None: that of the input.

Returns:
    [n, c, output height, output width].

Raises:
    InvalidArgumentError: other shapes or dtypes.)");
}

void bind_parametrised(py::module_& f) {
  const auto input = py::arg("input");
  const auto weight = py::arg("weight") = py::none();
  const auto bias = py::arg("bias") = py::none();
  const auto eps = py::arg("eps") = 1e-5;
  f.def(
      "linear",
      [](const Tensor& x, const Tensor& w, const MaybeTensor& b) {
        return F::linear(x, w, or_none(b));
      },
      input, py::arg("weight"), bias, ReleaseGil(), R"(input x weight^T + bias.

Args:
    input: [..., in_features].
    weight: [out_features, in_features].
    bias: [out_features], or None.

Returns:
    [..., out_features].

Raises:
    InvalidArgumentError: shapes or dtypes do not fit; names both.)");
  f.def(
      "layer_norm",
      [](const Tensor& x, const Integers& shape, const MaybeTensor& w, const MaybeTensor& b,
         Number e) { return F::layer_norm(x, list_of(shape), or_none(w), or_none(b), e); },
      input, py::arg("normalized_shape"), weight, bias, eps, ReleaseGil(),
      norm_doc("Normalises over the last axes.",
               "    input: [..., *normalized_shape] of a floating dtype.\n    normalized_shape: "
               "extents of the last axes.\n    weight: factors of that shape; None: 1.\n    bias: "
               "summands of that shape; None: 0.\n")
          .c_str());
  f.def(
      "group_norm",
      [](const Tensor& x, Integer groups, const MaybeTensor& w, const MaybeTensor& b, Number e) {
        return F::group_norm(x, groups, or_none(w), or_none(b), e);
      },
      input, py::arg("num_groups"), weight, bias, eps, ReleaseGil(),
      norm_doc("Normalises groups of channels of each example.",
               "    input: [n, channels, ...] of a floating dtype.\n    num_groups: divides the "
               "channels.\n    weight: [channels], factors; None: 1.\n    bias: [channels], "
               "summands; None: 0.\n")
          .c_str());
  f.def(
      "batch_norm",
      [](const Tensor& x, const MaybeTensor& mean, const MaybeTensor& var, const MaybeTensor& w,
         const MaybeTensor& b, Flag<"training"> training, Number momentum, Number e) {
        return F::batch_norm(x, or_none(mean), or_none(var), or_none(w), or_none(b), training,
                             momentum, e);
      },
      input, py::arg("running_mean"), py::arg("running_var"), weight, bias,
      py::arg("training") = false, py::arg("momentum") = 0.1, eps, ReleaseGil(),
      norm_doc(
          "Normalises each channel of [n, c, ...].",
          "    input: [n, c, ...] of a floating dtype.\n    running_mean: [c], or None; used in "
          "evaluation, moved in training.\n    running_var: [c], or None; likewise.\n    weight: "
          "[c], factors; None: 1.\n    bias: [c], summands; None: 0.\n    training: normalise by "
          "the batch's own statistics.\n    momentum: how far a batch moves the running ones.\n")
          .c_str());
}

void bind_lookup(py::module_& f) {
  f.def("embedding", given<"sparse">(&F::embedding), py::arg("input"), py::arg("weight"),
        py::arg("padding_idx") = py::none(), py::arg("sparse") = false, ReleaseGil(),
        R"(A row of ``weight`` for each index.

Args:
    input: int64, any shape.
    weight: [rows, columns].
    padding_idx: a row that gets no gradient; None: all get one.
    sparse: keep the gradient of ``weight`` as rows.

Returns:
    [*input.shape, columns].

Raises:
    InvalidArgumentError: an index is out of range, or another dtype.)");
}

using PlainLoss = Tensor (*)(const Tensor&, const Tensor&, LossReduction);

void def_loss(py::module_& f, const char* name, PlainLoss loss, const char* doc) {
  f.def(
      name,
      [loss](const Tensor& input, const Tensor& target, const std::string& reduction) {
        const LossReduction how = reduction_from(reduction);
        return released([&] { return loss(input, target, how); });
      },
      py::arg("input"), py::arg("target"), py::arg("reduction") = "mean", doc);
}

void bind_losses(py::module_& f) {
  const auto input = py::arg("input");
  const auto target = py::arg("target");
  const auto weight = py::arg("weight") = py::none();
  const auto reduction = py::arg("reduction") = "mean";
  def_loss(f, "mse_loss", &F::mse_loss, loss_doc("Squared difference.").c_str());
  def_loss(f, "l1_loss", &F::l1_loss, loss_doc("Absolute difference.").c_str());
  f.def(
      "huber_loss",
      [](const Tensor& x, const Tensor& t, const std::string& how, Number delta) {
        return F::huber_loss(x, t, reduction_from(how), delta);
      },
      input, target, reduction, py::arg("delta") = 1.0, ReleaseGil(),
      loss_doc("Quadratic where the difference is below ``delta``, else linear.",
               "    delta: above 0.\n")
          .c_str());
  f.def(
      "smooth_l1_loss",
      [](const Tensor& x, const Tensor& t, const std::string& how, Number beta) {
        return F::smooth_l1_loss(x, t, reduction_from(how), beta);
      },
      input, target, reduction, py::arg("beta") = 1.0, ReleaseGil(),
      loss_doc("huber_loss of ``delta = beta``, divided by ``beta``.", "    beta: at least 0.\n")
          .c_str());
  f.def(
      "binary_cross_entropy",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, const std::string& how) {
        return F::binary_cross_entropy(x, t, or_none(w), reduction_from(how));
      },
      input, target, weight, reduction, ReleaseGil(),
      loss_doc("Binary cross entropy of probabilities within [0, 1].",
               "    weight: factors that broadcast to the input's shape; None: 1.\n")
          .c_str());
  f.def(
      "binary_cross_entropy_with_logits",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, const std::string& how,
         const MaybeTensor& pos) {
        return F::binary_cross_entropy_with_logits(x, t, or_none(w), reduction_from(how),
                                                   or_none(pos));
      },
      input, target, weight, reduction, py::arg("pos_weight") = py::none(), ReleaseGil(),
      loss_doc("Binary cross entropy of logits.",
               "    weight: factors that broadcast to the input's shape; None: 1.\n"
               "    pos_weight: factors of the positive term, likewise; None: 1.\n")
          .c_str());
  f.def(
      "kl_div",
      [](const Tensor& x, const Tensor& t, const std::string& how, Flag<"log_target"> log_target) {
        return F::kl_div(x, t, reduction_from(how), log_target);
      },
      input, target, reduction, py::arg("log_target") = false, ReleaseGil(),
      loss_doc("Kullback-Leibler divergence of log-probabilities ``input`` from ``target``; "
               "reduction \"batchmean\" is the sum by example.",
               "    log_target: whether ``target`` are logarithms too.\n")
          .c_str());
}

void bind_class_losses(py::module_& f) {
  const auto input = py::arg("input");
  const auto target = py::arg("target");
  const auto weight = py::arg("weight") = py::none();
  const auto ignored = py::arg("ignore_index") = -100;
  const auto reduction = py::arg("reduction") = "mean";
  f.def(
      "nll_loss",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, Integer ignore,
         const std::string& how) {
        return F::nll_loss(x, t, {or_none(w), ignore, reduction_from(how), 0.0});
      },
      input, target, weight, ignored, reduction, ReleaseGil(),
      class_loss_doc("Negative log-probability of classes.", "log-probabilities").c_str());
  f.def(
      "cross_entropy",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, Integer ignore,
         const std::string& how, Number smoothing) {
        return F::cross_entropy(x, t, {or_none(w), ignore, reduction_from(how), smoothing});
      },
      input, target, weight, ignored, reduction, py::arg("label_smoothing") = 0.0, ReleaseGil(),
      class_loss_doc("Cross entropy of logits against classes, or against probabilities of the "
                     "input's shape and dtype.",
                     "logits",
                     "    label_smoothing: part of the target that is spread over all classes, "
                     "within [0, 1].\n")
          .c_str());
}

}  // namespace

void bind_nn_functional(py::module_& m) {
  py::module_ f = m.def_submodule("functional", "horovod_cpp.nn.functional");
  bind_activations(f);
  bind_pooling(f);
  bind_parametrised(f);
  bind_lookup(f);
  bind_losses(f);
  bind_class_losses(f);
  // Those of the top level that need no further names.
  for (const char* name : {"conv1d", "conv2d", "conv_transpose2d"}) f.attr(name) = m.attr(name);
}

}  // namespace hvd::python
