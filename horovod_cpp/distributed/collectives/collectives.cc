#include "horovod_cpp/distributed/collectives/collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/allocators.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/engine_call.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd {
namespace {

using Kind = CollectiveKind;

Tensor empty_beside(const Tensor& tensor, Shape shape) {
  return Tensor::empty(std::move(shape), tensor.dtype(), tensor.device());
}

Tensor empty_like(const Tensor& tensor) {
  return tensor.defined() ? empty_beside(tensor, tensor.shape()) : Tensor();
}

// Memory that two results share would be reduced twice, and the second time of what others wrote.
void check_apart(const std::vector<Tensor>& tensors) {
  std::vector<std::pair<const std::byte*, std::size_t>> order;  // where each begins
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].numel() == 0) continue;
    order.emplace_back(static_cast<const std::byte*>(tensors[i].address()), i);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t k = 1; k < order.size(); ++k) {
    const auto& [begin, index] = order[k - 1];
    const Tensor& before = tensors[index];
    if (begin + bytes_of(before) <= order[k].first) continue;
    const auto [first, second] = std::minmax(index, order[k].second);
    throw InvalidArgumentError("grouped_allreduce_: tensors " + std::to_string(first) + " and " +
                               std::to_string(second) + " share memory; reduce a copy of one");
  }
}

void check_outputs(const std::vector<Tensor>& outputs, const std::vector<Tensor>& tensors) {
  const auto fits = [](const Tensor& output, const Tensor& tensor) {
    return output.defined() && tensor.defined() && output.is_contiguous() &&
           output.dtype() == tensor.dtype() && output.shape() == tensor.shape() &&
           output.device() == tensor.device();
  };
  if (!std::ranges::equal(outputs, tensors, fits)) {
    throw InvalidArgumentError(
        "grouped_allreduce_into: the outputs have to be contiguous, as many as the tensors, and of "
        "their shapes, dtypes and devices");
  }
  check_apart(outputs);
}

std::shared_ptr<CallInFlight> allreduce_call(
    std::span<const Tensor> tensors, const AllreduceOptions& options,
    std::span<const Tensor> outputs, std::shared_ptr<const engine::CallLabels> labels = nullptr) {
  const auto compressor = options.compression.compressor();
  RecycledVector<CallTensor> items;
  items.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CallTensor& item = items.emplace_back();
    item.input = tensors[i];
    item.output = outputs.empty() ? empty_like(tensors[i]) : outputs[i];
    if (compressor != nullptr && tensors[i].defined()) {
      const std::string name = options.name + "." + std::to_string(i);
      item.compressor = compressor->for_tensor(name, tensors[i].shape(), tensors[i].dtype());
    }
  }
  return start_allreduce(items, options, std::move(labels));
}

// `options`: of any call with a root.
CallSpec rooted_spec(Kind kind, const auto& options, int root_rank) {
  CallSpec spec = make_spec(kind, options.process_set, options.name);
  spec.root = root_rank;
  check_root(spec);
  return spec;
}

std::shared_ptr<CallInFlight> broadcast_call(const std::vector<Tensor>& tensors, int root_rank,
                                             const CollectiveOptions& options, bool in_place) {
  CallSpec spec = rooted_spec(Kind::kBroadcast, options, root_rank);
  std::vector<CallTensor> parts;
  for (const Tensor& tensor : tensors) {
    check_tensor(spec, tensor);
    parts.push_back({.input = tensor,
                     .output = in_place ? tensor : empty_like(tensor),
                     .shape = tensor.shape()});
  }
  return start(spec, parts);
}

Shape row_shape(const Tensor& tensor) {
  return {tensor.shape().begin() + 1, tensor.shape().end()};
}

// allgather and gather
std::shared_ptr<CallInFlight> gather_call(CallSpec spec, const std::vector<Tensor>& tensors) {
  std::vector<CallTensor> parts;
  for (const Tensor& tensor : tensors) {
    check_rows(spec, tensor);
    parts.push_back({.input = tensor, .shape = row_shape(tensor), .rows = tensor.size(0)});
  }
  return start(spec, parts);
}

