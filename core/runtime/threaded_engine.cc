#include "core/runtime/threaded_engine.h"

#include <utility>

#include "core/base/deadlines.h"
#include "core/base/engine_thread.h"
#include "core/base/interruptible_waits.h"

namespace hvd {

ThreadedEngine::ThreadedEngine(std::shared_ptr<Coordinator> coordinator)
    : coordinator_(std::move(coordinator)),
      thread_(start_engine_thread([coordinator = coordinator_] { coordinator->run(); })) {}

ThreadedEngine::~ThreadedEngine() {
  shutdown();
  if (coordinator_->ended()) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void ThreadedEngine::submit(std::span<Submission> submissions, std::span<Handle> handles) {
  coordinator_->table().add(submissions, handles);
  coordinator_->submitted();
}

Handle ThreadedEngine::submit(PointToPoint transfer) {
  Handle handle = coordinator_->transfers().add(std::move(transfer));
  coordinator_->submitted();
  return handle;
}

void ThreadedEngine::shutdown() {
  if (abandoned_) return;
  coordinator_->leave();
  if (coordinator_->wait_for_end(kStuckLimit, true)) return;
  const Status why(StatusCode::kAborted,
                   InterruptibleWaits::ended()
                       ? "this rank was interrupted while it shut down"
                       : "this rank shut down while its coordinator was stuck inside a port");
  coordinator_->abort_ports(why);
  if (coordinator_->wait_for_end(kAbortLimit, false)) return;
  abandoned_ = true;
  for (const InFlightPtr& entry : coordinator_->table().close(why)) entry->completion.finish(why);
  coordinator_->transfers().abandon(why);
}

}  // namespace hvd
