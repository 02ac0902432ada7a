#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/nn/losses/loss.h"

namespace hvd::python {
namespace {

template <typename Loss>
using LossClass = py::classh<Loss, nn::Loss>;

template <typename Loss>
void bind_plain(py::module_& m, const char* name, const char* doc) {
  LossClass<Loss>(m, name, doc)
      .def(py::init([](const std::string& reduction) {
             return std::make_shared<Loss>(reduction_from(reduction));
           }),
           py::arg("reduction") = "mean");
}

// A loss with a threshold, "delta" or "beta".
template <typename Loss>
void bind_threshold(py::module_& m, const char* name, const char* option, const char* doc) {
  LossClass<Loss>(m, name, doc)
      .def(py::init([](const std::string& reduction, Number threshold) {
             return std::make_shared<Loss>(reduction_from(reduction), threshold);
           }),
           py::arg("reduction") = "mean", py::arg(option) = 1.0);
}

void bind_binary(py::module_& m) {
  LossClass<nn::BCELoss>(m, "BCELoss", R"(Binary cross entropy of probabilities within [0, 1].

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.
    weight: factors that broadcast to the input's shape; None: 1.

Called with input and target of one shape; raises InvalidArgumentError on others.)")
      .def(py::init([](const MaybeTensor& weight, const std::string& reduction) {
             return std::make_shared<nn::BCELoss>(or_none(weight), reduction_from(reduction));
           }),
           py::arg("weight") = py::none(), py::arg("reduction") = "mean");
  LossClass<nn::BCEWithLogitsLoss>(m, "BCEWithLogitsLoss", R"(Binary cross entropy of logits.

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.
    weight: factors that broadcast to the input's shape; None: 1.
    pos_weight: factors of the positive term, likewise; None: 1.

Called with input and target of one shape; raises InvalidArgumentError on others.)")
      .def(py::init([](const MaybeTensor& weight, const std::string& reduction,
                       const MaybeTensor& pos_weight) {
             return std::make_shared<nn::BCEWithLogitsLoss>(
                 or_none(weight), reduction_from(reduction), or_none(pos_weight));
           }),
           py::arg("weight") = py::none(), py::arg("reduction") = "mean",
           py::arg("pos_weight") = py::none());
}

void bind_classes(py::module_& m) {
  LossClass<nn::CrossEntropyLoss>(m, "CrossEntropyLoss",
                                  R"(Cross entropy of logits against int64 classes or probabilities.

Args:
    weight: [classes], the factor of each class, a buffer; None: 1.
    ignore_index: examples with this target count nowhere.
    reduction: "mean" (weighted), "sum" or "none".
    label_smoothing: part of the target that is spread over all classes, within [0, 1].

Called with input [n, classes, ...] and target int64 [n, ...]; raises InvalidArgumentError on others and
on a target that is not a class.)")
      .def(py::init([](const MaybeTensor& weight, Integer ignore_index,
                       const std::string& reduction, Number label_smoothing) {
             return std::make_shared<nn::CrossEntropyLoss>(ClassLossOptions{
                 or_none(weight), ignore_index, reduction_from(reduction), label_smoothing});
           }),
           py::arg("weight") = py::none(), py::arg("ignore_index") = -100,
           py::arg("reduction") = "mean", py::arg("label_smoothing") = 0.0);
  LossClass<nn::NLLLoss>(m, "NLLLoss",
                         R"(Negative log-probability of int64 classes.

Args:
    weight: [classes], the factor of each class, a buffer; None: 1.
    ignore_index: examples with this target count nowhere.
    reduction: "mean" (weighted), "sum" or "none".

Called with input [n, classes, ...] and target int64 [n, ...]; raises InvalidArgumentError on others and
on a target that is not a class.)")
      .def(py::init(
               [](const MaybeTensor& weight, Integer ignore_index, const std::string& reduction) {
                 return std::make_shared<nn::NLLLoss>(ClassLossOptions{
                     or_none(weight), ignore_index, reduction_from(reduction), 0.0});
               }),
           py::arg("weight") = py::none(), py::arg("ignore_index") = -100,
           py::arg("reduction") = "mean");
}

}  // namespace

void bind_nn_losses(py::module_& m) {
  py::classh<nn::Loss, nn::Module> base(m, "Loss", "A Module that compares input and target.");
  for (const char* name : {"__call__", "forward"}) {
    base.def(name, &nn::Loss::operator(), py::arg("input"), py::arg("target"), ReleaseGil(),
             R"(The loss of ``input`` against ``target``.

Args:
    input: what the model gave; shapes are the class's.
    target: what it should have given.

Returns:
    A scalar, or one for each element if the reduction is "none".

Raises:
    InvalidArgumentError: shapes or dtypes do not fit.)");
  }
  bind_plain<nn::MSELoss>(m, "MSELoss", R"(Squared difference.

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.

Called with input and target of one shape; raises InvalidArgumentError on others.)");
  bind_plain<nn::L1Loss>(m, "L1Loss", R"(Absolute difference.

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.

Called with input and target of one shape; raises InvalidArgumentError on others.)");
  bind_threshold<nn::HuberLoss>(m, "HuberLoss", "delta",
                                R"(Quadratic where the difference is below ``delta``, else linear.

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.
    delta: above 0.

Called with input and target of one shape; raises InvalidArgumentError on others.)");
  bind_threshold<nn::SmoothL1Loss>(m, "SmoothL1Loss", "beta",
                                   R"(HuberLoss of ``delta = beta``, divided by ``beta``.

Args:
    reduction: "mean" and "sum" make one number of all elements, "none" keeps them.
    beta: at least 0.

Called with input and target of one shape; raises InvalidArgumentError on others.)");
  bind_binary(m);
  bind_classes(m);
  LossClass<nn::KLDivLoss>(m, "KLDivLoss",
                           R"(Kullback-Leibler divergence of log-probabilities from a target.

Args:
    reduction: "mean", "sum", "none", or "batchmean": the sum by example.
    log_target: whether targets are logarithms too.

Called with input and target of one shape; raises InvalidArgumentError on others.)")
      .def(py::init([](const std::string& reduction, Flag<"log_target"> log_target) {
             return std::make_shared<nn::KLDivLoss>(reduction_from(reduction), log_target);
           }),
           py::arg("reduction") = "mean", py::arg("log_target") = false);
}

}  // namespace hvd::python
