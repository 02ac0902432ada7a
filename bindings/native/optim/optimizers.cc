#include "bindings/native/optim/optim.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/optim/optimizers.h"

namespace hvd::python {
namespace {

constexpr Arg kParams{
    "params", "Tensors of a floating dtype, or dicts {\"params\": Tensors, option: number}."};
constexpr Arg kLr{"lr", "learning rate."};
constexpr Arg kBetas{"betas",
                     "decay of the means of gradient and squared gradient, each within [0, 1)."};
constexpr Arg kEps{"eps", "added to the denominator."};
constexpr Arg kWeightDecay{"weight_decay",
                           "factor of the parameter that is added to its gradient."};
constexpr Arg kMomentum{"momentum", "factor of the previous steps."};
constexpr Arg kMaximize{"maximize", "climb instead of descending."};
constexpr Invalid kOptimizerRaises{
    "no parameters, one given twice, or an option unknown or out of range."};

// `Fields` are the types of the options except `maximize`, in their order in `OptionsOf`.
template <typename Optimizer, typename OptionsOf, typename... Fields>
void bind(py::module_& m, const char* name, const char* what, const auto&... arguments) {
  define_class<Optimizer, optim::Optimizer>(
      m, name, what,
      py::init([](const ParamsLike& params, const Fields&... fields, Flag<"maximize"> maximize) {
        return std::make_shared<Optimizer>(groups_from(params), OptionsOf{fields..., maximize});
      }),
      arguments..., py::kw_only(), kMaximize = false, kOptimizerRaises);
}

using Betas = std::pair<Number, Number>;

void bind_sgd(py::module_& m) {
  const optim::SGDOptions given;
  bind<optim::SGD, optim::SGDOptions, Number, Number, Number, Number, Flag<"nesterov">>(
      m, "SGD", "Stochastic gradient descent with momentum.",
      Arg("params",
          "Tensors of a floating dtype, or dicts {\"params\": Tensors, option: number} with "
          "options\n        of their own. float16 and bfloat16 ones are updated through a float32 "
          "copy."),
      kLr = given.lr, kMomentum = given.momentum,
      Arg("dampening", "part of the gradient that does not enter the momentum.") = given.dampening,
      kWeightDecay = given.weight_decay,
      Arg("nesterov", "look ahead along the momentum.") = given.nesterov);
}

// Adam and AdamW.
template <typename Optimizer, typename OptionsOf>
void bind_adam(py::module_& m, const char* name, const char* what, const Arg& weight_decay) {
  const OptionsOf given;
  bind<Optimizer, OptionsOf, Number, Betas, Number, Number, Flag<"amsgrad">>(
      m, name, what, kParams, kLr = given.lr, kBetas = given.betas, kEps = given.eps,
      weight_decay = given.weight_decay,
      Arg("amsgrad", "use the largest mean of squares so far (Reddi et al. 2018).") =
          given.amsgrad);
}

void bind_rmsprop(py::module_& m) {
  const optim::RMSpropOptions given;
  bind<optim::RMSprop, optim::RMSpropOptions, Number, Number, Number, Number, Number,
       Flag<"centered">>(
      m, "RMSprop", "RMSprop (Tieleman and Hinton 2012).", kParams, kLr = given.lr,
      Arg("alpha", "decay of the mean of squares.") = given.alpha, kEps = given.eps,
      kWeightDecay = given.weight_decay, kMomentum = given.momentum,
      Arg("centered", "divide by the variance, not by the mean of squares.") = given.centered);
}

void bind_adagrad(py::module_& m) {
  const optim::AdagradOptions given;
  bind<optim::Adagrad, optim::AdagradOptions, Number, Number, Number, Number, Number>(
      m, "Adagrad", "Adagrad (Duchi, Hazan and Singer 2011).", kParams, kLr = given.lr,
      Arg("lr_decay", "decay of the learning rate per step.") = given.lr_decay,
      kWeightDecay = given.weight_decay,
      Arg("initial_accumulator_value", "where the sum of squares begins.") =
          given.initial_accumulator_value,
      kEps = given.eps);
}

void bind_adadelta(py::module_& m) {
  const optim::AdadeltaOptions given;
  bind<optim::Adadelta, optim::AdadeltaOptions, Number, Number, Number, Number>(
      m, "Adadelta", "Adadelta (Zeiler 2012).", kParams, kLr = given.lr,
      Arg("rho", "decay of the means of squares.") = given.rho,
      Arg("eps", "added to numerator and denominator.") = given.eps,
      kWeightDecay = given.weight_decay);
}

void bind_lamb(py::module_& m) {
  const optim::LAMBOptions given;
  bind<optim::LAMB, optim::LAMBOptions, Number, Betas, Number, Number>(
      m, "LAMB", "LAMB (You et al. 2020): Adam's direction, as long as the parameter is.", kParams,
      kLr = given.lr, kBetas = given.betas, kEps = given.eps,
      Arg("weight_decay", "factor of the parameter that is added to the direction.") =
          given.weight_decay);
}

}  // namespace

void bind_optimizers(py::module_& m) {
  bind_sgd(m);
  bind_adam<optim::Adam, optim::AdamOptions>(m, "Adam", "Adam (Kingma and Ba 2015).", kWeightDecay);
  bind_adam<optim::AdamW, optim::AdamWOptions>(
      m, "AdamW", "Adam with decoupled weight decay (Loshchilov and Hutter 2019).",
      Arg("weight_decay", "part by which a step of lr 1 shrinks the parameter."));
  bind_rmsprop(m);
  bind_adagrad(m);
  bind_adadelta(m);
  bind_lamb(m);
}

}  // namespace hvd::python
