#include "core/runtime/solo_engine.h"

#include <utility>

namespace hvd {

SoloEngine::SoloEngine(std::unique_ptr<ControlPlane> control,
                       std::vector<std::unique_ptr<Collective>> collectives,
                       std::vector<std::unique_ptr<Observer>> observers)
    : control_(std::move(control)),
      collectives_(std::move(collectives)),
      observers_(std::move(observers)),
      executor_(collectives_, control_->topology(), table_, observers_, control_->doorbell()) {}

std::vector<Handle> SoloEngine::submit(std::vector<Submission> submissions) {
  auto handles = table_.add(std::move(submissions));
  const MutexLock turn(turn_);
  // Another thread may have run what this one added: then its handles are done already.
  for (const InFlightPtr& entry : table_.take_added()) run(*entry);
  return handles;
}

void SoloEngine::shutdown() {
  const MutexLock turn(turn_);
  stop({StatusCode::kAborted, "this rank has shut down"});
}

void SoloEngine::run(const InFlight& entry) {
  const Request& request = entry.submission.request;
  try {
    entry.submission.ready.wait();  // there is nobody else to keep waiting
  } catch (const Error& error) {
    stop(error.status());
    return;
  }
  observers_.submitted(request.name);
  Doorbell& bell = control_->doorbell();
  executor_.run({.number = ++batches_,
                 .kind = request.kind,
                 .dtype = request.dtype,
                 .device = request.device,
                 .op = request.op,
                 .root = request.root,
                 .bytes = request.bytes(),
                 .members = {{.ticket = entry.ticket}}});
  while (executor_.busy()) {
    const auto seen = bell.rings();
    if (executor_.advance()) continue;
    bell.wait_until(seen, Clock::now() + std::chrono::seconds(1));
  }
  while (executor_.next_finished()) {
  }
  if (!executor_.failure().ok()) stop(executor_.failure());
}

void SoloEngine::stop(const Status& why) {
  for (const InFlightPtr& entry : table_.close(why)) {
    observers_.failed(entry->name(), why);
    entry->completion.finish(why);
  }
}

}  // namespace hvd
