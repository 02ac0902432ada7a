#include "horovod_cpp/optim/adamw.h"

#include <utility>

#include "horovod_cpp/optim/adam_update.h"

namespace hvd {
namespace optim {
namespace {

Options to_map(const AdamWOptions& options) {
  return {{"lr", options.lr},
          {"beta1", options.betas.first},
          {"beta2", options.betas.second},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"amsgrad", options.amsgrad ? 1.0 : 0.0},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

}  // namespace

AdamW::AdamW(std::vector<Tensor> params, const AdamWOptions& options)
    : AdamW(one_group(std::move(params)), options) {}

AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options)
    : RuleOptimizer(std::move(groups),
                    {to_map(options), {kAdamMean, kAdamSquare}, {kAdamLargest}, check_adam}) {}

void AdamW::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  adam_update(/*decoupled=*/true, param, grad, state, options);
}

}  // namespace optim
}  // namespace hvd
