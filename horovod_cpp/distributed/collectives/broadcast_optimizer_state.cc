// The optimizer's part of broadcast.h.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"

namespace hvd {
namespace {

std::string describe(const Tensor& param) {
  return std::string(name_of(param.dtype())) + " " + to_string(param.shape());
}

// The optimizer's structure: options by group, then steps and state tensors by parameter.
Bytes describe(optim::Optimizer& optimizer) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(static_cast<std::uint32_t>(optimizer.param_groups().size()));
  for (const optim::ParamGroup& group : optimizer.param_groups()) {
    out.put(static_cast<std::uint32_t>(group.options.size()));
    for (const auto& [option, value] : group.options) {
      out.put_string(option);
      out.put(value);
    }
    out.put(static_cast<std::uint32_t>(group.params.size()));
    for (const Tensor& param : group.params) {
      out.put_string(describe(param));
      const auto found = optimizer.state().find(param.id());
      out.put(static_cast<std::uint8_t>(found != optimizer.state().end()));
      if (found == optimizer.state().end()) continue;
      out.put(found->second.steps);
      out.put(static_cast<std::uint32_t>(found->second.tensors.size()));
      for (const auto& [name, tensor] : found->second.tensors) {
        out.put_string(name);
        out.put(tensor.dtype());
        out.put(static_cast<std::uint32_t>(tensor.shape().size()));
        for (const std::int64_t extent : tensor.shape()) out.put(extent);
      }
    }
  }
  return bytes;
}

std::string names_of(const optim::Options& options) {
  std::string names;
  for (const auto& [name, value] : options) names += (names.empty() ? "" : ", ") + name;
  return names;
}

optim::ParamState read_param_state(ByteReader& in, const Tensor& param,
                                   const optim::ParamState* old) {
  optim::ParamState state;
  state.steps = in.get<std::int64_t>();
  for (std::size_t left = in.get_count(9); left > 0; --left) {
    const std::string name = in.get_string();
    const DType dtype = in.get_enum<DType>(kDTypeCount);
    Shape shape(in.get_count(sizeof(std::int64_t)));
    for (std::int64_t& extent : shape) extent = in.get<std::int64_t>();
    Tensor tensor;
    if (old != nullptr && old->tensors.count(name) != 0) tensor = old->tensors.at(name);
    if (!tensor.defined() || tensor.dtype() != dtype || tensor.shape() != shape) {
      tensor = Tensor::zeros(std::move(shape), dtype, param.device());
    }
    state.tensors.emplace(name, std::move(tensor));
  }
  return state;
}

// The root's options of one group, which must be those that this rank's optimizer knows.
optim::Options read_options(ByteReader& in, const optim::Options& own, std::size_t group) {
  optim::Options options;
  for (std::size_t left = in.get_count(12); left > 0; --left) {
    std::string option = in.get_string();
    options[std::move(option)] = in.get<double>();
  }
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::equal(options.begin(), options.end(), own.begin(), own.end(), same_name)) {
    throw InvalidArgumentError("parameter group " + std::to_string(group) + " has options " +
                               names_of(options) + " on the root, " + names_of(own));
  }
  return options;
}

// What the root described, laid over this rank's groups. Throws when they do not fit.
struct Structure {
  std::vector<optim::Options> options;
  std::map<const void*, optim::ParamState> state;
};

Structure read_structure(optim::Optimizer& optimizer, const Bytes& bytes) {
  ByteReader in(bytes);
  Structure structure;
  auto& groups = optimizer.param_groups();
  const auto group_count = in.get<std::uint32_t>();
  if (group_count != groups.size()) {
    throw InvalidArgumentError("the root has " + std::to_string(group_count) +
                               " parameter groups, there are " + std::to_string(groups.size()));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    structure.options.push_back(read_options(in, groups[g].options, g));
    const auto param_count = in.get<std::uint32_t>();
    if (param_count != groups[g].params.size()) {
      throw InvalidArgumentError("parameter group " + std::to_string(g) + " has " +
                                 std::to_string(param_count) + " parameters on the root, " +
                                 std::to_string(groups[g].params.size()));
    }
    for (std::size_t p = 0; p < param_count; ++p) {
      const Tensor& param = groups[g].params[p];
      const std::string on_root = in.get_string();
      if (on_root != describe(param)) {
        throw InvalidArgumentError("parameter " + std::to_string(p) + " of group " +
                                   std::to_string(g) + " is " + on_root + " on the root, " +
                                   describe(param));
      }
      if (in.get<std::uint8_t>() == 0) continue;
      const auto old = optimizer.state().find(param.id());
      structure.state.emplace(
          param.id(),
          read_param_state(in, param, old == optimizer.state().end() ? nullptr : &old->second));
    }
  }
  in.expect_end();
  return structure;
}

NamedTensors state_tensors(optim::Optimizer& optimizer) {
  NamedTensors tensors;
  const auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t p = 0; p < groups[g].params.size(); ++p) {
      const auto found = optimizer.state().find(groups[g].params[p].id());
      if (found == optimizer.state().end()) continue;
      for (const auto& [name, tensor] : found->second.tensors) {
        tensors.emplace_back(
            "optimizer." + std::to_string(g) + "." + std::to_string(p) + "." + name, tensor);
      }
    }
  }
  return tensors;
}

}  // namespace

void broadcast_optimizer_state(optim::Optimizer& optimizer, int root_rank,
                               const ProcessSet& process_set) {
  const bool is_root = process_set.world()->topology().rank == root_rank;
  const Bytes bytes = broadcast_object(is_root ? describe(optimizer) : Bytes{}, root_rank,
                                       "optimizer.structure", process_set);
  std::string misfit;
  Structure structure;
  if (!is_root) {
    try {
      structure = read_structure(optimizer, bytes);
    } catch (const InvalidArgumentError& error) {
      misfit = error.what() + (" on rank " + std::to_string(process_set.world()->topology().rank));
    }
  }
  agree("broadcast_optimizer_state", misfit, process_set);
  if (!is_root) {
    auto& groups = optimizer.param_groups();
    for (std::size_t g = 0; g < groups.size(); ++g) groups[g].options = structure.options[g];
    optimizer.state() = std::move(structure.state);
  }
  std::vector<CollectiveHandle> handles;
  for (const auto& [name, tensor] : state_tensors(optimizer)) {
    handles.push_back(
        broadcast_async_(tensor, root_rank, {.name = name, .process_set = process_set}));
  }
  synchronize_all(handles);
}

}  // namespace hvd
