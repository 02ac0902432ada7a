#include "test/gpu/logic/nccl_meeting.h"

#include <cstring>
#include <vector>

#include "core/base/dtype.h"
#include "ops/host/reduce.h"

namespace hvd::engine::test {
namespace {

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kI8;
    case ncclInt32:
      return DType::kI32;
    case ncclInt64:
      return DType::kI64;
    case ncclFloat16:
      return DType::kF16;
    case ncclBfloat16:
      return DType::kBF16;
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    default:
      return DType::kU8;
  }
}

std::size_t bytes_of(const NcclPost& post) {
  return post.count * size_of(post.type);
}

bool is_alike(const NcclPost& a, const NcclPost& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op &&
         a.scale == b.scale && a.root == b.root;
}

void reduce(std::span<const NcclPost> by_rank, std::span<const std::byte* const> inputs, int rank,
            void* output) {
  const NcclPost& post = by_rank.front();
  const std::size_t begin =
      post.kind == NcclKind::kReduceScatter ? static_cast<std::size_t>(rank) * bytes_of(post) : 0;
  std::vector<const void*> mine;
  for (const std::byte* const input : inputs) mine.push_back(input + begin);
  ReduceOp op = ReduceOp::kSum;
  if (post.op == ncclProd) op = ReduceOp::kProduct;
  if (post.op == ncclMax) op = ReduceOp::kMax;
  if (post.op == ncclMin) op = ReduceOp::kMin;
  const double after = post.op == ncclAvg ? 1.0 / static_cast<double>(inputs.size()) : 1.0;
  host::reduce(dtype_of(post.type), op, mine, output, static_cast<std::int64_t>(post.count),
               post.scale, after);
}

}  // namespace

const char* name_of(NcclKind kind) {
  switch (kind) {
    case NcclKind::kAllReduce:
      return "ncclAllReduce";
    case NcclKind::kReduceScatter:
      return "ncclReduceScatter";
    case NcclKind::kReduce:
      return "ncclReduce";
    case NcclKind::kBroadcast:
      return "ncclBroadcast";
    default:
      return "ncclAllGather";
  }
}

std::size_t size_of(ncclDataType_t type) {
  return hvd::size_of(dtype_of(type));
}

std::size_t input_bytes(const NcclPost& post, int rank, int size) {
  if (post.kind == NcclKind::kBroadcast && rank != post.root) return 0;
  const bool has_all = post.kind == NcclKind::kReduceScatter;
  return bytes_of(post) * static_cast<std::size_t>(has_all ? size : 1);
}

std::size_t output_bytes(const NcclPost& post, int rank, int size) {
  if (post.kind == NcclKind::kReduce && rank != post.root) return 0;
  const bool gets_all = post.kind == NcclKind::kAllGather;
  return bytes_of(post) * static_cast<std::size_t>(gets_all ? size : 1);
}

std::optional<std::string> find_problem(std::span<const NcclPost> by_rank) {
  const NcclPost& first = by_rank.front();
  const auto text = [](const NcclPost& post) {
    return std::string(name_of(post.kind)) + " of " + std::to_string(post.count);
  };
  for (const NcclPost& post : by_rank) {
    if (!is_alike(post, first)) return text(first) + " meets " + text(post);
    // A broadcast has an input on its root alone.
    if (post.kind != NcclKind::kBroadcast && post.places != first.places) {
      return text(post) + ": memory is not registered alike on all ranks";
    }
  }
  return std::nullopt;
}

void compute(std::span<const NcclPost> by_rank, std::span<const std::byte* const> inputs, int rank,
             void* output) {
  const NcclPost& post = by_rank.front();
  const std::size_t bytes = bytes_of(post);
  if (output_bytes(post, rank, static_cast<int>(inputs.size())) == 0) return;
  switch (post.kind) {
    case NcclKind::kBroadcast:
      std::memcpy(output, inputs[static_cast<std::size_t>(post.root)], bytes);
      return;
    case NcclKind::kAllGather:
      for (std::size_t from = 0; from < inputs.size(); ++from) {
        std::memcpy(static_cast<std::byte*>(output) + from * bytes, inputs[from], bytes);
      }
      return;
    default:
      reduce(by_rank, inputs, rank, output);
  }
}

}  // namespace hvd::engine::test
