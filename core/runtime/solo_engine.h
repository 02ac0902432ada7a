#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/runtime/control_plane.h"
#include "core/runtime/engine.h"
#include "core/runtime/executor.h"
#include "core/runtime/observers.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// A world of one rank: no thread and no negotiation; submit() returns handles that are done.
class SoloEngine final : public Engine {
 public:
  SoloEngine(std::unique_ptr<ControlPlane> control,
             std::vector<std::unique_ptr<Collective>> collectives,
             std::vector<std::unique_ptr<Observer>> observers);

  std::vector<Handle> submit(std::vector<Submission> submissions) override;
  void shutdown() override;
  Status stopped() const override { return table_.closed(); }

 private:
  void run(const InFlight& entry) HVD_REQUIRES(turn_);
  void stop(const Status& why) HVD_REQUIRES(turn_);

  std::unique_ptr<ControlPlane> control_;
  std::vector<std::unique_ptr<Collective>> collectives_;
  TensorTable table_;
  // Submitting threads take turns with the ports, which know one thread at a time.
  Mutex turn_;
  std::uint64_t batches_ HVD_GUARDED_BY(turn_) = 0;
  Observers observers_ HVD_GUARDED_BY(turn_);
  Executor executor_ HVD_GUARDED_BY(turn_);  // last: may own a thread
};

}  // namespace hvd