CallSpec reduction_spec(Kind kind, const ReduceOptions& options) {
  CallSpec spec = make_spec(kind, options.process_set, options.name);
  spec.op = options.op;
  spec.prescale = options.prescale_factor;
  spec.postscale = options.postscale_factor;
  return spec;
}

std::shared_ptr<CallInFlight> reducescatter_call(const std::vector<Tensor>& tensors,
                                                 const ReduceOptions& options) {
  CallSpec spec = reduction_spec(Kind::kReducescatter, options);
  const auto position = static_cast<std::size_t>(spec.set.rank());
  std::vector<CallTensor> parts;
  for (const Tensor& tensor : tensors) {
    check_rows(spec, tensor);
    Shape mine = row_shape(tensor);
    mine.insert(mine.begin(), engine::scattered_rows(tensor.size(0), spec.set.size())[position]);
    parts.push_back({.input = tensor,
                     .output = empty_beside(tensor, std::move(mine)),
                     .shape = tensor.shape()});
  }
  return start(spec, parts);
}

// The given splits, or equal ones; each is this many rows of `tensor` for one rank of the set.
std::vector<std::int64_t> splits_of(const CallSpec& spec, const Tensor& tensor,
                                    const std::vector<std::int64_t>& given) {
  const int ranks = spec.set.size();
  const std::int64_t rows = tensor.size(0);
  if (given.empty()) {
    if (rows % ranks != 0) {
      throw InvalidArgumentError(full_name(spec) + ": " + std::to_string(rows) +
                                 " rows do not divide evenly among " + std::to_string(ranks) +
                                 " ranks; give splits");
    }
    return std::vector<std::int64_t>(static_cast<std::size_t>(ranks), rows / ranks);
  }
  if (const auto least = std::ranges::min_element(given); *least < 0) {
    throw InvalidArgumentError(full_name(spec), ": splits[", least - given.begin(), "] is ",
                               *least);
  }
  const auto sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  if (given.size() != static_cast<std::size_t>(ranks) || sum != rows) {
    throw InvalidArgumentError(full_name(spec) + ": " + std::to_string(given.size()) +
                               " splits of " + std::to_string(sum) + " rows in all, for " +
                               std::to_string(ranks) + " ranks and a tensor of shape " +
                               to_string(tensor.shape()));
  }
  return given;
}

CollectiveHandle transfer(engine::PointToPoint::Direction direction, const Tensor& tensor, int peer,
                          const PointToPointOptions& options) {
  const bool sends = direction == engine::PointToPoint::Direction::kSend;
  const std::string what = sends ? "send" : "recv";
  const std::shared_ptr<World> world = options.process_set.world();
  if (!tensor.defined()) throw InvalidArgumentError(what + ": the tensor is undefined");
  expect_served(*world, tensor.device(), what + ": the tensor");
  static_cast<void>(options.process_set.rank());  // throws unless this rank is in it
  const std::vector<Rank> ranks = options.process_set.ranks();
  const bool known = std::find(ranks.begin(), ranks.end(), peer) != ranks.end();
  if (!known || peer == world->topology().rank) {
    throw InvalidArgumentError(
        what + ": rank " + std::to_string(peer) +
        (known ? " is this rank itself"
               : " is not in process set " + std::to_string(options.process_set.id())));
  }
  return CollectiveHandle(start_transfer(*world, direction, tensor, peer, options.tag));
}

// Begins each rank's row numbers: where the parts meet it tells how many ranks contributed.
constexpr std::int64_t kRank = -1;

// Row numbers as elements of the values' dtype, which carry their bits: with one dtype a call is
// one group of tensors, and so one name.
Tensor carrier_of(const Tensor& rows, DType dtype) {
  const auto per_row = static_cast<std::int64_t>(sizeof(std::int64_t) / size_of(dtype));
  return Tensor::wrap(rows.data(), {rows.numel(), per_row}, dtype,
                      std::make_shared<const Tensor>(rows));
}

