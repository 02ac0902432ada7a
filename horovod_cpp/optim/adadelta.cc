#include "horovod_cpp/optim/adadelta.h"

#include <utility>

#include "horovod_cpp/optim/option_checks.h"
#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kAdadeltaSquare = "square_avg";
constexpr const char* kAdadeltaDeltas = "acc_delta";

Options to_map(const AdadeltaOptions& options) {
  return {{"lr", options.lr},
          {"rho", options.rho},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

void check_adadelta(const Options& options) {
  check_not_negative(options, "lr");
  check_at_most_one(options, "rho");
  check_not_negative(options, "eps");
  check_not_negative(options, "weight_decay");
}

}  // namespace

Adadelta::Adadelta(std::vector<Tensor> params, const AdadeltaOptions& options)
    : Adadelta(one_group(std::move(params)), options) {}

Adadelta::Adadelta(std::vector<ParamGroup> groups, const AdadeltaOptions& options)
    : RuleOptimizer(std::move(groups),
                    {to_map(options), {kAdadeltaSquare, kAdadeltaDeltas}, {}, check_adadelta}) {}

void Adadelta::update(Tensor& param, const Tensor& grad, ParamState& state,
                      const Options& options) {
  require_cpu("Adadelta", {&param});
  dispatch_float(param.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    AdadeltaRule<T> rule;
    rule.sign = options.at("maximize") != 0 ? T{-1} : T{1};
    rule.lr = static_cast<T>(options.at("lr"));
    rule.rho = static_cast<T>(options.at("rho"));
    rule.take = static_cast<T>(1 - options.at("rho"));
    rule.eps = static_cast<T>(options.at("eps"));
    rule.weight_decay = static_cast<T>(options.at("weight_decay"));
    update_table().of<T>().adadelta(rule, param.numel(), param.data<T>(), grad.data<T>(),
                                    state_tensor(state, kAdadeltaSquare, param).data<T>(),
                                    state_tensor(state, kAdadeltaDeltas, param).data<T>());
  });
}

}  // namespace optim
}  // namespace hvd
