#include "bindings/native/optim.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "horovod_cpp/optim/adadelta.h"
#include "horovod_cpp/optim/adagrad.h"
#include "horovod_cpp/optim/adam.h"
#include "horovod_cpp/optim/adamw.h"
#include "horovod_cpp/optim/lamb.h"
#include "horovod_cpp/optim/rmsprop.h"
#include "horovod_cpp/optim/sgd.h"

namespace hvd::python {
namespace {

void bind_sgd(py::module_& m) {
  py::classh<optim::SGD, optim::Optimizer>(m, "SGD",
                                           R"(Stochastic gradient descent with momentum.

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number} with options
        of their own. float16 and bfloat16 ones are updated through a float32 copy.
    lr: learning rate.
    momentum: factor of the previous steps.
    dampening: part of the gradient that does not enter the momentum.
    weight_decay: factor of the parameter that is added to its gradient.
    nesterov: look ahead along the momentum.
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, double momentum, double dampening,
                       double weight_decay, bool nesterov, bool maximize) {
             return std::make_shared<optim::SGD>(
                 groups_from(params),
                 optim::SGDOptions{lr, momentum, dampening, weight_decay, nesterov, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-3, py::arg("momentum") = 0.0,
           py::arg("dampening") = 0.0, py::arg("weight_decay") = 0.0, py::arg("nesterov") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_adam(py::module_& m) {
  py::classh<optim::Adam, optim::Optimizer>(m, "Adam",
                                            R"(Adam (Kingma and Ba 2015).

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    lr: learning rate.
    betas: decay of the means of gradient and squared gradient, each within [0, 1).
    eps: added to the denominator.
    weight_decay: factor of the parameter that is added to its gradient.
    amsgrad: use the largest mean of squares so far (Reddi et al. 2018).
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, const std::pair<double, double>& betas,
                       double eps, double weight_decay, bool amsgrad, bool maximize) {
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
      R"(Adam with decoupled weight decay (Loshchilov and Hutter 2019).

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    lr: learning rate.
    betas: decay of the means of gradient and squared gradient, each within [0, 1).
    eps: added to the denominator.
    weight_decay: part by which a step of lr 1 shrinks the parameter.
    amsgrad: use the largest mean of squares so far (Reddi et al. 2018).
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, const std::pair<double, double>& betas,
                       double eps, double weight_decay, bool amsgrad, bool maximize) {
             return std::make_shared<optim::AdamW>(
                 groups_from(params),
                 optim::AdamWOptions{lr, betas, eps, weight_decay, amsgrad, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-3, py::arg("betas") = std::pair(0.9, 0.999),
           py::arg("eps") = 1e-8, py::arg("weight_decay") = 1e-2, py::arg("amsgrad") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_rmsprop(py::module_& m) {
  py::classh<optim::RMSprop, optim::Optimizer>(m, "RMSprop",
                                               R"(RMSprop (Tieleman and Hinton 2012).

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    lr: learning rate.
    alpha: decay of the mean of squares.
    eps: added to the denominator.
    weight_decay: factor of the parameter that is added to its gradient.
    momentum: factor of the previous steps.
    centered: divide by the variance, not by the mean of squares.
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, double alpha, double eps,
                       double weight_decay, double momentum, bool centered, bool maximize) {
             return std::make_shared<optim::RMSprop>(
                 groups_from(params),
                 optim::RMSpropOptions{lr, alpha, eps, weight_decay, momentum, centered, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1e-2, py::arg("alpha") = 0.99, py::arg("eps") = 1e-8,
           py::arg("weight_decay") = 0.0, py::arg("momentum") = 0.0, py::arg("centered") = false,
           py::kw_only(), py::arg("maximize") = false);
}

void bind_adagrad(py::module_& m) {
  py::classh<optim::Adagrad, optim::Optimizer>(m, "Adagrad",
                                               R"(Adagrad (Duchi, Hazan and Singer 2011).

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    lr: learning rate.
    lr_decay: decay of the learning rate by step.
    weight_decay: factor of the parameter that is added to its gradient.
    initial_accumulator_value: where the sum of squares begins.
    eps: added to the denominator.
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, double lr_decay, double weight_decay,
                       double initial_accumulator_value, double eps, bool maximize) {
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
  py::classh<optim::Adadelta, optim::Optimizer>(m, "Adadelta",
                                                R"(Adadelta (Zeiler 2012).

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    lr: learning rate.
    rho: decay of the means of squares.
    eps: added to numerator and denominator.
    weight_decay: factor of the parameter that is added to its gradient.
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, double rho, double eps,
                       double weight_decay, bool maximize) {
             return std::make_shared<optim::Adadelta>(
                 groups_from(params), optim::AdadeltaOptions{lr, rho, eps, weight_decay, maximize});
           }),
           py::arg("params"), py::arg("lr") = 1.0, py::arg("rho") = 0.9, py::arg("eps") = 1e-6,
           py::arg("weight_decay") = 0.0, py::kw_only(), py::arg("maximize") = false);
}

void bind_lamb(py::module_& m) {
  py::classh<optim::LAMB, optim::Optimizer>(
      m, "LAMB",
      R"(LAMB (You et al. 2020): Adam's direction, as long as the parameter is.

Args:
    params: Tensors of a floating dtype, or dicts {"params": Tensors, option: number}.
    lr: learning rate.
    betas: decay of the means of gradient and squared gradient, each within [0, 1).
    eps: added to the denominator.
    weight_decay: factor of the parameter that is added to the direction.
    maximize: climb instead of descending.

Raises:
    InvalidArgumentError: no parameters, one given twice, or an option unknown or out of range.)")
      .def(py::init([](const ParamsLike& params, double lr, const std::pair<double, double>& betas,
                       double eps, double weight_decay, bool maximize) {
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
