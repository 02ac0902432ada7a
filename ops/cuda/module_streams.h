#pragma once

#include <cstdint>

#include "core/ports/fence.h"

namespace hvd::engine {

// Streams of whoever calls, by the handles that DLPack, __cuda_array_interface__ and PyTorch pass
// around: the integer value of a cudaStream_t, of which 0 and 1 are the legacy default stream and 2
// is the calling thread's default stream. Any thread; the host waits for a device only in
// wait() for a fence that is no CUDA event, and in take_back(). All throw PeerLostError with CUDA's
// own text.
class CudaStreams {
 public:
  // A point past everything that is on the stream now.
  virtual Fence record(int device, std::uintptr_t stream) = 0;
  // What is put on the stream from now on runs past `fence`.
  virtual void wait(int device, std::uintptr_t stream, const Fence& fence) = 0;
  // Memory comes back that was handed to whoever works on `stream`: what is put on `to` from now on
  // runs past what is on that stream now. The host waits for the device if the stream is none of
  // the default ones and may be gone by now.
  virtual void take_back(int device, std::uintptr_t to, std::uintptr_t stream) = 0;
  // A stream of this process's own, on which others who hand over memory make it wait for theirs.
  // The same one every time; it lives as long as the process.
  virtual std::uintptr_t own(int device) = 0;

 protected:
  ~CudaStreams() = default;
};

}  // namespace hvd::engine
