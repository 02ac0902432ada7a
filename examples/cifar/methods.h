#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <horovod_cpp/horovod.h>

// Six ways to train one model on several ranks. All compute the same.
namespace cifar {

struct Training {
  std::shared_ptr<hvd::nn::Module> model;  // what is called
  std::shared_ptr<hvd::optim::Optimizer> optimizer;
  std::function<void()> average = [] {};  // gradients, between backward() and step()
};

// "gather", "p2p", "allreduce", "ddp", "optimizer", "dp".
const std::vector<std::string>& method_names();

// `module` with an optimizer, by the method of that name. Every rank gets rank 0's parameters.
// `replicas` is for "dp" alone.
Training make_training(const std::string& method, const std::shared_ptr<hvd::nn::Module>& module,
                       double lr, int replicas);

}  // namespace cifar
