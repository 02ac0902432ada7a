#include "horovod_cpp/optim/adam_update.h"

#include <cmath>

#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

template <typename T>
AdamRule<T> rule_of(bool decoupled, const Options& options, std::int64_t steps) {
  const double beta1 = options.at("beta1");
  const double beta2 = options.at("beta2");
  const auto exponent = static_cast<double>(steps);
  AdamRule<T> rule;
  rule.sign = options.at("maximize") != 0 ? T{-1} : T{1};
  rule.beta1 = static_cast<T>(beta1);
  rule.beta2 = static_cast<T>(beta2);
  rule.take1 = static_cast<T>(1 - beta1);
  rule.take2 = static_cast<T>(1 - beta2);
  rule.step_size = static_cast<T>(options.at("lr") / (1 - std::pow(beta1, exponent)));
  rule.root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, exponent)));
  rule.eps = static_cast<T>(options.at("eps"));
  const double weight_decay = options.at("weight_decay");
  if (decoupled) {
    rule.shrink = static_cast<T>(1 - options.at("lr") * weight_decay);
  } else {
    rule.weight_decay = static_cast<T>(weight_decay);
  }
  return rule;
}

}  // namespace

void check_adam(const Options& options) {
  check_not_negative(options, "lr");
  check_below_one(options, "beta1");
  check_below_one(options, "beta2");
  check_not_negative(options, "eps");
  check_not_negative(options, "weight_decay");
}

void adam_update(bool decoupled, Tensor& param, const Tensor& grad, ParamState& state,
                 const Options& options) {
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* mean = state_tensor(state, kAdamMean, param).data<T>();
    T* square = state_tensor(state, kAdamSquare, param).data<T>();
    const bool amsgrad = options.at("amsgrad") != 0;
    T* largest = amsgrad ? state_tensor(state, kAdamLargest, param).data<T>() : nullptr;
    update_table().of<T>().adam(rule_of<T>(decoupled, options, state.steps), param.numel(),
                                param.data<T>(), grad.data<T>(), mean, square, largest);
  });
}

}  // namespace optim
}  // namespace hvd