std::vector<std::int64_t> carried_rows(const Tensor& carrier) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(carrier.size(0)));
  if (!rows.empty()) std::memcpy(rows.data(), carrier.data(), rows.size() * sizeof rows.front());
  return rows;
}

// That of a dense reduction, so that the two meet. Without one, calls are numbered by kind.
std::string name_of_allreduce(const std::string& name) {
  return name.empty() || name.starts_with('/') ? name : "/allreduce." + name;
}

void check_row_gradient(const RowGradient& gradient, const ReduceOptions& options) {
  const auto& [rows, values] = gradient;
  if (options.op != ReduceOp::kAverage && options.op != ReduceOp::kSum) {
    throw InvalidArgumentError("sparse_allreduce: takes Average and Sum, not " +
                               std::string(name_of(options.op)));
  }
  const bool fits = rows.defined() && values.defined() && rows.dtype() == DType::kI64 &&
                    rows.dim() == 1 && values.dim() > 0 && values.size(0) == rows.numel() &&
                    is_floating(values.dtype());
  if (fits) return;
  throw InvalidArgumentError("sparse_allreduce: rows ", describe(rows), " and values ",
                             describe(values), ": expected int64 [k] and floating [k, ...]");
}

}  // namespace

CollectiveHandle allreduce_async(const Tensor& tensor, const AllreduceOptions& options) {
  return CollectiveHandle(allreduce_call({&tensor, 1}, options, {}));
}
CollectiveHandle allreduce_async_(const Tensor& tensor, const AllreduceOptions& options) {
  return CollectiveHandle(allreduce_call({&tensor, 1}, options, {&tensor, 1}));
}
GroupHandle grouped_allreduce_async(const std::vector<Tensor>& tensors,
                                    const AllreduceOptions& options) {
  return GroupHandle(allreduce_call(tensors, options, {}));
}
GroupHandle grouped_allreduce_async_(const std::vector<Tensor>& tensors,
                                     const AllreduceOptions& options) {
  check_apart(tensors);
  return GroupHandle(allreduce_call(tensors, options, tensors));
}
GroupHandle grouped_allreduce_into_async(const std::vector<Tensor>& outputs,
                                         const std::vector<Tensor>& tensors,
                                         const AllreduceOptions& options) {
  check_outputs(outputs, tensors);
  return GroupHandle(allreduce_call(tensors, options, outputs));
}
Tensor allreduce(const Tensor& tensor, const AllreduceOptions& options) {
  return start_and_wait([&] { return allreduce_async(tensor, options); });
}
void allreduce_(const Tensor& tensor, const AllreduceOptions& options) {
  start_and_wait([&] { return allreduce_async_(tensor, options); });
}
std::vector<Tensor> grouped_allreduce(const std::vector<Tensor>& tensors,
                                      const AllreduceOptions& options) {
  return start_and_wait([&] { return grouped_allreduce_async(tensors, options); });
}
void grouped_allreduce_(const std::vector<Tensor>& tensors, const AllreduceOptions& options) {
  start_and_wait([&] { return grouped_allreduce_async_(tensors, options); });
}

CollectiveHandle reduce_async(const Tensor& tensor, int root_rank, const ReduceOptions& options) {
  CallSpec spec = reduction_spec(Kind::kReduce, options);
  spec.root = root_rank;
  check_root(spec);
  check_tensor(spec, tensor);
  const bool root = spec.set.world()->topology().rank == root_rank;
  CallTensor part{.input = tensor, .shape = tensor.shape()};
  if (root) part.output = empty_like(tensor);
  return CollectiveHandle(start(spec, {&part, 1}));
}
Tensor reduce(const Tensor& tensor, int root_rank, const ReduceOptions& options) {
  return start_and_wait([&] { return reduce_async(tensor, root_rank, options); });
}

CollectiveHandle reducescatter_async(const Tensor& tensor, const ReduceOptions& options) {
  return CollectiveHandle(reducescatter_call({tensor}, options));
}
GroupHandle grouped_reducescatter_async(const std::vector<Tensor>& tensors,
                                        const ReduceOptions& options) {
  return GroupHandle(reducescatter_call(tensors, options));
}
Tensor reducescatter(const Tensor& tensor, const ReduceOptions& options) {
  return start_and_wait([&] { return reducescatter_async(tensor, options); });
}
std::vector<Tensor> grouped_reducescatter(const std::vector<Tensor>& tensors,
                                          const ReduceOptions& options) {
  return start_and_wait([&] { return grouped_reducescatter_async(tensors, options); });
}

