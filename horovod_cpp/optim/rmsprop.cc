#include "horovod_cpp/optim/rmsprop.h"

#include <utility>

#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kRmspropSquare = "square_avg";
constexpr const char* kRmspropMean = "grad_avg";
constexpr const char* kRmspropBuffer = "momentum_buffer";

Options to_map(const RMSpropOptions& options) {
  return {{"lr", options.lr},
          {"alpha", options.alpha},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"momentum", options.momentum},
          {"centered", options.centered ? 1.0 : 0.0},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

void check_rmsprop(const Options& options) {
  check_not_negative(options, "lr");
  check_at_most_one(options, "alpha");
  check_not_negative(options, "eps");
  check_not_negative(options, "weight_decay");
  check_not_negative(options, "momentum");
}

template <typename T>
RmspropRule<T> rmsprop_rule(const Options& options) {
  RmspropRule<T> rule;
  rule.sign = options.at("maximize") != 0 ? T{-1} : T{1};
  rule.lr = static_cast<T>(options.at("lr"));
  rule.alpha = static_cast<T>(options.at("alpha"));
  rule.take = static_cast<T>(1 - options.at("alpha"));
  rule.eps = static_cast<T>(options.at("eps"));
  rule.weight_decay = static_cast<T>(options.at("weight_decay"));
  rule.momentum = static_cast<T>(options.at("momentum"));
  return rule;
}

}  // namespace

RMSprop::RMSprop(std::vector<Tensor> params, const RMSpropOptions& options)
    : RMSprop(one_group(std::move(params)), options) {}

RMSprop::RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options)
    : RuleOptimizer(
          std::move(groups),
          {to_map(options), {kRmspropSquare}, {kRmspropMean, kRmspropBuffer}, check_rmsprop}) {}

void RMSprop::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  require_cpu("RMSprop", {&param});
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rule = rmsprop_rule<T>(options);
    T* square = state_tensor(state, kRmspropSquare, param).data<T>();
    const bool centered = options.at("centered") != 0;
    T* mean = centered ? state_tensor(state, kRmspropMean, param).data<T>() : nullptr;
    const bool moves = options.at("momentum") != 0;
    T* buffer = moves ? state_tensor(state, kRmspropBuffer, param).data<T>() : nullptr;
    update_table().of<T>().rmsprop(rule, param.numel(), param.data<T>(), grad.data<T>(), square,
                                   mean, buffer);
  });
}

}  // namespace optim
}  // namespace hvd
