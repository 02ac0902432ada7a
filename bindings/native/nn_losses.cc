#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/nn.h"
#include "horovod_cpp/nn/loss.h"

namespace hvd::python {
namespace {

template <typename Loss>
using Class = py::classh<Loss, nn::Loss>;

template <typename Loss>
void bind_plain(py::module_& m, const char* name, const char* doc) {
  Class<Loss>(m, name, doc)
      .def(py::init([](const std::string& reduction) {
             return std::make_shared<Loss>(reduction_from(reduction));
           }),
           py::arg("reduction") = "mean");
}

// A loss with a threshold, "delta" or "beta".
template <typename Loss>
void bind_threshold(py::module_& m, const char* name, const char* option, const char* doc) {
  Class<Loss>(m, name, doc)
      .def(py::init([](const std::string& reduction, double threshold) {
             return std::make_shared<Loss>(reduction_from(reduction), threshold);
           }),
           py::arg("reduction") = "mean", py::arg(option) = 1.0);
}

void bind_binary(py::module_& m) {
  Class<nn::BCELoss>(m, "BCELoss", "Binary cross entropy of probabilities.")
      .def(py::init([](const MaybeTensor& weight, const std::string& reduction) {
             return std::make_shared<nn::BCELoss>(or_none(weight), reduction_from(reduction));
           }),
           py::arg("weight") = py::none(), py::arg("reduction") = "mean");
  Class<nn::BCEWithLogitsLoss>(m, "BCEWithLogitsLoss", "Binary cross entropy of logits.")
      .def(py::init([](const MaybeTensor& weight, const std::string& reduction,
                       const MaybeTensor& pos_weight) {
             return std::make_shared<nn::BCEWithLogitsLoss>(
                 or_none(weight), reduction_from(reduction), or_none(pos_weight));
           }),
           py::arg("weight") = py::none(), py::arg("reduction") = "mean",
           py::arg("pos_weight") = py::none());
}

void bind_classes(py::module_& m) {
  Class<nn::CrossEntropyLoss>(
      m, "CrossEntropyLoss",
      "Cross entropy of logits [n, classes, ...] against int64 classes or probabilities.")
      .def(py::init([](const MaybeTensor& weight, std::int64_t ignore_index,
                       const std::string& reduction, double label_smoothing) {
             return std::make_shared<nn::CrossEntropyLoss>(ClassLossOptions{
                 or_none(weight), ignore_index, reduction_from(reduction), label_smoothing});
           }),
           py::arg("weight") = py::none(), py::arg("ignore_index") = -100,
           py::arg("reduction") = "mean", py::arg("label_smoothing") = 0.0);
  Class<nn::NLLLoss>(m, "NLLLoss",
                     "Negative log-probability of int64 classes: input [n, classes, ...].")
      .def(py::init([](const MaybeTensor& weight, std::int64_t ignore_index,
                       const std::string& reduction) {
             return std::make_shared<nn::NLLLoss>(
                 ClassLossOptions{or_none(weight), ignore_index, reduction_from(reduction), 0.0});
           }),
           py::arg("weight") = py::none(), py::arg("ignore_index") = -100,
           py::arg("reduction") = "mean");
}

}  // namespace

void bind_nn_losses(py::module_& m) {
  py::classh<nn::Loss, nn::Module> base(m, "Loss", "A Module that compares input and target.");
  for (const char* name : {"__call__", "forward"}) {
    base.def(name, &nn::Loss::operator(), py::arg("input"), py::arg("target"), ReleaseGil(),
             "The loss: a scalar, or one for each element if the reduction is \"none\".");
  }
  bind_plain<nn::MSELoss>(m, "MSELoss", "Squared difference.");
  bind_plain<nn::L1Loss>(m, "L1Loss", "Absolute difference.");
  bind_threshold<nn::HuberLoss>(m, "HuberLoss", "delta",
                                "Quadratic where the difference is below ``delta``, else linear.");
  bind_threshold<nn::SmoothL1Loss>(m, "SmoothL1Loss", "beta",
                                   "HuberLoss of ``delta = beta``, divided by ``beta``.");
  bind_binary(m);
  bind_classes(m);
  Class<nn::KLDivLoss>(m, "KLDivLoss",
                       "Kullback-Leibler divergence: input are log-probabilities, target "
                       "probabilities or, with ``log_target``, their logarithms.")
      .def(py::init([](const std::string& reduction, bool log_target) {
             return std::make_shared<nn::KLDivLoss>(reduction_from(reduction), log_target);
           }),
           py::arg("reduction") = "mean", py::arg("log_target") = false);
}

}  // namespace hvd::python
