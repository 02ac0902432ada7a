// Losses, each as a class and as a function of nn.functional.
#include "horovod_cpp/nn/losses/loss.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/docs.h"
#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/nn/functional.h"

namespace hvd::python {
namespace {

namespace F = nn::functional;

constexpr Arg kTarget{"target", "of the same shape and dtype."};
constexpr Arg kReduction{
    "reduction", "\"mean\" and \"sum\" make one number of all elements, \"none\" keeps them."};
constexpr Returns kScalar{"A scalar; of the input's shape with \"none\"."};
constexpr Invalid kDiffer{"shapes or dtypes differ, or an option is out of range."};
constexpr Remark kCalled{
    "Called with input and target of one shape; raises InvalidArgumentError on others."};

// The one string among the options of a loss is the reduction.
LossReduction native(const std::string& given) {
  return named_value<LossReduction>("reduction", given,
                                    {{"none", LossReduction::kNone},
                                     {"mean", LossReduction::kMean},
                                     {"sum", LossReduction::kSum},
                                     {"batchmean", LossReduction::kBatchMean}});
}
using python::native;

// A loss of options of the types `Given`, which `options` name, and its function, which has them
// behind input and target.
template <typename Loss, typename... Given>
void bind_loss(py::module_& m, py::module_& f, const char* loss, const char* function, auto call,
               const char* what, const auto&... options) {
  define_class<Loss, nn::Loss>(m, loss, what, py::init([](const Given&... given) {
                                 return std::make_shared<Loss>(native(given)...);
                               }),
                               options..., kCalled);
  define(
      f, function,
      [call](const Tensor& input, const Tensor& target, const Given&... given) {
        return call(input, target, native(given)...);
      },
      what, kInput, kTarget, options..., ReleaseGil(), kScalar, kDiffer);
}

void bind_element_losses(py::module_& m, py::module_& f) {
  using Reduction = std::string;
  const auto reduction = kReduction = "mean";
  bind_loss<nn::MSELoss, Reduction>(m, f, "MSELoss", "mse_loss", &F::mse_loss,
                                    "Squared difference.", reduction);
  bind_loss<nn::L1Loss, Reduction>(m, f, "L1Loss", "l1_loss", &F::l1_loss, "Absolute difference.",
                                   reduction);
  bind_loss<nn::HuberLoss, Reduction, Number>(
      m, f, "HuberLoss", "huber_loss", &F::huber_loss,
      "Quadratic where the difference is below ``delta``, else linear.", reduction,
      Arg("delta", "above 0.") = 1.0);
  bind_loss<nn::SmoothL1Loss, Reduction, Number>(
      m, f, "SmoothL1Loss", "smooth_l1_loss", &F::smooth_l1_loss,
      "huber_loss of ``delta = beta``, divided by ``beta``.", reduction,
      Arg("beta", "at least 0.") = 1.0);
  bind_loss<nn::KLDivLoss, Reduction, Flag<"log_target">>(
      m, f, "KLDivLoss", "kl_div", &F::kl_div,
      "Kullback-Leibler divergence of log-probabilities ``input`` from ``target``; reduction "
      "\"batchmean\" is the sum per example.",
      reduction, Arg("log_target", "whether ``target`` are logarithms too.") = false);
  const auto weight = Arg("weight", "factors that broadcast to the input's shape; None: 1.") =
      py::none();
  bind_loss<nn::BCELoss, MaybeTensor, Reduction>(
      m, f, "BCELoss", "binary_cross_entropy", &F::binary_cross_entropy,
      "Binary cross entropy of probabilities within [0, 1].", weight, reduction);
  bind_loss<nn::BCEWithLogitsLoss, MaybeTensor, Reduction, MaybeTensor>(
      m, f, "BCEWithLogitsLoss", "binary_cross_entropy_with_logits",
      &F::binary_cross_entropy_with_logits, "Binary cross entropy of logits.", weight, reduction,
      Arg("pos_weight", "factors of the positive term, likewise; None: 1.") = py::none());
}

// A loss of ClassLossOptions and its function. `More`: the smoothing of the one that has it.
template <typename Loss, typename... More>
void bind_class_loss(py::module_& m, py::module_& f, const char* loss, const char* function,
                     Tensor (*call)(const Tensor&, const Tensor&, const ClassLossOptions&),
                     const char* what, const Arg& input, const auto&... more) {
  const auto weight = Arg("weight", "[classes], the factor of each class; None: 1.") = py::none();
  const auto ignored = Arg("ignore_index", "examples with this target count nowhere.") = -100;
  const auto reduction = Arg("reduction", "\"mean\" (weighted), \"sum\" or \"none\".") = "mean";
  define_class<Loss, nn::Loss>(
      m, loss, what,
      py::init([](const MaybeTensor& w, Integer ignore, const std::string& how, More... rest) {
        return std::make_shared<Loss>(ClassLossOptions{native(w), ignore, native(how), rest...});
      }),
      weight, ignored, reduction, more...,
      Remark{
          "``weight`` is a buffer. Called with input [n, classes, ...] and target int64 [n, ...]; "
          "raises\nInvalidArgumentError on others and on a target that is not a class."});
  define(
      f, function,
      [call](const Tensor& x, const Tensor& t, const MaybeTensor& w, Integer ignore,
             const std::string& how, More... rest) {
        return call(x, t, ClassLossOptions{native(w), ignore, native(how), rest...});
      },
      what, input, Arg("target", "int64 [n, ...], or a scalar: the class of each."), weight,
      ignored, reduction, more..., ReleaseGil(),
      Returns{"A scalar; of the target's shape with \"none\"."},
      Invalid{"shapes or dtypes do not fit, or a target is not a class."});
}

void bind_class_losses(py::module_& m, py::module_& f) {
  bind_class_loss<nn::CrossEntropyLoss, Number>(
      m, f, "CrossEntropyLoss", "cross_entropy", &F::cross_entropy,
      "Cross entropy of logits against classes, or against probabilities of the input's shape and "
      "dtype.",
      Arg("input", "logits [n, classes, ...], or [classes]."),
      Arg("label_smoothing", "part of the target that is spread over all classes, within [0, 1].") =
          0.0);
  bind_class_loss<nn::NLLLoss>(m, f, "NLLLoss", "nll_loss", &F::nll_loss,
                               "Negative log-probability of classes.",
                               Arg("input", "log-probabilities [n, classes, ...], or [classes]."));
}

}  // namespace

void bind_nn_losses(py::module_& m, py::module_& functional) {
  py::classh<nn::Loss, nn::Module> base(m, "Loss", "A Module that compares input and target.");
  for (const char* name : {"__call__", "forward"}) {
    define(base, name, &nn::Loss::operator(), "The loss of ``input`` against ``target``.",
           Arg("input", "what the model gave; shapes are the class's."),
           Arg("target", "what it should have given."), ReleaseGil(),
           Returns{"A scalar, or one for each element if the reduction is \"none\"."},
           Invalid{"shapes or dtypes do not fit."});
  }
  bind_element_losses(m, functional);
  bind_class_losses(m, functional);
}

}  // namespace hvd::python
