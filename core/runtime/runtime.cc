#include "core/runtime/runtime.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/runtime/fork_guard.h"
#include "core/runtime/solo_engine.h"
#include "core/runtime/threaded_engine.h"

namespace hvd {

class Runtime::Impl {
 public:
  Impl(std::unique_ptr<ControlPlane> control, std::vector<std::unique_ptr<Collective>> collectives,
       const Config& config, std::vector<std::unique_ptr<Observer>> observers)
      : topology_(control->topology()) {
    for (const auto& collective : collectives) devices_.push_back(collective->device());
    if (topology_.size == 1) {
      engine_ = std::make_unique<SoloEngine>(std::move(control), std::move(collectives),
                                             std::move(observers));
    } else {
      engine_ = std::make_unique<ThreadedEngine>(std::make_shared<Coordinator>(
          std::move(control), std::move(collectives), config, std::move(observers)));
    }
  }
  ~Impl() {
    // A forked child has neither the threads to join nor a sane state to destroy.
    if (fork_generation() != generation_) static_cast<void>(engine_.release());
  }

  const Topology& topology() const noexcept { return topology_; }

  Engine& engine() const {
    throw_if_forked(generation_);
    return *engine_;
  }

  void check_fits(const Submission& submission) const {
    check(submission, topology_.size);
    const DeviceKind device = submission.request.device;
    if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) return;
    throw UnsupportedError("tensor '" + submission.request.name +
                           "': no backend of this job serves the device it is on");
  }

 private:
  const Topology topology_;
  const std::uint32_t generation_ = fork_generation();
  std::vector<DeviceKind> devices_;
  std::unique_ptr<Engine> engine_;
};

Runtime::Runtime(std::unique_ptr<ControlPlane> control,
                 std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                 std::vector<std::unique_ptr<Observer>> observers)
    : impl_(std::make_unique<Impl>(std::move(control), std::move(collectives), config,
                                   std::move(observers))) {}

Runtime::~Runtime() = default;

const Topology& Runtime::topology() const noexcept {
  return impl_->topology();
}

Handle Runtime::submit(Submission submission) {
  std::vector<Submission> one;
  one.push_back(std::move(submission));
  return std::move(submit(std::move(one)).front());
}

std::vector<Handle> Runtime::submit(std::vector<Submission> submissions) {
  Engine& engine = impl_->engine();
  for (const Submission& submission : submissions) impl_->check_fits(submission);
  return engine.submit(std::move(submissions));
}

void Runtime::shutdown() {
  impl_->engine().shutdown();
}

Status Runtime::stopped() const {
  return impl_->engine().stopped();
}

}  // namespace hvd
