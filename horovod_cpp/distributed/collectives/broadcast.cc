#include "horovod_cpp/distributed/collectives/broadcast.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {
namespace {

Tensor tensor_of(const Bytes& bytes) {
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kU8);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

// One line per entry, the same on every rank that has the same state.
std::vector<std::string> describe(const NamedTensors& state) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : state) lines.push_back("'" + name + "' " + describe(tensor));
  return lines;
}

// Of an optimizer what must be the same on all ranks: its groups with their options, its
// parameters.
std::vector<std::string> describe(optim::Optimizer& optimizer) {
  std::vector<std::string> lines;
  const auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::string& group = lines.emplace_back("group " + std::to_string(g) + " with options");
    for (const auto& [name, value] : groups[g].options) group += " " + name;
    for (std::size_t p = 0; p < groups[g].params.size(); ++p) {
      lines.push_back("parameter " + std::to_string(p) + " of group " + std::to_string(g) + ", " +
                      describe(groups[g].params[p]));
    }
  }
  return lines;
}

Bytes encode(const std::vector<std::string>& lines) {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const std::string& line : lines) out.put_string(line);
  return bytes;
}

// Where this rank's lines first differ from the root's; empty if they do not.
std::string first_difference(const std::vector<std::string>& mine, const Bytes& root_lines,
                             Rank rank, Rank root) {
  ByteReader in(root_lines);
  std::vector<std::string> roots;
  while (in.remaining() > 0) roots.push_back(in.get_string());
  if (mine == roots) return "";
  const auto [own, theirs] = std::mismatch(mine.begin(), mine.end(), roots.begin(), roots.end());
  const std::string nothing = "nothing";
  return "entry " + std::to_string(own - mine.begin()) + " is " +
         (own == mine.end() ? nothing : *own) + " on rank " + std::to_string(rank) + ", " +
         (theirs == roots.end() ? nothing : *theirs) + " on rank " + std::to_string(root) +
         ", the root; all ranks must have made the same model";
}

// All ranks compare digests; only when those differ do they look for the difference.
void check_same_state(const std::string& what, const std::vector<std::string>& lines, int root_rank,
                      const ProcessSet& set) {
  const Bytes encoded = encode(lines);
  Bytes mine;
  ByteWriter(mine).put(content_hash(encoded));
  const std::vector<Bytes> all = allgather_object(mine, what + ".digest", set);
  const bool equal =
      std::all_of(all.begin(), all.end(), [&](const Bytes& each) { return each == all.front(); });
  if (equal) return;
  const Bytes root_lines = broadcast_object(encoded, root_rank, what + ".state", set);
  agree(what, first_difference(lines, root_lines, set.world()->topology().rank, root_rank), set);
}

