#include "horovod_cpp/distributed/data_parallel.h"

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/base/scoped.h"
#include "core/base/status.h"
#include "core/system/engine_thread.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace {

using autograd::TensorSubstitution;

// One replica's part of a forward, and what its backward needs.
struct Replica {
  std::int64_t first = 0, last = 0;  // rows of the batch
  TensorSubstitution::Pairs leaves;  // the module's parameters, and leaves of this replica's own
  TensorSubstitution::Pairs buffers;
  Tensor input;   // a leaf
  Tensor output;  // the root of this replica's graph
};
using Replicas = std::vector<Replica>;

// Calls `work(number)` once a replica, each on a thread: the first one on this. Waits for all.
void on_threads(const Replicas& replicas, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> errors(replicas.size());
  const auto attempt = [&](std::size_t number) {
    try {
      work(number);
    } catch (...) {
      errors[number] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < replicas.size(); ++i)
      threads.push_back(engine::start_engine_thread<std::jthread>(attempt, i));
    attempt(0);
  }
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] == nullptr) continue;
    try {
      std::rethrow_exception(errors[i]);
    } catch (...) {
      rethrow_with("DataParallel: replica " + std::to_string(i) + " of " +
                   std::to_string(replicas.size()) + " (rows " + std::to_string(replicas[i].first) +
                   " to " + std::to_string(replicas[i].last - 1) + "): ");
    }
  }
}

Tensor own_leaf(const Tensor& tensor) {
  Tensor leaf = tensor.detach();
  if (tensor.requires_grad()) leaf.requires_grad_();
  return leaf;
}

Replicas replicas_for(const nn::Module& module, const Tensor& input, std::size_t count) {
  const std::int64_t rows = input.size(0);
  const auto parts = std::min(static_cast<std::int64_t>(count), rows);
  Replicas replicas(static_cast<std::size_t>(parts));
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    Replica& replica = replicas[static_cast<std::size_t>(i)];
    replica.first = next;
    next += rows / parts + (i < rows % parts ? 1 : 0);
    replica.last = next;
    for (const Tensor& param : module.parameters()) {
      if (param.requires_grad()) replica.leaves.emplace_back(param, own_leaf(param));
    }
    replica.input = input.detach().slice(0, replica.first, replica.last);
    if (input.requires_grad()) replica.input.requires_grad_();
    if (i == 0 || !module.is_training()) continue;
    for (const auto& [name, buffer] : module.named_buffers()) {
      replica.buffers.emplace_back(buffer, buffer.clone());
    }
  }
  return replicas;
}

void run_forward(nn::Module& module, Replicas& replicas, std::uint64_t seed, bool records) {
  on_threads(
      replicas, [&, dtype = autocast_dtype(), enabled = is_autocast_enabled()](std::size_t number) {
        const AutocastGuard autocast(dtype, enabled);
        Replica& replica = replicas[number];
        const Scoped random(default_generator(), Generator(seed + number));
        TensorSubstitution::Pairs pairs = replica.leaves;
        pairs.insert(pairs.end(), replica.buffers.begin(), replica.buffers.end());
        const TensorSubstitution substitution(pairs);
        if (records) {
          replica.output = module(replica.input);
        } else {
          const NoGradGuard no_grad;
          replica.output = module(replica.input);
        }
        if (replica.output.dim() == 0 || replica.output.size(0) != replica.last - replica.first) {
          throw InvalidArgumentError("output " + to_string(replica.output.shape()) +
                                     " does not have one row for each of the input " +
                                     to_string(replica.input.shape()));
        }
      });
}

// Gradients of the input (undefined if it wants none) and of the parameters, in order.
std::vector<Tensor> run_backward(const Replicas& replicas, const Tensor& gradient) {
  on_threads(replicas, [&](std::size_t number) {
    const Replica& replica = replicas[number];
    if (!replica.output.requires_grad()) return;
    autograd::backward({{replica.output, gradient.slice(0, replica.first, replica.last)}}, {});
  });
  std::vector<Tensor> results(1 + replicas.front().leaves.size());
  if (replicas.front().input.requires_grad()) {
    std::vector<Tensor> parts;
    for (const Replica& replica : replicas) {
      const Tensor part = replica.input.grad();
      parts.push_back(part.defined() ? part
                                     : Tensor::zeros(replica.input.shape(), replica.input.dtype()));
    }
    results[0] = concat(parts, 0);
  }
  for (const Replica& replica : replicas) {
    for (std::size_t i = 0; i < replica.leaves.size(); ++i) {
      Tensor leaf = replica.leaves[i].second;
      const Tensor part = leaf.grad();
      leaf.set_grad({});
      if (!part.defined()) continue;
      Tensor& sum = results[i + 1];
      if (sum.defined()) {
        sum.add_(part);
      } else {
        sum = part;
      }
    }
  }
  return results;
}

}  // namespace

DataParallel::DataParallel(std::shared_ptr<nn::Module> module, int replicas)
    : module_(std::move(module)), replicas_(replicas) {
  if (module_ == nullptr) throw InvalidArgumentError("DataParallel: no module given");
  if (replicas < 1) {
    throw InvalidArgumentError("DataParallel: replicas is " + std::to_string(replicas) +
                               ", must be at least 1");
  }
  register_wrapped(module_);
}

Tensor DataParallel::forward(const Tensor& input) {
  if (input.dim() == 0 || input.size(0) == 0) {
    throw InvalidArgumentError("DataParallel: input " + to_string(input.shape()) +
                               " has no rows to divide");
  }
  const bool records = grad_enabled();
  const auto replicas = std::make_shared<Replicas>(
      replicas_for(*module_, input, static_cast<std::size_t>(replicas_)));
  const std::uint64_t seed = default_generator().below(std::uint64_t{1} << 62);
  run_forward(*module_, *replicas, seed, records);
  std::vector<Tensor> outputs;
  bool recorded = false;
  for (const Replica& replica : *replicas) {
    outputs.push_back(replica.output.detach());
    recorded = recorded || replica.output.requires_grad();
  }
  Tensor output = concat(outputs, 0);
  if (!records || !recorded) return output;
  std::vector<autograd::Edge> edges = {autograd::edge_to(input)};
  for (const auto& [param, leaf] : replicas->front().leaves) {
    edges.push_back(autograd::edge_to(param));
  }
  return autograd::record(
      std::move(output), "data_parallel", std::move(edges),
      [replicas](const Tensor& gradient) { return run_backward(*replicas, gradient); });
}

}  // namespace hvd
