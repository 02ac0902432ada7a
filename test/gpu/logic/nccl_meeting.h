#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

// What a collective does once the calls of all ranks have met.
namespace hvd::engine::test {

enum class NcclKind { kAllReduce, kReduceScatter, kReduce, kBroadcast, kAllGather };

// What a rank shows of its call. Bytes that may travel.
struct NcclPost {
  static constexpr std::ptrdiff_t kElsewhere = -1;

  NcclKind kind = NcclKind::kAllReduce;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int op = 0;
  double scale = 1.0;  // of an operation made by ncclRedOpCreatePreMulSum()
  int root = 0;
  // From the begin of the registered memory in which input and output lie, or kElsewhere.
  std::array<std::ptrdiff_t, 2> places = {kElsewhere, kElsewhere};
};

const char* name_of(NcclKind kind);
std::size_t size_of(ncclDataType_t type);
// Of what `rank` of `size` brings, and of what it gets.
std::size_t input_bytes(const NcclPost& post, int rank, int size);
std::size_t output_bytes(const NcclPost& post, int rank, int size);

// What NCCL would not forgive: calls that do not belong together, memory that is registered on some
// ranks only or not at one distance from its begin.
std::optional<std::string> find_problem(std::span<const NcclPost> by_rank);

// Writes what `rank` gets, computed as on the host in rank order. `inputs`: of all ranks, aligned,
// none of them `output`. Nobody has found a problem.
void compute(std::span<const NcclPost> by_rank, std::span<const std::byte* const> inputs, int rank,
             void* output);

}  // namespace hvd::engine::test
