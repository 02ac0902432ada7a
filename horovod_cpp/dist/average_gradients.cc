#include "horovod_cpp/dist/average_gradients.h"

#include <cstddef>

#include "horovod_cpp/dist/collectives.h"

namespace hvd {

void average_gradients(const std::vector<Tensor>& params, const AllreduceOptions& options) {
  std::vector<Tensor> owners;
  std::vector<Tensor> gradients;
  for (const Tensor& param : params) {
    const Tensor gradient = param.grad();
    if (!gradient.defined()) continue;
    owners.push_back(param);
    gradients.push_back(gradient.contiguous());
  }
  AllreduceOptions call = options;
  if (call.name.empty()) call.name = "average_gradients";
  grouped_allreduce_(gradients, call);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!gradients[i].is(owners[i].grad())) owners[i].set_grad(gradients[i]);
  }
}

void average_gradients(const nn::Module& module, const AllreduceOptions& options) {
  average_gradients(module.parameters(), options);
}

}  // namespace hvd
