#include "horovod_cpp/dist/collectives.h"

#include "horovod_cpp/dist/session.h"

namespace hvd {

CollectiveHandle allreduce_async(const Tensor& tensor, ReduceOp op, const std::string& name) {
  return world()->allreduce_async(tensor, Tensor::empty(tensor.shape(), tensor.dtype()), op, name);
}

CollectiveHandle allreduce_async_(Tensor& tensor, ReduceOp op, const std::string& name) {
  return world()->allreduce_async(tensor, tensor, op, name);
}

Tensor allreduce(const Tensor& tensor, ReduceOp op, const std::string& name) {
  return allreduce_async(tensor, op, name).synchronize();
}

void allreduce_(Tensor& tensor, ReduceOp op, const std::string& name) {
  allreduce_async_(tensor, op, name).synchronize();
}

CollectiveHandle allgather_async(const Tensor& tensor, const std::string& name) {
  return world()->allgather_async(tensor, name);
}

Tensor allgather(const Tensor& tensor, const std::string& name) {
  return allgather_async(tensor, name).synchronize();
}

CollectiveHandle broadcast_async(const Tensor& tensor, int root_rank, const std::string& name) {
  return world()->broadcast_async(tensor, Tensor::empty(tensor.shape(), tensor.dtype()), root_rank,
                                  name);
}

CollectiveHandle broadcast_async_(Tensor& tensor, int root_rank, const std::string& name) {
  return world()->broadcast_async(tensor, tensor, root_rank, name);
}

Tensor broadcast(const Tensor& tensor, int root_rank, const std::string& name) {
  return broadcast_async(tensor, root_rank, name).synchronize();
}

void broadcast_(Tensor& tensor, int root_rank, const std::string& name) {
  broadcast_async_(tensor, root_rank, name).synchronize();
}

}  // namespace hvd
