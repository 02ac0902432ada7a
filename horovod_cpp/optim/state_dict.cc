#include <optional>
#include <string>
#include <utility>

#include "horovod_cpp/optim/master_param.h"
#include "horovod_cpp/optim/rule_optimizer.h"
#include "horovod_cpp/optim/state_entries.h"

namespace hvd {
namespace optim {
namespace {

constexpr const char* kParams = "num_params";

std::string group_key(std::size_t group) {
  return "group." + std::to_string(group) + ".";
}

std::string param_key(std::size_t group, std::size_t param) {
  return group_key(group) + "param." + std::to_string(param) + ".";
}

}  // namespace

std::optional<ParamState> RuleOptimizer::take_param(StateEntries& entries, const std::string& key,
                                                    const Tensor& param) const {
  const Tensor steps = entries.take(key + "steps", {}, DType::kI64);
  if (!steps.defined()) return std::nullopt;
  ParamState state;
  state.steps = *steps.data<std::int64_t>();
  if (state.steps < 1) entries.fail(key + "steps", "is " + std::to_string(state.steps));
  const bool half = is_half(param.dtype());
  const auto take = [&](const std::string& name) {
    const Tensor tensor =
        entries.take(key + name, param.shape(), half ? DType::kF32 : param.dtype());
    if (tensor.defined()) state.tensors[name] = tensor.to(param.device()).clone().detach();
    return tensor.defined();
  };
  for (const std::string& name : traits_.optional_state_tensors) take(name);
  std::vector<std::string> required = traits_.state_tensors;
  if (half) required.emplace_back(kMasterParam);
  for (const std::string& name : required) {
    if (!take(name)) entries.fail(key + name, "is missing");
  }
  return state;
}

NamedTensors RuleOptimizer::state_dict() {
  NamedTensors entries;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const auto& [name, value] : groups_[g].options) {
      entries.emplace_back(group_key(g) + name, Tensor::scalar(value, DType::kF64));
    }
    // A parameter without a gradient so far has no entry of its own.
    entries.emplace_back(group_key(g) + kParams,
                         count_entry(static_cast<std::int64_t>(groups_[g].params.size())));
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      const auto it = state_.find(groups_[g].params[p].id());
      if (it == state_.end()) continue;
      entries.emplace_back(param_key(g, p) + "steps", count_entry(it->second.steps));
      for (const auto& [name, tensor] : it->second.tensors) {
        entries.emplace_back(param_key(g, p) + name, tensor);
      }
    }
  }
  return entries;
}

void RuleOptimizer::load_state_dict(const NamedTensors& state) {
  StateEntries entries("optimizer state", state);
  std::vector<Options> options;
  std::map<const void*, ParamState> loaded;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    options.push_back(groups_[g].options);
    for (auto& [name, value] : options.back()) value = entries.take_number(group_key(g) + name);
    traits_.check(options.back());
    const auto params = static_cast<std::int64_t>(groups_[g].params.size());
    const std::int64_t saved = entries.take_count(group_key(g) + kParams);
    if (saved != params) {
      entries.fail(group_key(g) + kParams, "is " + std::to_string(saved) + ", but the group has " +
                                               std::to_string(params) + " parameters");
    }
    for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
      const Tensor& param = groups_[g].params[p];
      auto taken = take_param(entries, param_key(g, p), param);
      if (taken) loaded[param.id()] = std::move(*taken);
    }
  }
  entries.expect_empty();
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g].options = std::move(options[g]);
  state_ = std::move(loaded);
}

}  // namespace optim
}  // namespace hvd
