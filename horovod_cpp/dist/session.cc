#include "horovod_cpp/dist/session.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/base/config.h"
#include "core/base/log.h"
#include "core/runtime/timeline.h"
#include "ops/backends.h"

namespace hvd {
namespace {

struct Session {
  std::mutex mutex;
  std::shared_ptr<World> world;
  bool exit_handler_set = false;
};

// Never destroyed: threads and exit handlers may ask for it until the very end.
Session& session() {
  static auto* instance = new Session;
  return *instance;
}

// The other ranks are connected by now and learn why this one does not come.
std::unique_ptr<Observer> open_timeline(const std::string& path, ControlPlane& control) {
  try {
    return std::make_unique<Timeline>(path);
  } catch (const Error& error) {
    control.abort(error.status());
    throw;
  }
}

std::shared_ptr<World> make_world() {
  const Config config = read_config();
  Ports ports = connect(config);
  std::vector<std::unique_ptr<Observer>> observers;
  if (!config.timeline.empty() && ports.control->topology().rank == 0) {
    observers.push_back(open_timeline(config.timeline, *ports.control));
  }
  return std::make_shared<World>(std::make_unique<Runtime>(
      std::move(ports.control), std::move(ports.collectives), config, std::move(observers)));
}

void at_exit(int status, void*) {
  bool failed = false;
  try {
    failed = status != 0 && is_initialized() && size() > 1;
    // No goodbye from the rank that fails first: those that wait for its data would end before it,
    // and the launcher would name them. They see it end instead.
    if (!failed || !world()->stopped().ok()) shutdown();
  } catch (const std::exception& error) {
    log(LogLevel::kError, std::string("shutdown at exit: ") + error.what());
  }
  if (!failed) return;
  std::fflush(nullptr);
  _exit(status);  // MPI_Finalize would wait for ranks that hang
}

}  // namespace

void init() {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  if (s.world != nullptr) return;
  s.world = make_world();
  if (!s.exit_handler_set) {
    // Set after MPI was initialised, so that it runs before MPI's own handler.
    on_exit(at_exit, nullptr);
    s.exit_handler_set = true;
  }
}

void shutdown() {
  Session& s = session();
  std::shared_ptr<World> leaving;
  {
    const std::lock_guard lock(s.mutex);
    leaving = std::move(s.world);
  }
  if (leaving != nullptr) leaving->shutdown();
}

bool is_initialized() {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  return s.world != nullptr;
}

std::shared_ptr<World> world() {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  if (s.world == nullptr) {
    throw InvalidArgumentError("horovod_cpp is not initialised: call hvd::init() first");
  }
  return s.world;
}

int rank() {
  return world()->topology().rank;
}
int size() {
  return world()->topology().size;
}
int local_rank() {
  return world()->topology().local_rank;
}
int local_size() {
  return world()->topology().local_size;
}
int cross_rank() {
  return world()->topology().cross_rank;
}
int cross_size() {
  return world()->topology().cross_size;
}

}  // namespace hvd
