#include "horovod_cpp/nn/functional.h"

#include <pybind11/stl.h>

#include <string>

#include "bindings/native/nn.h"
#include "core/base/status.h"

namespace hvd::python {
namespace {

namespace F = nn::functional;

// Runs `body` without the GIL; its arguments are converted already.
template <typename Body>
Tensor released(Body body) {
  const py::gil_scoped_release nogil;
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
  f.def("relu", &F::relu, input, ReleaseGil(), "max(input, 0).");
  f.def("leaky_relu", &F::leaky_relu, input, py::arg("negative_slope") = 0.01, ReleaseGil(),
        "input where positive, else negative_slope x input.");
  f.def("gelu", &gelu_by_name, input, py::arg("approximate") = "none",
        "input x Phi(input); ``approximate``: \"none\" or \"tanh\".");
  f.def("silu", &F::silu, input, ReleaseGil(), "input x sigmoid(input).");
  f.def("sigmoid", &F::sigmoid, input, ReleaseGil(), "1 / (1 + exp(-input)).");
  f.def("tanh", &F::tanh, input, ReleaseGil(), "Hyperbolic tangent.");
  f.def("softmax", &F::softmax, input, py::arg("dim"), ReleaseGil(),
        "exp(input) normalised to sum 1 along ``dim``.");
  f.def("log_softmax", &F::log_softmax, input, py::arg("dim"), ReleaseGil(),
        "Logarithm of softmax along ``dim``.");
  f.def("dropout", &F::dropout, input, py::arg("p") = 0.5, py::arg("training") = true, ReleaseGil(),
        "Zeroes with probability ``p`` and scales the rest by 1/(1-p).");
}

void bind_pooling(py::module_& f) {
  const auto input = py::arg("input");
  const auto kernel = py::arg("kernel_size");
  f.def(
      "max_pool2d",
      [](const Tensor& x, const py::object& size, const py::object& stride,
         const py::object& padding, bool ceil_mode) {
        const Pool2dOptions options = {int_pair_from(size), int_pair_from(stride),
                                       int_pair_from(padding), ceil_mode};
        return released([&] { return F::max_pool2d(x, options); });
      },
      input, kernel, py::arg("stride") = py::none(), py::arg("padding") = 0,
      py::arg("ceil_mode") = false, "Maximum over windows of [n, c, h, w].");
  f.def(
      "avg_pool2d",
      [](const Tensor& x, const py::object& size, const py::object& stride,
         const py::object& padding, bool ceil_mode, bool count_include_pad) {
        const Pool2dOptions options = {int_pair_from(size), int_pair_from(stride),
                                       int_pair_from(padding), ceil_mode, count_include_pad};
        return released([&] { return F::avg_pool2d(x, options); });
      },
      input, kernel, py::arg("stride") = py::none(), py::arg("padding") = 0,
      py::arg("ceil_mode") = false, py::arg("count_include_pad") = true,
      "Mean over windows of [n, c, h, w].");
  f.def(
      "adaptive_avg_pool2d",
      [](const Tensor& x, const py::object& size) {
        const IntPair output = int_pair_from(size);
        return released([&] { return F::adaptive_avg_pool2d(x, output); });
      },
      input, py::arg("output_size"),
      "Means over windows that make [n, c, h, w] output_size large.");
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
      input, py::arg("weight"), bias, ReleaseGil(), "input x weight^T + bias.");
  f.def(
      "layer_norm",
      [](const Tensor& x, const Shape& shape, const MaybeTensor& w, const MaybeTensor& b,
         double e) { return F::layer_norm(x, shape, or_none(w), or_none(b), e); },
      input, py::arg("normalized_shape"), weight, bias, eps, ReleaseGil(),
      "Normalises over the last axes.");
  f.def(
      "group_norm",
      [](const Tensor& x, std::int64_t groups, const MaybeTensor& w, const MaybeTensor& b,
         double e) { return F::group_norm(x, groups, or_none(w), or_none(b), e); },
      input, py::arg("num_groups"), weight, bias, eps, ReleaseGil(),
      "Normalises groups of channels of each example.");
  f.def(
      "batch_norm",
      [](const Tensor& x, const MaybeTensor& mean, const MaybeTensor& var, const MaybeTensor& w,
         const MaybeTensor& b, bool training, double momentum, double e) {
        return F::batch_norm(x, or_none(mean), or_none(var), or_none(w), or_none(b), training,
                             momentum, e);
      },
      input, py::arg("running_mean"), py::arg("running_var"), weight, bias,
      py::arg("training") = false, py::arg("momentum") = 0.1, eps, ReleaseGil(),
      "Normalises each channel of [n, c, ...]; in training moves the running statistics.");
  f.def("embedding", &F::embedding, input, py::arg("weight"), py::arg("padding_idx") = py::none(),
        py::arg("sparse") = false, ReleaseGil(), "A row of ``weight`` for each int64 index.");
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
  def_loss(f, "mse_loss", &F::mse_loss, "Squared difference.");
  def_loss(f, "l1_loss", &F::l1_loss, "Absolute difference.");
  f.def(
      "huber_loss",
      [](const Tensor& x, const Tensor& t, const std::string& how, double delta) {
        return F::huber_loss(x, t, reduction_from(how), delta);
      },
      input, target, reduction, py::arg("delta") = 1.0, ReleaseGil(),
      "Quadratic where the difference is below ``delta``, else linear.");
  f.def(
      "smooth_l1_loss",
      [](const Tensor& x, const Tensor& t, const std::string& how, double beta) {
        return F::smooth_l1_loss(x, t, reduction_from(how), beta);
      },
      input, target, reduction, py::arg("beta") = 1.0, ReleaseGil(),
      "huber_loss of ``delta = beta``, divided by ``beta``.");
  f.def(
      "binary_cross_entropy",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, const std::string& how) {
        return F::binary_cross_entropy(x, t, or_none(w), reduction_from(how));
      },
      input, target, weight, reduction, ReleaseGil(), "Binary cross entropy of probabilities.");
  f.def(
      "binary_cross_entropy_with_logits",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, const std::string& how,
         const MaybeTensor& pos) {
        return F::binary_cross_entropy_with_logits(x, t, or_none(w), reduction_from(how),
                                                   or_none(pos));
      },
      input, target, weight, reduction, py::arg("pos_weight") = py::none(), ReleaseGil(),
      "Binary cross entropy of logits.");
  f.def(
      "kl_div",
      [](const Tensor& x, const Tensor& t, const std::string& how, bool log_target) {
        return F::kl_div(x, t, reduction_from(how), log_target);
      },
      input, target, reduction, py::arg("log_target") = false, ReleaseGil(),
      "Kullback-Leibler divergence of log-probabilities ``input`` from ``target``.");
}

