#include "horovod_cpp/optim/adam.h"

#include <utility>

#include "horovod_cpp/optim/adam_update.h"

namespace hvd {
namespace optim {
namespace {

Options to_map(const AdamOptions& options) {
  return {{"lr", options.lr},
          {"beta1", options.betas.first},
          {"beta2", options.betas.second},
          {"eps", options.eps},
          {"weight_decay", options.weight_decay},
          {"amsgrad", options.amsgrad ? 1.0 : 0.0},
          {"maximize", options.maximize ? 1.0 : 0.0}};
}

}  // namespace

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : Adam(one_group(std::move(params)), options) {}

Adam::Adam(std::vector<ParamGroup> groups, const AdamOptions& options)
    : RuleOptimizer(std::move(groups),
                    {to_map(options), {kAdamMean, kAdamSquare}, {kAdamLargest}, check_adam}) {}

void Adam::update(Tensor& param, const Tensor& grad, ParamState& state, const Options& options) {
  adam_update(/*decoupled=*/false, param, grad, state, options);
}

}  // namespace optim
}  // namespace hvd
