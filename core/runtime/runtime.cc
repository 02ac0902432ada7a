#include "core/runtime/runtime.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/negotiate/messages/request.h"
#include "core/runtime/coordinator.h"
#include "core/system/engine_thread.h"
#include "core/system/interruptible_waits.h"

namespace hvd::engine {
namespace {

UnsupportedError not_served(const std::string& what) {
  return UnsupportedError(what + ": no backend of this job serves the device it is on");
}

}  // namespace

Runtime::Runtime(std::unique_ptr<ControlPlane> control,
                 std::vector<std::unique_ptr<Collective>> collectives, const Config& config,
                 ObserverList observers)
    : topology_(control->topology()) {
  for (const auto& collective : collectives) devices_.push_back(collective->device());
  coordinator_ = std::make_shared<Coordinator>(std::move(control), std::move(collectives), config,
                                               std::move(observers));
  const MutexLock turn(turn_);
  if (topology_.size == 1) return;
  try {
    start_thread();
  } catch (...) {  // the other ranks are connected by now, and learn why this one does not come
    coordinator_->parts().control->abort(current_status());
    throw;
  }
}

Runtime::~Runtime() {
  if (fork_generation() != generation_) {
    // A forked child has neither the thread to join nor a sane state to destroy.
    static_cast<void>(new std::pair(std::move(coordinator_), std::move(thread_)));
    return;
  }
  leave();
  if (!thread_.joinable()) return;
  coordinator_->control().ended() ? thread_.join() : thread_.detach();
}

Coordinator& Runtime::coordinator() const {
  throw_if_forked(generation_);
  return *coordinator_;
}

const SetRegistry& Runtime::sets() const {
  return coordinator().parts().sets;
}

const std::shared_ptr<CallbackQueue>& Runtime::callbacks() const {
  return coordinator().parts().callbacks;
}

Notifier& Runtime::notifier() const {
  return coordinator().parts().notifier;
}

void Runtime::start_thread() {
  thread_ = start_engine_thread([coordinator = coordinator_] { coordinator->run(); });
  has_thread_.store(true, std::memory_order_release);
}

// The table or the transfers have something new, or this rank leaves.
void Runtime::submitted() noexcept {
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
void Runtime::leave() {
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

void Runtime::check_fits(const Submission& submission) const {
  const Request& request = submission.request;
  const SetRegistry& sets = coordinator_->parts().sets;
  const ProcessSetPtr set = sets.find(request.set);
  check(submission, *set, topology_.rank);
  set->failure.throw_if_error();
  if (request.kind == CollectiveKind::kRemoveSet) sets.find(removed_set(request));
  if (runs_batches(request.kind) && !serves(request.device)) {
    throw not_served(readable_name(request.name));
  }
}

void Runtime::check_fits(const PointToPoint& transfer) const {
  check(transfer, topology_.size);
  if (!serves(transfer.tensor.view.device.kind)) throw not_served("transfer");
}

bool Runtime::serves(DeviceKind device) const {
  return std::find(devices_.begin(), devices_.end(), device) != devices_.end();
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
  TensorTable& table = coordinator().parts().table;
  for (Submission& submission : submissions) {
    check_fits(submission);
    arenas_->place(submission);
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  table.add(submissions, handles);
  submitted();
}

Handle Runtime::submit(PointToPoint transfer) {
  Transfers& transfers = coordinator().parts().transfers;
  check_fits(transfer);
  calls_.fetch_add(1, std::memory_order_relaxed);
  Handle handle = transfers.add(std::move(transfer));
  submitted();
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
  return {submit(std::move(submission)), set, device, arenas_};
}

void Runtime::shutdown() {
  static_cast<void>(coordinator());  // throws in a forked child
  leave();
  InterruptibleWaits::look();
}

Status Runtime::stopped() const {
  return coordinator().parts().table.closed();
}

bool Runtime::ended_in_error() const {
  return coordinator().end().in_error();
}

}  // namespace hvd::engine
