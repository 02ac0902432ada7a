#include "horovod_cpp/distributed/collectives/broadcast.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/collectives.h"

namespace hvd {
namespace {

Tensor tensor_of(const Bytes& bytes) {
  Tensor tensor = Tensor::empty({static_cast<std::int64_t>(bytes.size())}, DType::kU8);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

// One line an entry, the same on every rank that has the same state.
std::vector<std::string> describe(const NamedTensors& state) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : state) {
    lines.push_back("'" + name + "' " +
                    (tensor.defined() ? std::string(hvd::name_of(tensor.dtype())) + " " +
                                            to_string(tensor.shape())
                                      : "undefined"));
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
         ", the root";
}

// All ranks compare digests; only when those differ do they look for the difference.
void check_same_state(const std::vector<std::string>& lines, int root_rank, const ProcessSet& set) {
  const std::string what = "broadcast_parameters";
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

}  // namespace

void broadcast_parameters(const NamedTensors& state, int root_rank, const ProcessSet& process_set) {
  check_same_state(describe(state), root_rank, process_set);
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
    check_same_state({"refused (" + why + ")"}, root_rank, process_set);
  } catch (const MismatchError&) {
    // The caller has the reason.
  }
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
