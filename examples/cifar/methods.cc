#include "examples/cifar/methods.h"

namespace cifar {
namespace {

using hvd::Tensor;

// Calls `average(name, gradient)` for every parameter, with the gradient as one row.
void for_each_gradient(const hvd::nn::Module& module,
                       const std::function<Tensor(const std::string&, const Tensor&)>& average) {
  for (auto [name, param] : module.named_parameters()) {
    const Tensor row = param.grad().contiguous().reshape({1, -1});
    param.set_grad(average(name, row).reshape(param.shape()));
  }
}

// Rank 0 gathers the gradients of all ranks, averages them and scatters the result.
Tensor by_gather(const std::string& name, const Tensor& gradient) {
  const Tensor all = hvd::gather(gradient, /*root_rank=*/0, {.name = name});
  Tensor averages = gradient;  // elsewhere this tells the shape only
  if (hvd::rank() == 0) {
    averages = hvd::mean(all, {0}, /*keepdim=*/true).expand(all.shape()).contiguous();
  }
  return hvd::scatter(averages, /*root_rank=*/0, {.name = name});
}

// Each rank sends its gradient to all others and adds up what it gets, in rank order.
Tensor by_exchange(const Tensor& gradient) {
  std::vector<Tensor> gradients(static_cast<std::size_t>(hvd::size()), gradient);
  std::vector<hvd::CollectiveHandle> transfers;
  for (int peer = 0; peer < hvd::size(); ++peer) {
    if (peer == hvd::rank()) continue;
    Tensor& theirs = gradients[static_cast<std::size_t>(peer)];
    theirs = Tensor::empty(gradient.shape());
    transfers.push_back(hvd::irecv(theirs, peer));
    transfers.push_back(hvd::isend(gradient, peer));
  }
  hvd::synchronize_all(transfers);
  Tensor sum = Tensor::zeros(gradient.shape());
  for (const Tensor& each : gradients) sum.add_(each);
  return sum.mul_(1.0 / hvd::size());
}

}  // namespace

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names = {"gather", "p2p",       "allreduce",
                                                 "ddp",    "optimizer", "dp"};
  return names;
}

Training make_training(const std::string& method, const std::shared_ptr<hvd::nn::Module>& module,
                       double lr, int replicas) {
  Training training;
  training.model = module;
  if (method == "dp") {
    training.model = std::make_shared<hvd::DataParallel>(module, replicas);
  } else if (method == "ddp") {
    training.model = std::make_shared<hvd::DistributedDataParallel>(module);
  } else {
    hvd::broadcast_parameters(module->state_dict());
  }
  training.optimizer = std::make_shared<hvd::optim::SGD>(
      module->parameters(),
      hvd::optim::SGDOptions{.lr = lr, .momentum = 0.9, .weight_decay = 5e-4});
  if (method == "optimizer") {
    training.optimizer =
        std::make_shared<hvd::DistributedOptimizer>(training.optimizer, module->named_parameters());
  } else if (method == "gather") {
    training.average = [module] { for_each_gradient(*module, by_gather); };
  } else if (method == "p2p") {
    training.average = [module] {
      for_each_gradient(*module, [](const std::string&, const Tensor& gradient) {
        return by_exchange(gradient);
      });
    };
  } else if (method == "allreduce") {
    training.average = [module] {
      for_each_gradient(*module, [](const std::string& name, const Tensor& gradient) {
        return hvd::allreduce(gradient, {.name = name});
      });
    };
  }
  return training;
}

}  // namespace cifar