CollectiveHandle allgather_async(const Tensor& tensor, const CollectiveOptions& options) {
  return CollectiveHandle(
      gather_call(make_spec(Kind::kAllgather, options.process_set, options.name), {tensor}));
}
GroupHandle grouped_allgather_async(const std::vector<Tensor>& tensors,
                                    const CollectiveOptions& options) {
  return GroupHandle(
      gather_call(make_spec(Kind::kAllgather, options.process_set, options.name), tensors));
}
Tensor allgather(const Tensor& tensor, const CollectiveOptions& options) {
  return start_and_wait([&] { return allgather_async(tensor, options); });
}
std::vector<Tensor> grouped_allgather(const std::vector<Tensor>& tensors,
                                      const CollectiveOptions& options) {
  return start_and_wait([&] { return grouped_allgather_async(tensors, options); });
}

CollectiveHandle gather_async(const Tensor& tensor, int root_rank,
                              const CollectiveOptions& options) {
  return CollectiveHandle(gather_call(rooted_spec(Kind::kGather, options, root_rank), {tensor}));
}
Tensor gather(const Tensor& tensor, int root_rank, const CollectiveOptions& options) {
  return start_and_wait([&] { return gather_async(tensor, root_rank, options); });
}

CollectiveHandle broadcast_async(const Tensor& tensor, int root_rank,
                                 const CollectiveOptions& options) {
  return CollectiveHandle(broadcast_call({tensor}, root_rank, options, false));
}
CollectiveHandle broadcast_async_(const Tensor& tensor, int root_rank,
                                  const CollectiveOptions& options) {
  return CollectiveHandle(broadcast_call({tensor}, root_rank, options, true));
}
GroupHandle grouped_broadcast_async(const std::vector<Tensor>& tensors, int root_rank,
                                    const CollectiveOptions& options) {
  return GroupHandle(broadcast_call(tensors, root_rank, options, false));
}
GroupHandle grouped_broadcast_async_(const std::vector<Tensor>& tensors, int root_rank,
                                     const CollectiveOptions& options) {
  return GroupHandle(broadcast_call(tensors, root_rank, options, true));
}
Tensor broadcast(const Tensor& tensor, int root_rank, const CollectiveOptions& options) {
  return start_and_wait([&] { return broadcast_async(tensor, root_rank, options); });
}
void broadcast_(const Tensor& tensor, int root_rank, const CollectiveOptions& options) {
  start_and_wait([&] { return broadcast_async_(tensor, root_rank, options); });
}
std::vector<Tensor> grouped_broadcast(const std::vector<Tensor>& tensors, int root_rank,
                                      const CollectiveOptions& options) {
  return start_and_wait([&] { return grouped_broadcast_async(tensors, root_rank, options); });
}
void grouped_broadcast_(const std::vector<Tensor>& tensors, int root_rank,
                        const CollectiveOptions& options) {
  start_and_wait([&] { return grouped_broadcast_async_(tensors, root_rank, options); });
}

CollectiveHandle scatter_async(const Tensor& tensor, int root_rank, const SplitOptions& options) {
  CallSpec spec = rooted_spec(Kind::kScatter, options, root_rank);
  check_rows(spec, tensor);
  CallTensor part;
  part.shape = row_shape(tensor);
  if (spec.set.world()->topology().rank == root_rank) {
    part.input = tensor;
    part.splits = splits_of(spec, tensor, options.splits);
  } else {
    part.input = empty_beside(tensor, {0});
  }
  return CollectiveHandle(start(spec, {&part, 1}));
}
Tensor scatter(const Tensor& tensor, int root_rank, const SplitOptions& options) {
  return start_and_wait([&] { return scatter_async(tensor, root_rank, options); });
}

