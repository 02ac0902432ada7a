#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/negotiate/messages/request.h"
#include "core/runtime/submission.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/options.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/tensor/tensor.h"

// What the collectives share: from tensors to submissions, and from their handles to results.
namespace hvd {

// What a call asks for, except its tensors.
struct CallSpec {
  CollectiveKind kind = CollectiveKind::kAllreduce;
  ProcessSet set = {};
  std::string name = {};        // as the caller gave it; when empty, start() numbers it
  bool automatic_name = false;  // the name is a number
  ReduceOp op = ReduceOp::kSum;
  Rank root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  WireFormat wire = WireFormat::kNone;  // for the dtypes that have it
  bool joins_average = false;
  bool flagged = false;  // see Request
  // Of the tensors, for messages; null = none. Ignored unless there are as many as tensors.
  std::shared_ptr<const engine::CallLabels> labels = nullptr;
};

// One tensor of a call, from its submission to its result.
struct CallTensor {
  Tensor input = {};
  // May be the input; undefined: the engine allocates the result, or there is none here.
  Tensor output = {};
  // Allreduce: what int8 lost, float32 of the input's shape; undefined = it is forgotten.
  Tensor residual = {};
  // Allreduce: null = the tensor travels as options.compression.wire() says.
  std::shared_ptr<TensorCompressor> compressor = {};
  Shape shape = {};  // as the request has it
  std::int64_t rows = 0;
  std::vector<std::int64_t> splits = {};
  // For the result, set by start(), which lets the input go: a handle must not keep its graph.
  std::size_t handle = 0;  // the submission that it is in
  std::size_t part = 0;    // ... and which of its tensors it is
  Device device = {};      // of the input
  std::uintptr_t stream = 0;
};

// Throws InvalidArgumentError unless this rank is in the set.
CallSpec make_spec(CollectiveKind kind, const ProcessSet& set, const std::string& name);

// "allreduce.x", "set2.allreduce.x", of the name "/x" "x": how requests and messages name the call.
std::string full_name(const CallSpec& spec);

// Throws InvalidArgumentError naming the call unless it is defined and contiguous.
void check_tensor(const CallSpec& spec, const Tensor& tensor);
// ... and has a first axis.
void check_rows(const CallSpec& spec, const Tensor& tensor);
// The root must be a rank of the set.
void check_root(const CallSpec& spec);

// Submits the tensors, which are moved from, as one group per dtype, all or none, and gives the
// call its number if it has no name. Never waits for another rank.
std::shared_ptr<CallInFlight> start(CallSpec& spec, std::span<CallTensor> tensors);

// Starts the first round of an allreduce of all of them, which are moved from, as one group; their
// shapes are those of the inputs. options.compression.compressor() is not asked: the tensors have
// theirs. `flagged`: see Request.
std::shared_ptr<CallInFlight> start_allreduce(
    std::span<CallTensor> tensors, const AllreduceOptions& options,
    std::shared_ptr<const engine::CallLabels> labels = nullptr, bool flagged = false);

// A call without tensors: barrier, join, process sets. `numbers` as in Request.
std::shared_ptr<CallInFlight> start_without_tensors(CallSpec spec,
                                                    std::vector<std::int32_t> numbers = {});

// A send or a receive of `tensor`.
std::shared_ptr<CallInFlight> start_transfer(World& world,
                                             engine::PointToPoint::Direction direction,
                                             const Tensor& tensor, Rank peer, int tag);

}  // namespace hvd
