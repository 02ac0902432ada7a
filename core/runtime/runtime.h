#pragma once

#include <memory>
#include <vector>

#include "core/base/config.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"
#include "core/negotiate/request.h"
#include "core/runtime/collective.h"
#include "core/runtime/control_plane.h"
#include "core/runtime/fence.h"
#include "core/runtime/handle.h"
#include "core/runtime/observer.h"
#include "core/runtime/submission.h"

namespace hvd {

// One rank of a job: owns the ports and the coordinator thread that serves them. A process may hold
// several (that is how tests get ranks). A world of one rank has no thread and negotiates nothing.
class Runtime {
 public:
  Runtime(std::unique_ptr<ControlPlane> control,
          std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
          std::vector<std::unique_ptr<Observer>> observers = {});
  // Shuts down.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Topology& topology() const noexcept;

  // Any thread; never waits for another rank. Throws InvalidArgumentError on a name that is already
  // in flight or a tensor that does not fit its request, and the reason once the job has stopped.
  Handle submit(Submission submission);
  // All or none of them are submitted.
  std::vector<Handle> submit(std::vector<Submission> submissions);

  // Leaves in order: what is complete on all ranks still runs, the rest fails with AbortedError.
  // Idempotent; returns when this rank may go. Any thread.
  void shutdown();
  // Why the job stopped; ok while it runs.
  Status stopped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvd
