#include "core/runtime/runtime.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/interruptible_waits.h"
#include "core/base/status.h"
#include "core/negotiate/call_name.h"
#include "core/runtime/fork_guard.h"
#include "core/runtime/solo_engine.h"
#include "core/runtime/threaded_engine.h"

namespace hvd {

class Runtime::Impl {
 public:
  Impl(std::unique_ptr<ControlPlane> control, std::vector<std::unique_ptr<Collective>> collectives,
       const Config& config, ObserverList observers)
      : topology_(control->topology()) {
    for (const auto& collective : collectives) devices_.push_back(collective->device());
    if (topology_.size == 1) {
      engine_ = std::make_unique<SoloEngine>(std::move(control), std::move(collectives), config,
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
    const Request& request = submission.request;
    const SetRegistry& sets = engine().sets();
    const ProcessSetPtr set = sets.find(request.set);
    check(submission, *set, topology_.rank);
    set->failure.throw_if_error();
    if (request.kind == CollectiveKind::kRemoveSet) {
      sets.find(static_cast<ProcessSetId>(request.numbers.front()));
    }
    if (runs_batches(request.kind)) check_device(request.device, readable_name(request.name));
  }

  void check_fits(const PointToPoint& transfer) const {
    check(transfer, topology_.size);
    check_device(transfer.tensor.view.device.kind, "transfer");
  }

  const std::shared_ptr<ArenaRegistry>& arenas() const { return arenas_; }

 private:
  void check_device(DeviceKind device, const std::string& what) const {
    if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) return;
    throw UnsupportedError(what + ": no backend of this job serves the device it is on");
  }

  const Topology topology_;
  const std::uint32_t generation_ = fork_generation();
  std::vector<DeviceKind> devices_;
  const std::shared_ptr<ArenaRegistry> arenas_ = std::make_shared<ArenaRegistry>();
  std::unique_ptr<Engine> engine_;
};

Runtime::Runtime(std::unique_ptr<ControlPlane> control,
                 std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                 ObserverList observers)
    : impl_(std::make_unique<Impl>(std::move(control), std::move(collectives), config,
                                   std::move(observers))) {}

Runtime::~Runtime() = default;

const Topology& Runtime::topology() const noexcept {
  return impl_->topology();
}

Handle Runtime::submit(Submission submission) {
  Handle handle;
  submit({&submission, 1}, {&handle, 1});
  return handle;
}

std::vector<Handle> Runtime::submit(std::vector<Submission> submissions) {
  std::vector<Handle> handles(submissions.size());
  submit(std::span(submissions), std::span(handles));
  return handles;
}

void Runtime::submit(std::span<Submission> submissions, std::span<Handle> handles) {
  Engine& engine = impl_->engine();
  for (Submission& submission : submissions) {
    impl_->check_fits(submission);
    impl_->arenas()->place(submission);
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  engine.submit(submissions, handles);
}

Handle Runtime::submit(PointToPoint transfer) {
  Engine& engine = impl_->engine();
  impl_->check_fits(transfer);
  calls_.fetch_add(1, std::memory_order_relaxed);
  return engine.submit(std::move(transfer));
}

ArenaHandle Runtime::make_arena(const std::string& name, std::size_t bytes, ProcessSetId set,
                                Device device) {
  Submission submission;
  submission.request.name = name;
  submission.request.kind = CollectiveKind::kMakeArena;
  submission.request.dtype = DType::kU8;
  submission.request.device = device.kind;
  submission.request.set = set;
  submission.request.automatic_name = true;
  submission.request.shapes = {{static_cast<std::int64_t>(bytes)}};
  return {submit(std::move(submission)), set, device, impl_->arenas()};
}

std::vector<Rank> Runtime::ranks_of(ProcessSetId set) const {
  return impl_->engine().sets().find(set)->ranks;
}

Status Runtime::failure_of(ProcessSetId set) const {
  return impl_->engine().sets().find(set)->failure;
}

std::vector<ProcessSetId> Runtime::process_set_ids() const {
  return impl_->engine().sets().ids();
}

void Runtime::expect_wait_for_root(Duration wait) {
  impl_->engine().expect_wait_for_root(wait);
}

void Runtime::change_settings(std::function<void(NegotiationSettings&)> change) {
  const Rank rank = topology().rank;
  if (rank != 0) {
    throw InvalidArgumentError("the settings of a job are changed on rank 0, not on rank " +
                               std::to_string(rank));
  }
  impl_->engine().change_settings(std::move(change));
}

void Runtime::on_look(std::function<std::string()> where) {
  impl_->engine().on_look(std::move(where));
}

void Runtime::on_stall(std::function<void(const std::string&)> report) {
  impl_->engine().on_stall(std::move(report));
}

void Runtime::shutdown() {
  impl_->engine().shutdown();
  InterruptibleWaits::look();
}

Status Runtime::stopped() const {
  return impl_->engine().stopped();
}

bool Runtime::ended_in_error() const {
  return impl_->engine().ended_in_error();
}

}  // namespace hvd
