#include "bindings/native/distributed/collective_table.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/native/distributed/distributed.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd::python {
namespace {

using Finish = void (*)(void* context, const TableResult& result);

std::vector<Tensor> tensors_of(const TableCall& call) {
  static char nothing;                              // where an empty tensor lies
  std::vector<std::shared_ptr<const void>> owners;  // first of all, so that each is dropped
  for (std::size_t i = 0; i < call.count; ++i) {
    owners.emplace_back(call.tensors[i].owner, call.tensors[i].drop);
  }
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < call.count; ++i) {
    const TableTensor& each = call.tensors[i];
    tensors.push_back(Tensor::wrap(each.data == nullptr ? &nothing : each.data,
                                   Shape(each.shape, each.shape + each.axes),
                                   static_cast<DType>(each.dtype), owners[i]));
  }
  return tensors;
}

std::shared_ptr<CallInFlight> start_allreduce(const AllreduceOptions& options,
                                              const std::vector<Tensor>& tensors,
                                              bool with_outputs) {
  if (!with_outputs) return grouped_allreduce_async(tensors, options).call();
  std::vector<Tensor> outputs, inputs;
  for (const Tensor& each : tensors) {
    (outputs.size() > inputs.size() ? inputs : outputs).push_back(each);
  }
  return grouped_allreduce_into_async(outputs, inputs, options).call();
}

std::vector<std::int64_t> splits_of(const Tensor& given) {
  if (given.dim() != 1) {
    throw InvalidArgumentError("splits of an alltoall have one axis, not " +
                               std::to_string(given.dim()));
  }
  const auto* first = given.data<std::int64_t>();
  return {first, first + given.numel()};
}

std::shared_ptr<CallInFlight> start_call(const TableCall& call, const std::vector<Tensor>& tensors,
                                         const ProcessSet& set) {
  const auto op = static_cast<ReduceOp>(call.op);
  const CollectiveOptions options{call.name, set};
  switch (static_cast<CollectiveKind>(call.kind)) {
    case CollectiveKind::kAllreduce:
      return start_allreduce({op, call.name, call.prescale, call.postscale,
                              Compression(static_cast<WireFormat>(call.wire)), set},
                             tensors, call.with_outputs);
    case CollectiveKind::kReducescatter:
      return grouped_reducescatter_async(tensors,
                                         {op, call.name, call.prescale, call.postscale, set})
          .call();
    case CollectiveKind::kAllgather:
      return grouped_allgather_async(tensors, options).call();
    case CollectiveKind::kBroadcast:
      return grouped_broadcast_async(tensors, call.root, options).call();
    case CollectiveKind::kAlltoall:
      return alltoall_async(tensors.at(0), {splits_of(tensors.at(1)), call.name, set}).call();
    case CollectiveKind::kBarrier:
      return barrier_async(options).call();
    case CollectiveKind::kJoin:
      return join_async({.process_set = set}).call();
    default:
      throw InternalError("the table of collectives has no kind " + std::to_string(call.kind));
  }
}

int answer(TableQuery query, World& world, std::uint32_t process_set) {
  switch (query) {
    case TableQuery::kRank:
      return world.topology().rank;
    case TableQuery::kSize:
      return world.process_set(process_set).size();
    case TableQuery::kLocalRank:
      return world.topology().local_rank;
    case TableQuery::kLocalSize:
      return world.topology().local_size;
    case TableQuery::kIncluded:
      return world.process_set(process_set).included() ? 1 : 0;
  }
  throw InternalError("the table of collectives has no query " +
                      std::to_string(static_cast<int>(query)));
}

// All that a call gives, as tensors.
std::vector<Tensor> outputs_of(CollectiveKind kind, const CallResult& result) {
  if (kind == CollectiveKind::kJoin)
    return {Tensor::scalar(static_cast<double>(result.number), DType::kI32)};
  std::vector<Tensor> outputs(result.tensors.begin(), result.tensors.end());
  if (kind == CollectiveKind::kAlltoall) {
    outputs.push_back(
        Tensor::empty({static_cast<std::int64_t>(result.rows_of.size())}, DType::kI64));
    std::copy(result.rows_of.begin(), result.rows_of.end(), outputs.back().data<std::int64_t>());
  }
  return outputs;
}

void finish_with(const Status& status, const std::vector<Tensor>& results, Finish finish,
                 void* context) {
  const auto drop = [](void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); };
  std::vector<TableTensor> tensors;
  for (const Tensor& each : results) {
    tensors.push_back({each.data(), bytes_of(each), each.shape().data(), each.shape().size(),
                       static_cast<int>(each.dtype()),
                       new std::shared_ptr<const void>(each.lease().owner), drop});
  }
  finish(context, {.status = static_cast<int>(status.code()),
                   .message = status.message().c_str(),
                   .tensors = tensors.data(),
                   .count = tensors.size()});
}

void finish_call(CollectiveKind kind, bool with_outputs, CallInFlight& call, Finish finish,
                 void* context) {
  std::vector<Tensor> results;
  Status status;
  try {
    const CallResult& result = call.result({});
    if (!with_outputs) results = outputs_of(kind, result);
  } catch (...) {
    status = current_status();
  }
  finish_with(status, results, finish, context);
}

void start(const TableCall& call, Finish finish, void* context) {
  std::vector<Tensor> results;
  Status status;
  try {
    const std::vector<Tensor> tensors = tensors_of(call);
    const std::shared_ptr<World> world = hvd::world();
    if (call.kind >= kFirstTableQuery) {
      const int number = answer(static_cast<TableQuery>(call.kind), *world, call.process_set);
      results.push_back(Tensor::scalar(number, DType::kI32));
    } else if (const auto started = start_call(call, tensors, world->process_set(call.process_set));
               started != nullptr) {  // null: a call of no tensors
      started->then(world->runtime().callbacks(), [=, kind = static_cast<CollectiveKind>(call.kind),
                                                   with_outputs = call.with_outputs] {
        finish_call(kind, with_outputs, *started, finish, context);
      });
      return;
    }
  } catch (...) {
    status = current_status();
  }
  finish_with(status, results, finish, context);
}

constexpr CollectiveTable kTable = {kCollectiveTableVersion, &start};

}  // namespace

void bind_collective_table(py::module_& m) {
  m.def(
      "_collective_table", [] { return reinterpret_cast<std::uintptr_t>(&kTable); },
      "The address of the CollectiveTable, for other native modules of this package.");
}

}  // namespace hvd::python
