#include "horovod_cpp/optim/sgd.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/optim/apply_update.h"
#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/optim/row_update.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kSgdBuffer = "momentum_buffer";

Options to_map(const SGDOptions& options) {
  return {{"lr", options.lr},
          {"momentum", options.momentum},
          {"dampening", options.dampening},
          {"weight_decay", options.weight_decay},
          {"nesterov", options.nesterov ? 1.0 : 0.0},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

void check_sgd(const Options& options) {
  check_not_negative(options, "lr");
  check_not_negative(options, "momentum");
  check_finite(options, "dampening");
  check_not_negative(options, "weight_decay");
  if (options.at("nesterov") == 0) return;
  if (options.at("momentum") == 0 || options.at("dampening") != 0) {
    throw InvalidArgumentError("optimizer: nesterov needs momentum > 0 and dampening = 0, got " +
                               std::to_string(options.at("momentum")) + " and " +
                               std::to_string(options.at("dampening")));
  }
}

template <typename T>
SgdRule<T> sgd_rule(const Options& options) {
  SgdRule<T> rule;
  rule.sign = options.at("maximize") != 0 ? T{-1} : T{1};
  rule.lr = static_cast<T>(options.at("lr"));
  rule.momentum = static_cast<T>(options.at("momentum"));
  rule.weight_decay = static_cast<T>(options.at("weight_decay"));
  rule.nesterov = options.at("nesterov") != 0;
  return rule;
}

}  // namespace

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : SGD(one_group(std::move(params)), options) {}

SGD::SGD(std::vector<ParamGroup> groups, const SGDOptions& options)
    : RuleOptimizer(std::move(groups), {to_map(options), {}, {kSgdBuffer}, check_sgd}) {}

void SGD::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    SgdRule<T> rule = sgd_rule<T>(options);
    Tensor buffer;
    if (rule.momentum != T{0}) {
      if (state.tensors.contains(kSgdBuffer)) {
        rule.take = static_cast<T>(1 - options.at("dampening"));
      }
      buffer = state_tensor(state, kSgdBuffer, param);
    }
    apply_sgd<T>(rule, param, grad, buffer);
  });
}

bool SGD::update_rows(Tensor& param, const RowGradient& grad, ParamState&, const Options& options) {
  if (options.at("momentum") != 0 || options.at("weight_decay") != 0) return false;
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SgdRule<T> rule = sgd_rule<T>(options);
    for_each_row<T>(param, grad, [&](T* row, const T* gradient, std::int64_t, std::int64_t size) {
      update_table().of<T>().sgd(rule, size, row, gradient, nullptr);
    });
  });
  return true;
}

}  // namespace optim
}  // namespace hvd
