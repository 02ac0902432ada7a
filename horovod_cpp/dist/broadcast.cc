#include "horovod_cpp/dist/broadcast.h"

#include <cstring>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/dist/session.h"

namespace hvd {
namespace {

std::shared_ptr<World> or_session(const std::shared_ptr<World>& given) {
  return given != nullptr ? given : world();
}

void broadcast_all(World& on, const NamedTensors& tensors, int root_rank) {
  std::vector<CollectiveHandle> handles;
  handles.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    handles.push_back(on.broadcast_async(tensor, tensor, root_rank, name));
  }
  synchronize_all(handles);
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

optim::ParamState read_param_state(ByteReader& in, const optim::ParamState* old) {
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
      tensor = Tensor::zeros(std::move(shape), dtype);
    }
    state.tensors.emplace(name, std::move(tensor));
  }
  return state;
}

// What the root described, laid over this rank's groups. Throws when they do not fit.
struct Structure {
  std::vector<std::map<std::string, double>> options;
  std::map<const void*, optim::ParamState> state;
};

Structure read_structure(optim::Optimizer& optimizer, const Bytes& bytes) {
  ByteReader in(bytes);
  Structure structure;
  auto& groups = optimizer.param_groups();
  const auto group_count = in.get<std::uint32_t>();
  if (group_count != groups.size()) {
    throw InvalidArgumentError("the root has " + std::to_string(group_count) +
                               " parameter groups, this rank " + std::to_string(groups.size()));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& options = structure.options.emplace_back();
    for (std::size_t left = in.get_count(12); left > 0; --left) {
      std::string option = in.get_string();
      options[std::move(option)] = in.get<double>();
    }
    const auto param_count = in.get<std::uint32_t>();
    if (param_count != groups[g].params.size()) {
      throw InvalidArgumentError("parameter group " + std::to_string(g) + " has " +
                                 std::to_string(param_count) + " parameters on the root, " +
                                 std::to_string(groups[g].params.size()) + " on this rank");
    }
    for (const Tensor& param : groups[g].params) {
      if (in.get<std::uint8_t>() == 0) continue;
      const auto old = optimizer.state().find(param.id());
      structure.state.emplace(
          param.id(),
          read_param_state(in, old == optimizer.state().end() ? nullptr : &old->second));
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

// One rank's misfit is everybody's error, so that nobody waits for tensors that never come.
void agree(World& on, const std::string& misfit) {
  Tensor fits = Tensor::scalar(misfit.empty() ? 1 : 0, DType::kI32);
  on.allreduce_async(fits, fits, ReduceOp::kMin, "optimizer.structure_fits").synchronize();
  if (!misfit.empty()) throw InvalidArgumentError("broadcast_optimizer_state: " + misfit);
  if (fits.item() == 0) {
    throw InvalidArgumentError(
        "broadcast_optimizer_state: another rank's parameter groups differ from the root's");
  }
}

}  // namespace

void broadcast_parameters(const NamedTensors& state, int root_rank,
                          const std::shared_ptr<World>& given) {
  broadcast_all(*or_session(given), state, root_rank);
}

Bytes broadcast_object(Bytes object, int root_rank, const std::string& name,
                       const std::shared_ptr<World>& given) {
  const std::shared_ptr<World> on = or_session(given);
  const std::string base = name.empty() ? "object" : name;
  Tensor size = Tensor::scalar(static_cast<double>(object.size()), DType::kI64);
  on->broadcast_async(size, size, root_rank, base + ".size").synchronize();
  const auto bytes = *size.data<std::int64_t>();
  Tensor data = Tensor::empty({bytes}, DType::kU8);
  const bool is_root = on->topology().rank == root_rank;
  if (is_root && bytes > 0) std::memcpy(data.data(), object.data(), object.size());
  on->broadcast_async(data, data, root_rank, base + ".data").synchronize();
  if (is_root) return object;
  const auto* first = static_cast<const std::byte*>(data.data());
  return Bytes(first, first + bytes);
}

void broadcast_optimizer_state(optim::Optimizer& optimizer, int root_rank,
                               const std::shared_ptr<World>& given) {
  const std::shared_ptr<World> on = or_session(given);
  const bool is_root = on->topology().rank == root_rank;
  const Bytes bytes = broadcast_object(is_root ? describe(optimizer) : Bytes{}, root_rank,
                                       "optimizer.structure", on);
  std::string misfit;
  Structure structure;
  if (!is_root) {
    try {
      structure = read_structure(optimizer, bytes);
    } catch (const InvalidArgumentError& error) {
      misfit = error.what();
    }
  }
  agree(*on, misfit);
  if (!is_root) {
    auto& groups = optimizer.param_groups();
    for (std::size_t g = 0; g < groups.size(); ++g) groups[g].options = structure.options[g];
    optimizer.state() = std::move(structure.state);
  }
  broadcast_all(*on, state_tensors(optimizer), root_rank);
}

}  // namespace hvd
