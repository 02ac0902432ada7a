#include "horovod_cpp/optim/adamw.h"

#include <utility>

namespace hvd {
namespace optim {

AdamW::AdamW(std::vector<Tensor> params, const AdamWOptions& options)
    : AdamW(one_group(std::move(params)), options) {}

AdamW::AdamW(std::vector<ParamGroup> groups, const AdamWOptions& options)
    : Adam(std::move(groups),
           {options.lr, options.betas, options.eps, options.weight_decay, options.amsgrad,
            options.maximize},
           /*decoupled=*/true) {}

}  // namespace optim
}  // namespace hvd
