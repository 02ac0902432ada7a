#include "horovod_cpp/optim/lamb.h"

#include <cmath>
#include <utility>

#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kLambMean = "exp_avg";
constexpr const char* kLambSquare = "exp_avg_sq";

Options to_map(const LAMBOptions& options) {
  return {{"lr", options.lr},
          {"beta1", options.betas.first},
          {"beta2", options.betas.second},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

template <typename T>
LambRule<T> lamb_rule(const Options& options, std::int64_t steps) {
  const double beta1 = options.at("beta1");
  const double beta2 = options.at("beta2");
  const auto exponent = static_cast<double>(steps);
  LambRule<T> rule;
  rule.sign = options.at("maximize") != 0 ? T{-1} : T{1};
  rule.lr = static_cast<T>(options.at("lr"));
  rule.beta1 = static_cast<T>(beta1);
  rule.beta2 = static_cast<T>(beta2);
  rule.take1 = static_cast<T>(1 - beta1);
  rule.take2 = static_cast<T>(1 - beta2);
  rule.correction = static_cast<T>(1 - std::pow(beta1, exponent));
  rule.root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, exponent)));
  rule.eps = static_cast<T>(options.at("eps"));
  rule.weight_decay = static_cast<T>(options.at("weight_decay"));
  return rule;
}

}  // namespace

LAMB::LAMB(std::vector<Tensor> params, const LAMBOptions& options)
    : LAMB(one_group(std::move(params)), options) {}

LAMB::LAMB(std::vector<ParamGroup> groups, const LAMBOptions& options)
    : RuleOptimizer(std::move(groups),
                    {to_map(options), {kLambMean, kLambSquare}, {}, check_adam}) {}

void LAMB::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  require_cpu("LAMB", {&param});
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rule = lamb_rule<T>(options, state.steps);
    update_table().of<T>().lamb(rule, param.numel(), param.data<T>(), grad.data<T>(),
                                state_tensor(state, kLambMean, param).data<T>(),
                                state_tensor(state, kLambSquare, param).data<T>());
  });
}

}  // namespace optim
}  // namespace hvd
