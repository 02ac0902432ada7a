#pragma once

#include <map>

#include "core/base/thread_annotations.h"
#include "ops/cuda/module_streams.h"
#include "ops/cuda/stream.h"

namespace hvd {

class CallerStreams final : public CudaStreams {
 public:
  Fence record(int device, std::uintptr_t stream) override;
  void wait(int device, std::uintptr_t stream, const Fence& fence) override;
  std::uintptr_t own(int device) override;

 private:
  Mutex mutex_;
  std::map<int, CudaStream> own_ HVD_GUARDED_BY(mutex_);  // by device
};

}  // namespace hvd
