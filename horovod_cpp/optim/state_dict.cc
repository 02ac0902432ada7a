#include <optional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/optim/rule_optimizer.h"

namespace hvd {
namespace optim {
namespace {

std::string group_key(std::size_t group) {
  return "group." + std::to_string(group) + ".";
}

std::string param_key(std::size_t group, std::size_t param) {
  return group_key(group) + "param." + std::to_string(param) + ".";
}

// A state dict that gives its entries away; what is left at the end was not expected.
class Entries {
 public:
  explicit Entries(const NamedTensors& state) {
    for (const auto& [name, tensor] : state) {
      if (!tensor.defined()) fail(name, "is undefined");
      if (!entries_.emplace(name, tensor).second) fail(name, "is there twice");
    }
  }

  // Undefined when there is none. Throws unless it has this shape and dtype.
  Tensor take(const std::string& name, const Shape& shape, DType dtype) {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return {};
    const Tensor tensor = it->second;
    if (tensor.shape() != shape || tensor.dtype() != dtype) {
      fail(name, "is " + std::string(name_of(tensor.dtype())) + " " + to_string(tensor.shape()) +
                     ": expected " + std::string(name_of(dtype)) + " " + to_string(shape));
    }
    entries_.erase(it);
    return tensor;
  }

  double take_option(const std::string& name) {
    const Tensor value = take(name, {}, DType::kF64);
    if (!value.defined()) fail(name, "is missing");
    return value.item();
  }

  void expect_empty() const {
    if (!entries_.empty()) fail(entries_.begin()->first, "is unexpected");
  }

  [[noreturn]] static void fail(const std::string& name, const std::string& what) {
    throw InvalidArgumentError("optimizer state: '" + name + "' " + what);
  }

 private:
  std::map<std::string, Tensor> entries_;
};

// What `entries` hold of one parameter; nothing if it has taken no step.
std::optional<ParamState> take_param(Entries& entries, const std::string& key, const Tensor& param,
                                     const std::vector<std::string>& names) {
  const Tensor steps = entries.take(key + "steps", {}, DType::kI64);
  if (!steps.defined()) return std::nullopt;
  ParamState state;
  state.steps = *steps.data<std::int64_t>();
  if (state.steps < 1) Entries::fail(key + "steps", "is " + std::to_string(state.steps));
  for (const std::string& name : names) {
    const Tensor tensor = entries.take(key + name, param.shape(), param.dtype());
    if (tensor.defined()) state.tensors[name] = tensor.clone().detach();
  }
  if (state.tensors.empty() || state.tensors.size() == names.size()) return state;
  for (const std::string& name : names) {
    if (!state.tensors.contains(name)) Entries::fail(key + name, "is missing");
  }
  return state;
}

}  // namespace

NamedTensors RuleOptimizer::state_dict() {
  NamedTensors entries;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const auto& [name, value] : groups_[g].options) {
      entries.emplace_back(group_key(g) + name, Tensor::scalar(value, DType::kF64));
    }
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      const auto it = state_.find(groups_[g].params[p].id());
      if (it == state_.end()) continue;
      Tensor steps = Tensor::empty({}, DType::kI64);
      *steps.data<std::int64_t>() = it->second.steps;
      entries.emplace_back(param_key(g, p) + "steps", steps);
      for (const auto& [name, tensor] : it->second.tensors) {
        entries.emplace_back(param_key(g, p) + name, tensor);
      }
    }
  }
  return entries;
}

void RuleOptimizer::load_state_dict(const NamedTensors& state) {
  Entries entries(state);
  std::vector<Options> options;
  std::map<const void*, ParamState> loaded;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    options.push_back(groups_[g].options);
    for (auto& [name, value] : options.back()) value = entries.take_option(group_key(g) + name);
    traits_.check(options.back());
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      const Tensor& param = groups_[g].params[p];
      auto taken = take_param(entries, param_key(g, p), param, traits_.state_tensors);
      if (taken) loaded[param.id()] = std::move(*taken);
    }
  }
  entries.expect_empty();
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].options = std::move(options[g]);
  state_ = std::move(loaded);
}

}  // namespace optim
}  // namespace hvd
