#include "horovod_cpp/optim/rule_optimizer.h"

#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/optim/state_entries.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd::optim {
namespace {

// Name of the float32 copy in the state of a half-precision parameter.
constexpr const char* kMasterParam = "master_param";
constexpr const char* kParams = "num_params";

std::string group_key(std::size_t group) {
  return "group." + std::to_string(group) + ".";
}

std::string param_key(std::size_t group, std::size_t param) {
  return group_key(group) + "param." + std::to_string(param) + ".";
}

void check_param(const Tensor& param, std::size_t index) {
  const std::string where = "optimizer: parameter " + std::to_string(index) + " of the group ";
  if (!param.defined()) throw InvalidArgumentError(where, "is undefined");
  if (!is_floating(param.dtype())) {
    throw InvalidArgumentError(where, "is ", describe(param), ": expected a floating dtype");
  }
  if (!param.is_leaf() || !param.is_contiguous()) {
    throw InvalidArgumentError(where, "(", describe(param),
                               ") is not a contiguous leaf: it is a view or was computed");
  }
}

std::string place_of(std::size_t param, std::size_t group) {
  return "parameter " + std::to_string(param) + " of group " + std::to_string(group);
}

// `params`: of a group that is to follow `groups`.
void check_params(const std::vector<Tensor>& params, const std::vector<ParamGroup>& groups) {
  if (params.empty()) throw InvalidArgumentError("optimizer: a group without parameters");
  std::map<const void*, std::string> known;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].params.size(); ++i) {
      known.emplace(groups[group].params[i].id(), place_of(i, group));
    }
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    check_param(params[i], i);
    const std::string place = place_of(i, groups.size());
    const auto [first, is_new] = known.emplace(params[i].id(), place);
    if (is_new) continue;
    throw InvalidArgumentError("optimizer: ", place, " (", describe(params[i]),
                               ") is given twice: it is ", first->second, " too");
  }
}

Options with_defaults(const Options& given, const Options& defaults) {
  Options options = defaults;
  for (const auto& [name, value] : given) {
    const auto known = options.find(name);
    if (known == options.end()) {
      std::string names;
      for (const auto& [other, unused] : defaults) names += (names.empty() ? "" : ", ") + other;
      throw InvalidArgumentError("optimizer: unknown option '", name, "'; known: ", names);
    }
    known->second = value;
  }
  return options;
}

// Where `param` is no longer what `master` was rounded to, someone wrote it.
template <typename Half>
void take_over(const Tensor& param, const Tensor& master) {
  const Half* given = param.data<Half>();
  float* kept = master.data<float>();
  for (std::int64_t i = 0; i < param.numel(); ++i) {
    if (convert<Half>(kept[i]).bits != given[i].bits) kept[i] = convert<float>(given[i]);
  }
}

// What the user set: fit for the loops of a rule, which go by the shape and dtype of the parameter.
void make_fit(Tensor& tensor, const char* name, const Tensor& param, DType dtype) {
  if (tensor.shape() != param.shape() || tensor.dtype() != dtype) {
    throw InvalidArgumentError("optimizer: state '", name, "' is ", describe(tensor), ": expected ",
                               dtype, " ", param.shape(), ", as the parameter");
  }
  require_same_device(name, param, tensor);
  tensor = tensor.contiguous();
}

Tensor& master_of(const Tensor& param, ParamState& state) {
  Tensor& master = state.tensors[kMasterParam];
  if (!master.defined()) {
    master = param.detach().to(DType::kF32);
    return master;
  }
  make_fit(master, kMasterParam, param, DType::kF32);
  if (param.dtype() == DType::kF16) {
    take_over<Float16>(param, master);
  } else {
    take_over<BFloat16>(param, master);
  }
  return master;
}

}  // namespace

RuleOptimizer::RuleOptimizer(std::vector<ParamGroup> groups, Traits traits)
    : traits_(std::move(traits)) {
  if (groups.empty()) throw InvalidArgumentError("optimizer: no parameters");
  for (ParamGroup& group : groups) RuleOptimizer::add_param_group(std::move(group));
}

void RuleOptimizer::add_param_group(ParamGroup group) {
  check_params(group.params, groups_);
  group.options = with_defaults(group.options, traits_.defaults);
  if (traits_.check != nullptr) traits_.check(group.options);
  for (const Tensor& param : group.params) group_of_[param.id()] = groups_.size();
  groups_.push_back(std::move(group));
}