// The values of its options, then steps and state tensors by parameter.
Bytes state_of(optim::Optimizer& optimizer) {
  Bytes bytes;
  ByteWriter out(bytes);
  for (const optim::ParamGroup& group : optimizer.param_groups()) {
    for (const auto& [option, value] : group.options) out.put(value);
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

optim::ParamState read_param_state(ByteReader& in, const Tensor& param,
                                   const optim::ParamState& old) {
  optim::ParamState state;
  state.steps = in.get<std::int64_t>();
  for (std::size_t left = in.get_count(9); left > 0; --left) {
    const std::string name = in.get_string();
    const DType dtype = in.get_enum<DType>(kDTypeCount);
    Shape shape(in.get_count(sizeof(std::int64_t)));
    for (std::int64_t& extent : shape) extent = in.get<std::int64_t>();
    Tensor tensor;
    if (old.tensors.contains(name)) tensor = old.tensors.at(name);
    if (!tensor.defined() || tensor.dtype() != dtype || tensor.shape() != shape) {
      tensor = Tensor::zeros(std::move(shape), dtype, param.device());
    }
    state.tensors.emplace(name, std::move(tensor));
  }
  return state;
}

// Options and steps become the root's; its state tensors are there, without their values.
void take_state(optim::Optimizer& optimizer, const Bytes& bytes) {
  ByteReader in(bytes);
  std::map<const void*, optim::ParamState> state;
  for (optim::ParamGroup& group : optimizer.param_groups()) {
    for (auto& [option, value] : group.options) value = in.get<double>();
    for (const Tensor& param : group.params) {
      if (in.get<std::uint8_t>() == 0) continue;
      state.emplace(param.id(), read_param_state(in, param, optimizer.state()[param.id()]));
    }
  }
  in.expect_end();
  optimizer.state() = std::move(state);
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

void broadcast_parameters(const NamedTensors& state, int root_rank, const ProcessSet& process_set) {
  check_same_state("broadcast_parameters", describe(state), root_rank, process_set);
  std::vector<Tensor> dense;
  std::vector<CollectiveHandle> handles;
  for (const auto& [name, tensor] : state) {
    dense.push_back(tensor.contiguous());
    handles.push_back(broadcast_async_(dense.back().detach(), root_rank,
                                       {.name = name, .process_set = process_set}));
  }
  synchronize_all(handles);
  const NoGradGuard no_grad;
  for (std::size_t i = 0; i < state.size(); ++i) {
    Tensor target = state[i].second;
    if (!target.is(dense[i])) target.copy_(dense[i]);
  }
}

void refuse_parameters(const std::string& why, int root_rank, const ProcessSet& process_set) {
  try {
    check_same_state("broadcast_parameters", {"refused (" + why + ")"}, root_rank, process_set);
  } catch (const MismatchError&) {
    // The caller has the reason.
  }
}

void broadcast_optimizer_state(optim::Optimizer& optimizer, int root_rank,
                               const ProcessSet& process_set) {
  check_same_state("broadcast_optimizer_state", describe(optimizer), root_rank, process_set);
  const bool is_root = process_set.world()->topology().rank == root_rank;
  const Bytes state = broadcast_object(is_root ? state_of(optimizer) : Bytes{}, root_rank,
                                       "optimizer.state", process_set);
  if (!is_root) take_state(optimizer, state);
  std::vector<CollectiveHandle> handles;
  for (const auto& [name, tensor] : state_tensors(optimizer)) {
    handles.push_back(
        broadcast_async_(tensor, root_rank, {.name = name, .process_set = process_set}));
  }
  synchronize_all(handles);
}

Bytes broadcast_object(Bytes object, int root_rank, const std::string& name,
                       const ProcessSet& process_set) {
  const std::string base = name.empty() ? "object" : name;
  Tensor size = Tensor::empty({}, DType::kI64);
  *size.data<std::int64_t>() = static_cast<std::int64_t>(object.size());
  broadcast_(size, root_rank, {.name = base + ".size", .process_set = process_set});
  const bool is_root = process_set.world()->topology().rank == root_rank;
  Tensor data =
      is_root ? tensor_of(object) : Tensor::empty({*size.data<std::int64_t>()}, DType::kU8);
  broadcast_(data, root_rank, {.name = base + ".data", .process_set = process_set});
  if (is_root) return object;
  const auto* first = static_cast<const std::byte*>(data.data());
  return Bytes(first, first + data.numel());
}

std::vector<Bytes> allgather_object(const Bytes& object, const std::string& name,
                                    const ProcessSet& process_set) {
  const std::string base = name.empty() ? "object" : name;
  const CallResult all =
      allgather_async(tensor_of(object), {.name = base + ".bytes", .process_set = process_set})
          .result();
  const auto* next = static_cast<const std::byte*>(all.tensors.front().data());
  std::vector<Bytes> objects;
  for (const std::int64_t bytes : all.rows_of) {
    objects.emplace_back(next, next + bytes);
    next += bytes;
  }
  return objects;
}

void agree(const std::string& what, const std::string& misfit, const ProcessSet& process_set) {
  const auto mine = std::as_bytes(std::span(misfit));
  for (const Bytes& text :
       allgather_object({mine.begin(), mine.end()}, what + ".agree", process_set)) {
    if (text.empty()) continue;
    throw MismatchError(what + ": " +
                        std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  }
}

}  // namespace hvd
