#include "ops/mpi/environment.h"

#include <csignal>
#include <cstdlib>
#include <string>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/config/log.h"
#include "core/system/engine_thread.h"
#include "core/system/interruptible_waits.h"

namespace hvd::engine {
namespace {

constexpr std::chrono::microseconds kProbe{100};  // between looks at a starting communicator

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw PeerLostError(std::string(call) + ": " + std::string(text, static_cast<size_t>(length)));
}

MpiEnvironment& MpiEnvironment::instance() {
  static auto* environment = new MpiEnvironment;  // never destroyed: its thread may be inside MPI
  return *environment;
}

void MpiEnvironment::initialise(TimePoint deadline, bool serialized) {
  throw_if_forked(generation_);
  std::lock_guard entry(entry_);
  int finalized = 0;
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized != 0) {
    throw UnsupportedError("MPI was finalized in this process and cannot be initialised again");
  }
  if (failed_) {
    throw UnsupportedError(
        "MPI failed in this process and cannot be used again; start a new process");
  }
  if (world_ != MPI_COMM_NULL) return;
  int initialised = 0;
  check_mpi(MPI_Initialized(&initialised), "MPI_Initialized");
  if (initialised == 0) start_thread(deadline, serialized);
  read_thread_level(serialized);
  world_ = duplicate(MPI_COMM_WORLD, deadline);
}

void MpiEnvironment::start_thread(TimePoint deadline, bool serialized) {
  thread_ = start_engine_thread(
      [this, wanted = serialized ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE] {
        int provided = MPI_THREAD_SINGLE;
        // Open MPI prints a stack at abort(), which pushes the text of an uncaught exception away.
        struct sigaction at_abort {};
        sigaction(SIGABRT, nullptr, &at_abort);
        const int code = MPI_Init_thread(nullptr, nullptr, wanted, &provided);
        sigaction(SIGABRT, &at_abort, nullptr);
        std::unique_lock lock(mutex_);
        init_code_ = code;
        initialised_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return finalize_; });
        lock.unlock();
        MPI_Finalize();
        lock.lock();
        finalized_ = true;
        changed_.notify_all();
      });
  if (!await_start(deadline)) {
    failed_ = true;
    thread_.detach();
    InterruptibleWaits::look();
    throw StalledError(
        "MPI_Init_thread did not return before the start timeout (HOROVOD_START_TIMEOUT): some "
        "rank of this job has not called init()");
  }
  check_mpi(init_code_, "MPI_Init_thread");  // constant by now
  std::atexit([] { instance().finalize_at_exit(); });
}

// False at the deadline, or when the program ends the wait.
bool MpiEnvironment::await_start(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  while (!initialised_ && Clock::now() < deadline && !InterruptibleWaits::ended()) {
    changed_.wait_until(lock, InterruptibleWaits::look_before(deadline));
  }
  return initialised_;
}

void MpiEnvironment::read_thread_level(bool serialized) {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  concurrent_ = level == MPI_THREAD_MULTIPLE;
  if (concurrent_ || serialized) return;
  log(LogLevel::kWarning,
      "this MPI does not offer MPI_THREAD_MULTIPLE: do not call MPI yourself while horovod_cpp "
      "is initialised");
}

MPI_Comm MpiEnvironment::duplicate(MPI_Comm from, TimePoint deadline) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(from, &copy, &request), "MPI_Comm_idup");
  for (int done = 0; done == 0;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) break;
    if (Clock::now() >= deadline || InterruptibleWaits::ended()) {
      failed_ = true;
      InterruptibleWaits::look();
      throw StalledError(
          "the ranks did not meet before the start timeout (HOROVOD_START_TIMEOUT): some rank of "
          "this job has not called init()");
    }
    std::this_thread::sleep_for(kProbe);
  }
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

MPI_Comm MpiEnvironment::duplicate(TimePoint deadline) {
  const MPI_Comm copy = duplicate(world_, deadline);
  ++in_use_;
  return copy;
}

void MpiEnvironment::release(MPI_Comm communicator) noexcept {
  if (failed_) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || MPI_Comm_free(&communicator) != MPI_SUCCESS) failed_ = true;
  --in_use_;
}

void MpiEnvironment::finalize_at_exit() noexcept {
  if (fork_generation() != generation_) return;  // our thread is in the parent
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (failed_ || ended_in_error_ || in_use_ != 0 || finalized != 0) {
    thread_.detach();
    return;
  }
  std::unique_lock lock(mutex_);
  finalize_ = true;
  changed_.notify_all();
  const bool done = changed_.wait_for(lock, kMpiFinalizeLimit, [this] { return finalized_; });
  lock.unlock();
  if (done) {
    thread_.join();
    return;
  }
  thread_.detach();
  log(LogLevel::kWarning, "leaving without MPI_Finalize: another rank did not reach it");
}

}  // namespace hvd::engine
