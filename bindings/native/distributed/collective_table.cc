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
  for (std::size_t i = 0; i < call.input_count; ++i) {
    owners.emplace_back(call.inputs[i].owner, call.inputs[i].drop);
  }
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < call.input_count; ++i) {
    const TableTensor& each = call.inputs[i];
    tensors.push_back(Tensor::wrap(each.data == nullptr ? &nothing : each.data,
                                   Shape(each.shape, each.shape + each.axes),
                                   static_cast<DType>(each.dtype), owners[i]));
  }
  return tensors;
}

std::shared_ptr<CallInFlight> start_call(const TableCall& call, const std::vector<Tensor>& tensors,
                                         const ProcessSet& set) {
  const auto op = static_cast<ReduceOp>(call.op);
  const CollectiveOptions options{call.name, set};
  switch (static_cast<CollectiveKind>(call.kind)) {
    case CollectiveKind::kAllreduce:
      return grouped_allreduce_async(
                 tensors, {.op = op,
                           .name = call.name,
                           .prescale_factor = call.prescale,
                           .postscale_factor = call.postscale,
                           .compression = Compression(static_cast<WireFormat>(call.wire)),
                           .process_set = set})
          .call();
    case CollectiveKind::kReducescatter:
      return grouped_reducescatter_async(tensors,
                                         {op, call.name, call.prescale, call.postscale, set})
          .call();
    case CollectiveKind::kAllgather:
      return grouped_allgather_async(tensors, options).call();
    case CollectiveKind::kBroadcast:
      return grouped_broadcast_async(tensors, call.root, options).call();
    case CollectiveKind::kAlltoall:
      return alltoall_async(tensors.at(0),
                            {{call.splits, call.splits + call.split_count}, call.name, set})
          .call();
    case CollectiveKind::kBarrier:
      return barrier_async(options).call();
    case CollectiveKind::kJoin:
      return join_async({.process_set = set}).call();
    default:
      throw InternalError("the table of collectives has no kind " + std::to_string(call.kind));
  }
}

void drop_lease(void* owner) {
  delete static_cast<std::shared_ptr<const void>*>(owner);
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
  std::vector<Tensor> outputs = result.tensors;
  if (kind == CollectiveKind::kAlltoall) {
    outputs.push_back(
        Tensor::empty({static_cast<std::int64_t>(result.rows_of.size())}, DType::kI64));
    std::copy(result.rows_of.begin(), result.rows_of.end(), outputs.back().data<std::int64_t>());
  }
  return outputs;
}

void finish_with(const Status& status, const std::vector<Tensor>& results, Finish finish,
                 void* context) {
  std::vector<TableTensor> tensors;
  for (const Tensor& each : results) {
    tensors.push_back({each.data(), bytes_of(each), each.shape().data(), each.shape().size(),
                       static_cast<int>(each.dtype()),
                       new std::shared_ptr<const void>(each.lease().owner), &drop_lease});
  }
  finish(context, {.status = static_cast<int>(status.code()),
                   .message = status.message().c_str(),
                   .tensors = tensors.data(),
                   .count = tensors.size()});
}

void finish_call(CollectiveKind kind, CallInFlight& call, Finish finish, void* context) {
  std::vector<Tensor> results;
  Status status;
  try {
    results = outputs_of(kind, call.result({}));
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
      started->then(world->runtime().callbacks(),
                    [kind = static_cast<CollectiveKind>(call.kind), started, finish, context] {
                      finish_call(kind, *started, finish, context);
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
