#include "core/runtime/runtime.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/negotiate/messages/request.h"
#include "core/runtime/coordinator.h"
#include "core/system/engine_thread.h"
#include "core/system/interruptible_waits.h"
#include "core/system/process.h"

namespace hvd {

// The coordinator and who runs it. Among others a rank has a thread for that. One alone can do at
// once whatever is submitted, so those who submit run it, until something is left for later: work
// of a device, a transfer whose other end is to come.
class Runtime::Impl {
 public:
  Impl(std::unique_ptr<ControlPlane> control, std::vector<std::unique_ptr<Collective>> collectives,
       const Config& config, ObserverList observers)
      : topology_(control->topology()) {
    for (const auto& collective : collectives) devices_.push_back(collective->device());
    coordinator_ = std::make_shared<Coordinator>(std::move(control), std::move(collectives), config,
                                                 std::move(observers));
    const MutexLock turn(turn_);
    if (topology_.size > 1) start_thread();
  }
  ~Impl() {
    shutdown();
    if (!thread_.joinable()) return;
    coordinator_->control().ended() ? thread_.join() : thread_.detach();
  }

  bool forked() const noexcept { return fork_generation() != generation_; }
  const Topology& topology() const noexcept { return topology_; }

  Coordinator& coordinator() const {
    throw_if_forked(generation_);
    return *coordinator_;
  }

  // The table or the transfers have something new, or this rank leaves.
  void submitted() noexcept {
    if (!has_thread_.load(std::memory_order_acquire)) {
      const MutexLock turn(turn_);
      if (!has_thread_.load(std::memory_order_relaxed)) {
        if (!coordinator_->run_now()) start_thread();
        return;
      }
    }
    coordinator_->submitted();
  }

  // A coordinator that is stuck inside a port is abandoned: its handles fail here, and it keeps
  // itself and its ports alive until it comes back.
  void shutdown() {
    if (abandoned_) return;
    coordinator_->control().leave();
    submitted();
    if (coordinator_->control().wait_for_end(kStuckLimit, true)) return;
    const Status why(StatusCode::kAborted,
                     InterruptibleWaits::ended()
                         ? "this rank was interrupted while it shut down"
                         : "this rank shut down while its coordinator was stuck inside a port");
    coordinator_->end().abort_ports(why);
    if (coordinator_->control().wait_for_end(kAbortLimit, false)) return;
    abandoned_ = true;
    for (const InFlightPtr& entry : coordinator_->parts().table.close(why)) {
      entry->completion.finish(why);
    }
    coordinator_->parts().transfers.abandon(why);
  }

  void check_fits(const Submission& submission) const {
    const Request& request = submission.request;
    const SetRegistry& sets = coordinator().parts().sets;
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
  void start_thread() HVD_REQUIRES(turn_) {
    thread_ = start_engine_thread([coordinator = coordinator_] { coordinator->run(); });
    has_thread_.store(true, std::memory_order_release);
  }

  void check_device(DeviceKind device, const std::string& what) const {
    if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) return;
    throw UnsupportedError(what + ": no backend of this job serves the device it is on");
  }

  const Topology topology_;
  const std::uint32_t generation_ = fork_generation();
  std::vector<DeviceKind> devices_;
  const std::shared_ptr<ArenaRegistry> arenas_ = std::make_shared<ArenaRegistry>();
  std::shared_ptr<Coordinator> coordinator_;
  std::atomic<bool> abandoned_{false};
  Mutex turn_;  // of those who run a coordinator that has no thread
  std::atomic<bool> has_thread_{false};
  std::thread thread_;
};

Runtime::Runtime(std::unique_ptr<ControlPlane> control,
                 std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                 ObserverList observers)
    : impl_(std::make_unique<Impl>(std::move(control), std::move(collectives), config,
                                   std::move(observers))) {}

Runtime::~Runtime() {
  // A forked child has neither the thread to join nor a sane state to destroy.
  if (impl_->forked()) static_cast<void>(impl_.release());
}

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
  Coordinator& coordinator = impl_->coordinator();
  for (Submission& submission : submissions) {
    impl_->check_fits(submission);
    impl_->arenas()->place(submission);
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  coordinator.parts().table.add(submissions, handles);
  impl_->submitted();
}

Handle Runtime::submit(PointToPoint transfer) {
  Coordinator& coordinator = impl_->coordinator();
  impl_->check_fits(transfer);
  calls_.fetch_add(1, std::memory_order_relaxed);
  Handle handle = coordinator.parts().transfers.add(std::move(transfer));
  impl_->submitted();
  return handle;
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
  return impl_->coordinator().parts().sets.find(set)->ranks;
}

Status Runtime::failure_of(ProcessSetId set) const {
  return impl_->coordinator().parts().sets.find(set)->failure;
}

std::vector<ProcessSetId> Runtime::process_set_ids() const {
  return impl_->coordinator().parts().sets.ids();
}

void Runtime::expect_wait_for_root(Duration wait) {
  impl_->coordinator().expect_wait_for_root(wait);
}

void Runtime::change_settings(std::function<void(NegotiationSettings&)> change) {
  const Rank rank = topology().rank;
  if (rank != 0) {
    throw InvalidArgumentError("the settings of a job are changed on rank 0, not on rank " +
                               std::to_string(rank));
  }
  impl_->coordinator().change_settings(std::move(change));
}

void Runtime::set_location_callback(std::function<std::string()> where) {
  impl_->coordinator().parts().notifier.set_location_callback(std::move(where));
}

void Runtime::on_stall(std::function<void(const std::string&)> report) {
  impl_->coordinator().parts().notifier.on_stall(std::move(report));
}

void Runtime::shutdown() {
  static_cast<void>(impl_->coordinator());  // throws in a forked child
  impl_->shutdown();
  InterruptibleWaits::look();
}

Status Runtime::stopped() const {
  return impl_->coordinator().parts().table.closed();
}

bool Runtime::ended_in_error() const {
  return impl_->coordinator().end().in_error();
}

}  // namespace hvd
