#include "bindings/native/optim/optim.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "bindings/native/numbers.h"
#include "bindings/native/docs.h"
#include "horovod_cpp/optim/adadelta.h"
#include "horovod_cpp/optim/adagrad.h"
#include "horovod_cpp/optim/adam.h"
#include "horovod_cpp/optim/adamw.h"
#include "horovod_cpp/optim/lamb.h"
#include "horovod_cpp/optim/rmsprop.h"
#include "horovod_cpp/optim/sgd.h"

namespace hvd::python {
namespace {

constexpr const char* kParams =
    "params: Tensors of a floating dtype, or dicts {\"params\": Tensors, option: number}.";
constexpr const char* kParamsOfAnyFloat =
    R"(params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number} with options
        of their own. float16 and bfloat16 ones are updated through a float32 copy.)";
constexpr const char* kLr = "lr: learning rate.";
constexpr const char* kBetas =
    "betas: decay of the means of gradient and squared gradient, each within [0, 1).";
constexpr const char* kEps = "eps: added to the denominator.";
constexpr const char* kWeightDecay =
    "weight_decay: factor of the parameter that is added to its gradient.";
constexpr const char* kMomentum = "momentum: factor of the previous steps.";
constexpr const char* kAmsgrad =
    "amsgrad: use the largest mean of squares so far (Reddi et al. 2018).";
constexpr const char* kMaximize = "maximize: climb instead of descending.";
constexpr const char* kOptimizerRaises =
    "InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.";

void bind_sgd(py::module_& m) {
  py::classh<optim::SGD, optim::Optimizer>(
      m, "SGD",
      class_doc("Stochastic gradient descent with momentum.",
                {kParamsOfAnyFloat, kLr, kMomentum,
                 "dampening: part of the gradient that does not enter the momentum.", kWeightDecay,
                 "nesterov: look ahead along the momentum.", kMaximize},
                kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, Number momentum, Number dampening,
                       Number weight_decay, Flag<"nesterov"> nesterov, Flag<"maximize"> maximize) {
             return std::make_shared<optim::SGD>(
                 groups_from(params),
                 optim::SGDOptions{lr, momentum, dampening, weight_decay, nesterov, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-3, py::arg("momentum") = 0.0,
           py::arg("dampening") = 0.0, py::arg("weight_decay") = 0.0, py::arg("nesterov") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_adam(py::module_& m) {
  py::classh<optim::Adam, optim::Optimizer>(
      m, "Adam",
      class_doc("Adam (Kingma and Ba 2015).",
                {kParams, kLr, kBetas, kEps, kWeightDecay, kAmsgrad, kMaximize}, kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, const std::pair<Number, Number>& betas,
                       Number eps, Number weight_decay, Flag<"amsgrad"> amsgrad,
                       Flag<"maximize"> maximize) {
             return std::make_shared<optim::Adam>(
                 groups_from(params),
                 optim::AdamOptions{lr, betas, eps, weight_decay, amsgrad, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-3, py::arg("betas") = std::pair(0.9, 0.999),
           py::arg("eps") = 1e-8, py::arg("weight_decay") = 0.0, py::arg("amsgrad") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_adamw(py::module_& m) {
  py::classh<optim::AdamW, optim::Optimizer>(
      m, "AdamW",
      class_doc("Adam with decoupled weight decay (Loshchilov and Hutter 2019).",
                {kParams, kLr, kBetas, kEps,
                 "weight_decay: part by which a step of lr 1 shrinks the parameter.", kAmsgrad,
                 kMaximize},
                kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, const std::pair<Number, Number>& betas,
                       Number eps, Number weight_decay, Flag<"amsgrad"> amsgrad,
                       Flag<"maximize"> maximize) {
             return std::make_shared<optim::AdamW>(
                 groups_from(params),
                 optim::AdamWOptions{lr, betas, eps, weight_decay, amsgrad, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-3, py::arg("betas") = std::pair(0.9, 0.999),
           py::arg("eps") = 1e-8, py::arg("weight_decay") = 1e-2, py::arg("amsgrad") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_rmsprop(py::module_& m) {
  py::classh<optim::RMSprop, optim::Optimizer>(
      m, "RMSprop",
      class_doc(
          "RMSprop (Tieleman and Hinton 2012).",
          {kParams, kLr, "alpha: decay of the mean of squares.", kEps, kWeightDecay, kMomentum,
           "centered: divide by the variance, not by the mean of squares.", kMaximize},
          kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, Number alpha, Number eps,
                       Number weight_decay, Number momentum, Flag<"centered"> centered,
                       Flag<"maximize"> maximize) {
             return std::make_shared<optim::RMSprop>(
                 groups_from(params),
                 optim::RMSpropOptions{lr, alpha, eps, weight_decay, momentum, centered, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-2, py::arg("alpha") = 0.99, py::arg("eps") = 1e-8,
           py::arg("weight_decay") = 0.0, py::arg("momentum") = 0.0, py::arg("centered") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_adagrad(py::module_& m) {
  py::classh<optim::Adagrad, optim::Optimizer>(
      m, "Adagrad",
      class_doc("Adagrad (Duchi, Hazan and Singer 2011).",
                {kParams, kLr, "lr_decay: decay of the learning rate by step.", kWeightDecay,
                 "initial_accumulator_value: where the sum of squares begins.", kEps, kMaximize},
                kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, Number lr_decay, Number weight_decay,
                       Number initial_accumulator_value, Number eps, Flag<"maximize"> maximize) {
             return std::make_shared<optim::Adagrad>(
                 groups_from(params),
                 optim::AdagradOptions{lr, lr_decay, weight_decay, initial_accumulator_value, eps,
                                       maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-2, py::arg("lr_decay") = 0.0,
           py::arg("weight_decay") = 0.0, py::arg("initial_accumulator_value") = 0.0,
           py::arg("eps") = 1e-10, py::kw_only(), py::arg("maximize") = false);
}

void bind_adadelta(py::module_& m) {
  py::classh<optim::Adadelta, optim::Optimizer>(
      m, "Adadelta",
      class_doc("Adadelta (Zeiler 2012).",
                {kParams, kLr, "rho: decay of the means of squares.",
                 "eps: added to numerator and denominator.", kWeightDecay, kMaximize},
                kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, Number rho, Number eps,
                       Number weight_decay, Flag<"maximize"> maximize) {
             return std::make_shared<optim::Adadelta>(
                 groups_from(params), optim::AdadeltaOptions{lr, rho, eps, weight_decay, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1.0, py::arg("rho") = 0.9, py::arg("eps") = 1e-6,
           py::arg("weight_decay") = 0.0, py::kw_only(), py::arg("maximize") = false);
}

void bind_lamb(py::module_& m) {
  py::classh<optim::LAMB, optim::Optimizer>(
      m, "LAMB",
      class_doc(
          "LAMB (You et al. 2020): Adam's direction, as long as the parameter is.",
          {kParams, kLr, kBetas, kEps,
           "weight_decay: factor of the parameter that is added to the direction.", kMaximize},
          kOptimizerRaises)
          .c_str())
      .def(py::init([](const ParamsLike& params, Number lr, const std::pair<Number, Number>& betas,
                       Number eps, Number weight_decay, Flag<"maximize"> maximize) {
             return std::make_shared<optim::LAMB>(
                 groups_from(params), optim::LAMBOptions{lr, betas, eps, weight_decay, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-3, py::arg("betas") = std::pair(0.9, 0.999),
           py::arg("eps") = 1e-6, py::arg("weight_decay") = 0.0, py::kw_only(),
           py::arg("maximize") = false);
}

}  // namespace

void bind_optimizers(py::module_& m) {
  bind_sgd(m);
  bind_adam(m);
  bind_adamw(m);
  bind_rmsprop(m);
  bind_adagrad(m);
  bind_adadelta(m);
  bind_lamb(m);
}

}  // namespace hvd::python
