#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/nccl/api.h"

namespace hvd::test {

// An NCCL whose ranks are threads of this process: what one of them enqueues waits on its stream
// (host_cuda.h) for the others, and is computed as on the host, in rank order. Calls are taken as
// NCCL takes those of communicators that do not block: in the background, a few looks later. What
// NCCL would not forgive is noted as a problem: calls that do not belong together, memory that is
// registered on some ranks only or not at one distance from its begin, memory that is freed while
// it is registered. One at a time.
class NcclWorld {
 public:
  NcclWorld();
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  const NcclApi& api() const;
  std::vector<std::string> problems() const;
  // A device without memory for ncclMemAlloc; empty = none is.
  void fill_device(std::optional<int> device);
  // Calls so far of one collective, by name, or of "ncclMemAlloc".
  int calls(const std::string& name) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace hvd::test
