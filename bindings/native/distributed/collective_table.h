#pragma once

#include <cstddef>
#include <cstdint>

// Collectives for native modules that do not link this one, such as TensorFlow's operations: plain
// C, at an address that Python hands over.
namespace hvd::python {

// Dense row-major memory on the CPU. Whoever receives one calls drop(owner) once, when it is done
// with the memory, on any thread.
struct TableTensor {
  void* data;
  std::size_t bytes;
  const std::int64_t* shape;
  std::size_t axes;
  int dtype;  // DType
  void* owner;
  void (*drop)(void* owner);
};

// What a rank may ask about its job. The answer is an int32 scalar, and is there at once.
enum class TableQuery : int {
  kRank = 100,  // apart from every CollectiveKind
  kSize,        // of the process set
  kLocalRank,
  kLocalSize,
  kIncluded,  // in the process set: 1 or 0
};
inline constexpr int kFirstTableQuery = static_cast<int>(TableQuery::kRank);

struct TableCall {
  int kind = 0;  // TableQuery; or CollectiveKind: allreduce, allgather, broadcast, reducescatter,
                 // alltoall, barrier, join
  const char* name = "";  // "" = numbered
  std::uint32_t process_set = 0;
  int op = 0, root = 0, wire = 0;  // ReduceOp; WireFormat of an allreduce
  double prescale = 1.0, postscale = 1.0;
  // The last of an alltoall: int64, the rows for each rank of the set, or none for equal parts.
  // Before each of an allreduce, with_outputs: where its result goes, maybe the same memory.
  const TableTensor* tensors = nullptr;
  std::size_t count = 0;
  bool with_outputs = false;
};

// Valid as long as the function that it is given to runs.
struct TableResult {
  int status = 0;            // StatusCode
  const char* message = "";  // of an error
  const TableTensor* tensors = nullptr;
  // As many as tensors were given; 0 of an error, and with_outputs. Of an alltoall, instead of the
  // rows for each rank: those from each. Of a join one: an int32 scalar, the rank that joined last.
  std::size_t count = 0;
};

struct CollectiveTable {
  std::uint32_t version;
  // Calls finish(context, result) exactly once, on a thread of the engine's own, however the call
  // and the job end; on this thread, before this returns, if the call is refused. Never waits.
  void (*start)(const TableCall& call, void (*finish)(void* context, const TableResult& result),
                void* context);
};

inline constexpr std::uint32_t kCollectiveTableVersion = 3;

}  // namespace hvd::python
