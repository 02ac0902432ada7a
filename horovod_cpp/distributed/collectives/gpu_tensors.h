#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ports/fence.h"
#include "core/runtime/handle.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/tensor/tensor.h"

// Tensors of GPUs on their way into collectives and out of them. Any thread.
namespace hvd {

// Throws UnsupportedError unless the device is the CPU or that on which this rank's collectives of
// GPUs run. `what` lies there: "allreduce.x: the tensor".
void expect_served(const World& world, const Device& device, const std::string& what);

// The stream on which other libraries make the engine wait for memory that they hand over; for
// Tensor::wrap_on().
std::uintptr_t import_stream(const World& world);
// What used the memory of `tensor` on `stream` has let it go: it is reused after that work.
void take_back(const Tensor& tensor, std::uintptr_t stream) noexcept;
// Work that is put on the caller's `stream` from now on finds what is in `tensor`, which lies on a
// GPU.
void hand_over(const Tensor& tensor, std::uintptr_t stream);

// Makes what reads the results of a call on a GPU wait for it: the streams of its tensors.
class Readers {
 public:
  // Waits until the call is enqueued, or has ended; throws what it failed with. `reader`: instead
  // of the streams on which other libraries use tensors' memory; see MaybeStream.
  Readers(const engine::Handle& handle, MaybeStream reader) : handle_(handle), reader_(reader) {
    handle.wait_enqueued(past_);
  }
  // Each stream once. If the device failed, throws why the job ended.
  void add(const Device& device, std::uintptr_t stream);

 private:
  const engine::Handle& handle_;
  engine::Fence past_;  // the results
  const MaybeStream reader_;
  std::vector<std::uintptr_t> streams_;
};

// Collects from when on the inputs of a call may be read, and its outputs written.
class ReadyPoint {
 public:
  explicit ReadyPoint(const World& world) : world_(world) {}
  void add(const Tensor& tensor);
  // Past all that is on the tensors' streams now; reached if none of them is a GPU's.
  engine::Fence fence() const;

 private:
  const World& world_;
  std::vector<std::uintptr_t> streams_;  // each once
};

}  // namespace hvd