AlltoallHandle alltoall_async(const Tensor& tensor, const SplitOptions& options) {
  CallSpec spec = make_spec(Kind::kAlltoall, options.process_set, options.name);
  check_rows(spec, tensor);
  CallTensor part{.input = tensor,
                  .shape = row_shape(tensor),
                  .splits = splits_of(spec, tensor, options.splits)};
  return AlltoallHandle(start(spec, {&part, 1}));
}
AlltoallResult alltoall(const Tensor& tensor, const SplitOptions& options) {
  return start_and_wait([&] { return alltoall_async(tensor, options); });
}

BarrierHandle barrier_async(const BarrierOptions& options) {
  return BarrierHandle(
      start_without_tensors(make_spec(Kind::kBarrier, options.process_set, options.name)));
}
void barrier(const BarrierOptions& options) {
  start_and_wait([&] { return barrier_async(options); });
}

JoinHandle join_async(const JoinOptions& options) {
  CallSpec spec = make_spec(Kind::kJoin, options.process_set, "");
  spec.joins_average = options.average == JoinAverage::kSize;
  JoinHandle handle(start_without_tensors(spec));
  spec.set.world()->restart_unnamed(spec.set.id());
  return handle;
}
int join(const JoinOptions& options) {
  return start_and_wait([&] { return join_async(options); });
}

CollectiveHandle isend(const Tensor& tensor, int to, const PointToPointOptions& options) {
  return transfer(engine::PointToPoint::Direction::kSend, tensor, to, options);
}
CollectiveHandle irecv(const Tensor& tensor, int from, const PointToPointOptions& options) {
  return transfer(engine::PointToPoint::Direction::kReceive, tensor, from, options);
}
void send(const Tensor& tensor, int to, const PointToPointOptions& options) {
  start_and_wait([&] { return isend(tensor, to, options); });
}
void recv(const Tensor& tensor, int from, const PointToPointOptions& options) {
  start_and_wait([&] { return irecv(tensor, from, options); });
}

RowGradient row_gradient_of(const CallResult& gathered, const ReduceOptions& options) {
  const std::vector<std::int64_t> all = carried_rows(gathered.tensors[0]);
  std::vector<std::int64_t> rows;
  std::ranges::copy_if(all, std::back_inserter(rows), [](auto row) { return row != kRank; });
  const auto count = static_cast<std::int64_t>(rows.size());
  RowGradient sum = coalesce({Tensor::from(rows, {count}), gathered.tensors[1]});
  double scale = options.prescale_factor * options.postscale_factor;
  if (options.op == ReduceOp::kAverage) {
    scale /= static_cast<double>(std::ranges::count(all, kRank));
  }
  const NoGradGuard no_grad;
  if (scale != 1) sum.values.mul_(scale);
  return sum;
}

std::shared_ptr<CallInFlight> start_sparse_allreduce(const RowGradient& gradient,
                                                     const ReduceOptions& options) {
  check_row_gradient(gradient, options);
  const Tensor given = gradient.rows.contiguous();
  const Tensor rows = Tensor::empty({given.numel() + 1}, DType::kI64);
  rows.data<std::int64_t>()[0] = kRank;
  std::copy_n(given.data<std::int64_t>(), given.numel(), rows.data<std::int64_t>() + 1);
  return grouped_allgather_async(
             {carrier_of(rows, gradient.values.dtype()), gradient.values.contiguous()},
             {.name = name_of_allreduce(options.name), .process_set = options.process_set})
      .call();
}

RowGradient SparseHandle::synchronize() const {
  const CallResult& gathered = call_->result({});
  const MutexLock lock(sum_->mutex);
  if (!sum_->gradient) sum_->gradient = row_gradient_of(gathered, options_);
  return *sum_->gradient;
}

SparseHandle sparse_allreduce_async(const RowGradient& gradient, const ReduceOptions& options) {
  return {start_sparse_allreduce(gradient, options), options};
}

RowGradient sparse_allreduce(const RowGradient& gradient, const ReduceOptions& options) {
  return sparse_allreduce_async(gradient, options).synchronize();
}

}  // namespace hvd