void bind_class_losses(py::module_& f) {
  const auto input = py::arg("input");
  const auto target = py::arg("target");
  const auto weight = py::arg("weight") = py::none();
  const auto ignored = py::arg("ignore_index") = -100;
  const auto reduction = py::arg("reduction") = "mean";
  f.def(
      "nll_loss",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, std::int64_t ignore,
         const std::string& how) {
        return F::nll_loss(x, t, {or_none(w), ignore, reduction_from(how), 0.0});
      },
      input, target, weight, ignored, reduction, ReleaseGil(),
      "Negative log-probability of int64 classes.");
  f.def(
      "cross_entropy",
      [](const Tensor& x, const Tensor& t, const MaybeTensor& w, std::int64_t ignore,
         const std::string& how, double smoothing) {
        return F::cross_entropy(x, t, {or_none(w), ignore, reduction_from(how), smoothing});
      },
      input, target, weight, ignored, reduction, py::arg("label_smoothing") = 0.0, ReleaseGil(),
      "Cross entropy of logits [n, classes, ...] against int64 classes or probabilities.");
}

}  // namespace

void bind_nn_functional(py::module_& m) {
  py::module_ f = m.def_submodule("functional", "horovod_cpp.nn.functional");
  bind_activations(f);
  bind_pooling(f);
  bind_parametrised(f);
  bind_losses(f);
  bind_class_losses(f);
  // Those of the top level that need no further names.
  for (const char* name : {"conv1d", "conv2d", "conv_transpose2d"}) f.attr(name) = m.attr(name);
}

}  // namespace hvd::python
