#include "horovod_cpp/nn/batch_norm.h"

#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/nn/checks.h"

namespace hvd {
namespace nn {

BatchNorm2d::BatchNorm2d(std::int64_t num_features, double eps, double momentum)
    : eps_(eps), momentum_(momentum) {
  check_positive("BatchNorm2d", "num_features", num_features);
  weight = register_parameter("weight", Tensor::ones({num_features}));
  bias = register_parameter("bias", Tensor::zeros({num_features}));
  running_mean = register_buffer("running_mean", Tensor::zeros({num_features}));
  running_var = register_buffer("running_var", Tensor::ones({num_features}));
  num_batches_tracked = register_buffer("num_batches_tracked", Tensor::zeros({}, DType::kI64));
}

Tensor BatchNorm2d::forward(const Tensor& input) {
  Tensor output =
      batch_norm(input, weight, bias, running_mean, running_var, is_training(), momentum_, eps_);
  if (is_training()) ++*num_batches_tracked.data<std::int64_t>();
  return output;
}

}  // namespace nn
}  // namespace hvd
