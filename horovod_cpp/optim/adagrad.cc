#include "horovod_cpp/optim/adagrad.h"

#include <utility>

#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/optim/row_update.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kAdagradSum = "sum";

Options to_map(const AdagradOptions& options) {
  return {{"lr", options.lr},
          {"lr_decay", options.lr_decay},
          {"weight_decay", options.weight_decay},
          {"initial_accumulator_value", options.initial_accumulator_value},
          {"eps", options.eps},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

void check_adagrad(const Options& options) {
  check_not_negative(options, "lr");
  check_not_negative(options, "lr_decay");
  check_not_negative(options, "weight_decay");
  check_not_negative(options, "initial_accumulator_value");
  check_not_negative(options, "eps");
}

template <typename T>
AdagradRule<T> adagrad_rule(const Options& options, std::int64_t steps) {
  AdagradRule<T> rule;
  rule.sign = options.at("maximize") != 0 ? T{-1} : T{1};
  const auto before = static_cast<double>(steps - 1);
  rule.step_size = static_cast<T>(options.at("lr") / (1 + before * options.at("lr_decay")));
  rule.eps = static_cast<T>(options.at("eps"));
  rule.weight_decay = static_cast<T>(options.at("weight_decay"));
  return rule;
}

Tensor& sum_of(ParamState& state, const Tensor& param, const Options& options) {
  return state_tensor(state, kAdagradSum, param, options.at("initial_accumulator_value"));
}

}  // namespace

Adagrad::Adagrad(std::vector<Tensor> params, const AdagradOptions& options)
    : Adagrad(one_group(std::move(params)), options) {}

Adagrad::Adagrad(std::vector<ParamGroup> groups, const AdagradOptions& options)
    : RuleOptimizer(std::move(groups), {to_map(options), {kAdagradSum}, {}, check_adagrad}) {}

void Adagrad::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  require_cpu("Adagrad", {&param});
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    update_table().of<T>().adagrad(adagrad_rule<T>(options, state.steps), param.numel(),
                                   param.data<T>(), grad.data<T>(),
                                   sum_of(state, param, options).data<T>());
  });
}

bool Adagrad::update_rows(Tensor& param, const RowGradient& grad, ParamState& state,
                          const Options& options) {
  if (options.at("weight_decay") != 0) return false;
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AdagradRule<T> rule = adagrad_rule<T>(options, state.steps);
    T* sum = sum_of(state, param, options).data<T>();
    for_each_row<T>(param, grad,
                    [&](T* row, const T* gradient, std::int64_t start, std::int64_t size) {
                      update_table().of<T>().adagrad(rule, size, row, gradient, sum + start);
                    });
  });
  return true;
}

}  // namespace optim
}  // namespace hvd
