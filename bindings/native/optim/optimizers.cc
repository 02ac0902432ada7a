#include "bindings/native/optim/optim.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/optim/optimizers.h"

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

// `Fields` are the types of the options except `maximize`, in their order in `OptionsOf`.
template <typename Optimizer, typename OptionsOf, typename... Fields>
void bind(py::module_& m, const char* name, const std::string& doc, const auto&... arguments) {
  py::classh<Optimizer, optim::Optimizer>(m, name, doc.c_str())
      .def(
          py::init([](const ParamsLike& params, const Fields&... fields,
                      Flag<"maximize"> maximize) {
            return std::make_shared<Optimizer>(groups_from(params), OptionsOf{fields..., maximize});
          }),
          py::arg("params"), arguments..., py::kw_only(), py::arg("maximize") = false);
}

using Betas = std::pair<Number, Number>;

void bind_sgd(py::module_& m) {
  const optim::SGDOptions given;
  bind<optim::SGD, optim::SGDOptions, Number, Number, Number, Number, Flag<"nesterov">>(
      m, "SGD",
      class_doc("Stochastic gradient descent with momentum.",
                {kParamsOfAnyFloat, kLr, kMomentum,
                 "dampening: part of the gradient that does not enter the momentum.", kWeightDecay,
                 "nesterov: look ahead along the momentum.", kMaximize},
                kOptimizerRaises),
      py::arg("lr") = given.lr, py::arg("momentum") = given.momentum,
      py::arg("dampening") = given.dampening, py::arg("weight_decay") = given.weight_decay,
      py::arg("nesterov") = given.nesterov);
}

// Adam and AdamW.
template <typename Optimizer, typename OptionsOf>
void bind_adam(py::module_& m, const char* name, const char* what, const char* weight_decay) {
  const OptionsOf given;
  bind<Optimizer, OptionsOf, Number, Betas, Number, Number, Flag<"amsgrad">>(
      m, name,
      class_doc(what, {kParams, kLr, kBetas, kEps, weight_decay, kAmsgrad, kMaximize},
                kOptimizerRaises),
      py::arg("lr") = given.lr, py::arg("betas") = given.betas, py::arg("eps") = given.eps,
      py::arg("weight_decay") = given.weight_decay, py::arg("amsgrad") = given.amsgrad);
}

void bind_rmsprop(py::module_& m) {
  const optim::RMSpropOptions given;
  bind<optim::RMSprop, optim::RMSpropOptions, Number, Number, Number, Number, Number,
       Flag<"centered">>(
      m, "RMSprop",
      class_doc(
          "RMSprop (Tieleman and Hinton 2012).",
          {kParams, kLr, "alpha: decay of the mean of squares.", kEps, kWeightDecay, kMomentum,
           "centered: divide by the variance, not by the mean of squares.", kMaximize},
          kOptimizerRaises),
      py::arg("lr") = given.lr, py::arg("alpha") = given.alpha, py::arg("eps") = given.eps,
      py::arg("weight_decay") = given.weight_decay, py::arg("momentum") = given.momentum,
      py::arg("centered") = given.centered);
}

void bind_adagrad(py::module_& m) {
  const optim::AdagradOptions given;
  bind<optim::Adagrad, optim::AdagradOptions, Number, Number, Number, Number, Number>(
      m, "Adagrad",
      class_doc("Adagrad (Duchi, Hazan and Singer 2011).",
                {kParams, kLr, "lr_decay: decay of the learning rate by step.", kWeightDecay,
                 "initial_accumulator_value: where the sum of squares begins.", kEps, kMaximize},
                kOptimizerRaises),
      py::arg("lr") = given.lr, py::arg("lr_decay") = given.lr_decay,
      py::arg("weight_decay") = given.weight_decay,
      py::arg("initial_accumulator_value") = given.initial_accumulator_value,
      py::arg("eps") = given.eps);
}

void bind_adadelta(py::module_& m) {
  const optim::AdadeltaOptions given;
  bind<optim::Adadelta, optim::AdadeltaOptions, Number, Number, Number, Number>(
      m, "Adadelta",
      class_doc("Adadelta (Zeiler 2012).",
                {kParams, kLr, "rho: decay of the means of squares.",
                 "eps: added to numerator and denominator.", kWeightDecay, kMaximize},
                kOptimizerRaises),
      py::arg("lr") = given.lr, py::arg("rho") = given.rho, py::arg("eps") = given.eps,
      py::arg("weight_decay") = given.weight_decay);
}

void bind_lamb(py::module_& m) {
  const optim::LAMBOptions given;
  bind<optim::LAMB, optim::LAMBOptions, Number, Betas, Number, Number>(
      m, "LAMB",
      class_doc(
          "LAMB (You et al. 2020): Adam's direction, as long as the parameter is.",
          {kParams, kLr, kBetas, kEps,
           "weight_decay: factor of the parameter that is added to the direction.", kMaximize},
          kOptimizerRaises),
      py::arg("lr") = given.lr, py::arg("betas") = given.betas, py::arg("eps") = given.eps,
      py::arg("weight_decay") = given.weight_decay);
}

}  // namespace

void bind_optimizers(py::module_& m) {
  bind_sgd(m);
  bind_adam<optim::Adam, optim::AdamOptions>(m, "Adam", "Adam (Kingma and Ba 2015).", kWeightDecay);
  bind_adam<optim::AdamW, optim::AdamWOptions>(
      m, "AdamW", "Adam with decoupled weight decay (Loshchilov and Hutter 2019).",
      "weight_decay: part by which a step of lr 1 shrinks the parameter.");
  bind_rmsprop(m);
  bind_adagrad(m);
  bind_adadelta(m);
  bind_lamb(m);
}

}  // namespace hvd::python
