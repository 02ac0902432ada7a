#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "horovod_cpp/optim/optimizers.h"

namespace hvd {

using MakeOptimizer =
    std::function<std::shared_ptr<optim::Optimizer>(const std::vector<Tensor>& params)>;

struct OptimizerCase {
  std::string name;  // in optim.safetensors too
  MakeOptimizer make;
};

inline void PrintTo(const OptimizerCase& instance, std::ostream* out) {
  *out << instance.name;
}

template <typename Optimizer, typename Options>
OptimizerCase optimizer_case(std::string name, const Options& options) {
  return {std::move(name), [options](const std::vector<Tensor>& params) {
            return std::make_shared<Optimizer>(params, options);
          }};
}

// Every optimizer, with options that take every path through its rule.
inline std::vector<OptimizerCase> every_optimizer() {
  using namespace optim;
  return {
      optimizer_case<SGD>("sgd", SGDOptions{.lr = 0.1}),
      optimizer_case<SGD>(
          "sgd_momentum",
          SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.25, .weight_decay = 0.01}),
      optimizer_case<SGD>(
          "sgd_nesterov",
          SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true}),
      optimizer_case<Adam>("adam",
                           AdamOptions{.lr = 0.02, .betas = {0.8, 0.95}, .weight_decay = 0.1}),
      optimizer_case<Adam>(
          "adam_amsgrad",
          AdamOptions{.lr = 0.02, .betas = {0.5, 0.6}, .eps = 1e-4, .amsgrad = true}),
      optimizer_case<Adam>("adam_maximize", AdamOptions{.lr = 0.02, .maximize = true}),
      optimizer_case<AdamW>("adamw", AdamWOptions{.lr = 0.02, .weight_decay = 0.3}),
      optimizer_case<AdamW>(
          "adamw_amsgrad",
          AdamWOptions{.lr = 0.02, .betas = {0.5, 0.6}, .amsgrad = true, .maximize = true}),
      optimizer_case<RMSprop>("rmsprop",
                              RMSpropOptions{.lr = 0.02, .alpha = 0.9, .weight_decay = 0.1}),
      optimizer_case<RMSprop>("rmsprop_centered",
                              RMSpropOptions{.lr = 0.02, .eps = 1e-3, .centered = true}),
      optimizer_case<RMSprop>(
          "rmsprop_momentum",
          RMSpropOptions{
              .lr = 0.02, .alpha = 0.9, .momentum = 0.8, .centered = true, .maximize = true}),
      optimizer_case<Adagrad>("adagrad",
                              AdagradOptions{.lr = 0.1, .lr_decay = 0.25, .weight_decay = 0.1}),
      optimizer_case<Adagrad>(
          "adagrad_initial",
          AdagradOptions{
              .lr = 0.1, .initial_accumulator_value = 0.5, .eps = 1e-3, .maximize = true}),
      optimizer_case<Adadelta>("adadelta",
                               AdadeltaOptions{.lr = 2.0, .rho = 0.8, .weight_decay = 0.1}),
      optimizer_case<Adadelta>("adadelta_maximize", AdadeltaOptions{.eps = 1e-3, .maximize = true}),
      optimizer_case<LAMB>("lamb",
                           LAMBOptions{.lr = 0.02, .betas = {0.8, 0.95}, .weight_decay = 0.1}),
      optimizer_case<LAMB>("lamb_maximize", LAMBOptions{.lr = 0.02, .eps = 1e-3, .maximize = true}),
  };
}

}  // namespace hvd
