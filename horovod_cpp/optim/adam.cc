#include "horovod_cpp/optim/adam.h"

#include <cmath>
#include <utility>

#include "horovod_cpp/optim/apply_update.h"
#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kAdamMean = "exp_avg";
constexpr const char* kAdamSquare = "exp_avg_sq";
constexpr const char* kAdamLargest = "max_exp_avg_sq";

Options to_map(const AdamOptions& options) {
  return {{"lr", options.lr},
          {"beta1", options.betas.first},
          {"beta2", options.betas.second},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"amsgrad", options.amsgrad ? 1.0 : 0.0},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

template <typename T>
AdamRule<T> adam_rule(bool decoupled, const Options& options, std::int64_t steps) {
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

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : Adam(one_group(std::move(params)), options) {}

Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& options)
    : Adam(std::move(groups), options, /*decoupled=*/false) {}

Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& options, bool decoupled)
    : RuleOptimizer(std::move(groups),
                    {to_map(options), {kAdamMean, kAdamSquare}, {kAdamLargest}, check_adam}),
      decoupled_(decoupled) {}

void Adam::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensor mean = state_tensor(state, kAdamMean, param);
    const Tensor square = state_tensor(state, kAdamSquare, param);
    const bool amsgrad = options.at("amsgrad") != 0;
    const Tensor largest = amsgrad ? state_tensor(state, kAdamLargest, param) : Tensor();
    apply_adam<T>(adam_rule<T>(decoupled_, options, state.steps), param, grad, mean, square,
                  largest);
  });
}

}  // namespace optim
}  // namespace hvd