void RuleOptimizer::set_defaults(const Options& defaults) {
  Options changed = with_defaults(defaults, traits_.defaults);
  if (traits_.check != nullptr) traits_.check(changed);
  traits_.defaults = std::move(changed);
}

void RuleOptimizer::step() {
  const NoGradGuard no_grad;
  for (ParamGroup& group : groups_) {
    for (Tensor& param : group.params) step_one(param, group.options);
  }
}

void RuleOptimizer::step_parameters(const std::vector<Tensor>& params) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].defined() && group_of_.contains(params[i].id())) continue;
    throw InvalidArgumentError("step_parameters: tensor ", i,
                               " is not a parameter of this optimizer");
  }
  const NoGradGuard no_grad;
  for (Tensor param : params) step_one(param, groups_[group_of_.at(param.id())].options);
}

void RuleOptimizer::step_one(Tensor& param, const Options& options) {
  const auto rows = row_gradient(param);
  if (!rows && !param.grad().defined()) return;
  ParamState& state = state_[param.id()];
  ++state.steps;
  const bool half = is_half(param.dtype());
  if (half) require_cpu("update of half-precision parameters", {&param});
  if (rows && !half && update_rows(param, *rows, state, options)) {
    bump_version(param);
    return;
  }
  const Tensor grad = param.grad();
  if (half) {
    Tensor& master = master_of(param, state);
    update(master, grad.to(DType::kF32).contiguous(), state, options);
    param.copy_(master);
  } else {
    state.tensors.erase(kMasterParam);  // of when the parameter was half
    update(param, grad.contiguous(), state, options);
    bump_version(param);
  }
}

void RuleOptimizer::zero_grad(bool set_to_none) {
  for (ParamGroup& group : groups_) {
    for (Tensor& param : group.params) {
      if (set_to_none) {
        param.set_grad({});
      } else if (Tensor grad = param.grad(); grad.defined()) {
        const NoGradGuard no_grad;
        grad.zero_();
      }
    }
  }
}

bool RuleOptimizer::update_rows(Tensor&, const RowGradient&, ParamState&, const Options&) {
  return false;
}

std::optional<ParamState> RuleOptimizer::take_param(StateEntries& entries, const std::string& key,
                                                    const Tensor& param) const {
  const Tensor steps = entries.take(key + "steps", {}, DType::kI64);
  if (!steps.defined()) return std::nullopt;
  ParamState state;
  state.steps = *steps.data<std::int64_t>();
  if (state.steps < 1) entries.fail(key + "steps", "is ", state.steps);
  const bool half = is_half(param.dtype());
  const auto take = [&](const std::string& name) {
    const Tensor tensor =
        entries.take(key + name, param.shape(), half ? DType::kF32 : param.dtype());
    if (tensor.defined()) state.tensors[name] = tensor.to(param.device()).clone().detach();
    return tensor.defined();
  };
  for (const std::string& name : traits_.optional_state_tensors) take(name);
  std::vector<std::string> required = traits_.state_tensors;
  if (half) {
    required.emplace_back(kMasterParam);
  } else {
    entries.take(key + kMasterParam, param.shape(), DType::kF32);  // of when it was half
  }
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
    if (traits_.check != nullptr) traits_.check(options.back());
    const auto params = static_cast<std::int64_t>(groups_[g].params.size());
    const std::int64_t saved = entries.take_count(group_key(g) + kParams);
    if (saved != params) {
      entries.fail(group_key(g) + kParams, "is ", saved, ", but the group has ", params,
                   " parameters");
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

Tensor& state_tensor(ParamState& state, const char* name, const Tensor& param, double initial) {
  Tensor& tensor = state.tensors[name];
  if (tensor.defined()) {
    make_fit(tensor, name, param, param.dtype());
  } else {
    tensor = Tensor::full(param.shape(), initial, param.dtype(), param.device());
  }
  return tensor;
}

std::vector<ParamGroup> one_group(std::vector<Tensor> params) {
  std::vector<ParamGroup> groups(1);
  groups.front().params = std::move(params);
  return groups;
}

}  // namespace hvd::optim
