#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "core/ports/fence.h"

namespace hvd::engine {

// A point in a stream. Waiting sleeps, it does not spin.
class CudaEvent : public Fence::State {
 public:
  // Records the point; the stream may go away before the event does.
  CudaEvent(int device, cudaStream_t stream);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Also when the device failed: then wait() throws.
  bool reached() override;
  void wait() override;
  bool in_stream_order() const override { return true; }
  cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// What is put on the stream later starts past `ready`, and the host does not wait. False, and
// nothing happened, if `ready` is no CUDA event.
bool enqueue_wait(int device, cudaStream_t stream, const Fence& ready);

// A queue of a device's work that does not wait for the default stream.
class CudaStream {
 public:
  explicit CudaStream(int device);
  ~CudaStream();  // what is enqueued still runs
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  int device() const noexcept { return device_; }
  cudaStream_t get() const noexcept { return stream_; }
  // Past everything enqueued so far.
  Fence fence() const;
  // enqueue_wait() on this stream.
  bool wait_for(const Fence& ready) { return enqueue_wait(device_, stream_, ready); }
  // Copies pinned host memory, which stays as it is until the stream has passed, to the device.
  void write(const void* from, void* to, std::size_t bytes);

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace hvd::engine
