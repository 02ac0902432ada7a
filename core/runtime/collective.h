#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/device.h"
#include "core/base/reduce_op.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"
#include "core/runtime/fence.h"

namespace hvd {

// One tensor of a fused batch. `input` and `output` have equal numel and dtype and may be the same
// memory (in place) but must not overlap otherwise.
struct Slice {
  TensorView input;
  TensorView output;
};

// One tensor of a fused all-gather: rank r contributes bytes_of[r] bytes; `output` has room for
// their sum, in rank order.
struct GatherSlice {
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<std::size_t> bytes_of;
};

// One running collective. Used and destroyed by the coordinator, but for this: on an asynchronous
// device it is destroyed by the completion thread, after a fence past it was reached.
class Operation {
 public:
  virtual ~Operation() = default;
  // Does what can be done now and never waits; true when this rank's part is finished (for an
  // asynchronous device: enqueued). Throws Error when it cannot finish; it is over then.
  virtual bool advance() = 0;
};

// Communication memory. `data` stays valid while a copy of `owner` lives.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// Port: how bytes move. One a rank and device kind; all ranks start the same operations in the same
// order. Used by the coordinator thread alone, but for abort(). The slices' memory (and the spans
// given to exchange) must live until the operation is destroyed.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual DeviceKind device() const noexcept = 0;
  // Aligned to 64 bytes.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Work started later begins only past `ready`.
  virtual void after(const Fence& ready) = 0;

  // output = scale * reduce over ranks of input, in rank order, bitwise equal on every rank.
  // f16 and bf16 accumulate in f32 and are rounded once. Integers scale in f64, truncate and
  // saturate. `op` is kSum, kMin, kMax or kProduct (an average is a sum with a scale).
  virtual std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices, ReduceOp op,
                                                double scale) = 0;
  // On the root: input is sent (and copied to output); elsewhere: output is written.
  virtual std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) = 0;
  virtual std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) = 0;
  // Host integers whatever the device: sizes that differ by rank. all.size() = size * mine.size().
  virtual std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                              std::span<std::int64_t> all) = 0;

  // A point past everything started so far.
  virtual Fence fence() = 0;
  // Running operations throw from advance() soon. Any thread.
  virtual void abort() noexcept = 0;
};

}  // namespace hvd
