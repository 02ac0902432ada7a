#include "horovod_cpp/optim/adam.h"

#include <cmath>

#include "horovod_cpp/optim/adam_rule.h"
#include "horovod_cpp/optim/option_checks.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kMean = "exp_avg";
constexpr const char* kSquare = "exp_avg_sq";

Options to_map(const AdamOptions& options) {
  return {{"lr", options.lr},
          {"beta1", options.betas.first},
          {"beta2", options.betas.second},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay}};
}

void check(const Options& options) {
  check_not_negative(options, "lr");
  check_below_one(options, "beta1");
  check_below_one(options, "beta2");
  check_not_negative(options, "eps");
  check_not_negative(options, "weight_decay");
}

template <typename T>
AdamRule<T> rule_of(const Options& options, std::int64_t steps) {
  const double beta1 = options.at("beta1");
  const double beta2 = options.at("beta2");
  const auto exponent = static_cast<double>(steps);
  AdamRule<T> rule;
  rule.beta1 = static_cast<T>(beta1);
  rule.beta2 = static_cast<T>(beta2);
  rule.take1 = static_cast<T>(1 - beta1);
  rule.take2 = static_cast<T>(1 - beta2);
  rule.step_size = static_cast<T>(options.at("lr") / (1 - std::pow(beta1, exponent)));
  rule.root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, exponent)));
  rule.eps = static_cast<T>(options.at("eps"));
  rule.weight_decay = static_cast<T>(options.at("weight_decay"));
  return rule;
}

// The state tensor `name`, zero when it is new.
Tensor& moment(ParamState& state, const char* name, const Tensor& param) {
  Tensor& tensor = state.tensors[name];
  if (!tensor.defined()) tensor = Tensor::zeros(param.shape(), param.dtype());
  return tensor;
}

template <typename T>
void update_as(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  adam_update(rule_of<T>(options, state.steps), param.numel(), param.data<T>(), grad.data<T>(),
              moment(state, kMean, param).data<T>(), moment(state, kSquare, param).data<T>());
}

}  // namespace

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : Adam(one_group(std::move(params)), options) {}

Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& options)
    : RuleOptimizer(std::move(groups), {to_map(options), {kMean, kSquare}, check}) {}

void Adam::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  if (param.dtype() == DType::kF32) {
    update_as<float>(param, grad, state, options);
  } else {
    update_as<double>(param, grad, state, options);
  }
}

}  // namespace optim
}  // namespace hvd
