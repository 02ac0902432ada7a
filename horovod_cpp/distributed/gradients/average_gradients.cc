#include "horovod_cpp/distributed/gradients/average_gradients.h"

#include <cstddef>
#include <string>
#include <utility>

#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/sparse_allreduce.h"
#include "horovod_cpp/distributed/gradients/gradient_rows.h"

namespace hvd {

void average_gradients(const std::vector<Tensor>& params, const AllreduceOptions& options) {
  AllreduceOptions call = options;
  if (call.name.empty()) call.name = "average_gradients";
  std::vector<Tensor> owners;
  std::vector<Tensor> gradients;
  std::vector<std::pair<Tensor, SparseHandle>> by_rows;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (travels_by_rows(params[i], call.op)) {
      if (const auto rows = gradient_as_rows(params[i])) {
        by_rows.emplace_back(
            params[i], sparse_allreduce_async(*rows, {.op = call.op,
                                                      .name = call.name + "." + std::to_string(i),
                                                      .prescale_factor = call.prescale_factor,
                                                      .postscale_factor = call.postscale_factor,
                                                      .process_set = call.process_set}));
      }
    } else if (const Tensor gradient = params[i].grad(); gradient.defined()) {
      owners.push_back(params[i]);
      gradients.push_back(gradient.contiguous());
    }
  }
  if (!gradients.empty() || by_rows.empty()) grouped_allreduce_(gradients, call);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!gradients[i].is(owners[i].grad())) owners[i].set_grad(gradients[i]);
  }
  for (auto& [param, handle] : by_rows) {
    const RowGradient reduced = handle.synchronize();
    param.set_grad({});
    add_row_gradient(param, reduced.rows, reduced.values);
  }
}

void average_gradients(const nn::Module& module, const AllreduceOptions& options) {
  average_gradients(module.parameters(), options);
}

}  // namespace hvd
