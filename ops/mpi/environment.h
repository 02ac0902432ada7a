#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/clock.h"
#include "core/system/process.h"

namespace hvd::engine {

// Throws PeerLostError with MPI's text unless `code` is MPI_SUCCESS. Every return code of MPI goes
// through here.
void check_mpi(int code, const char* call);

// MPI in this process. It can be initialised once, so this outlives every Runtime.
//
// If the program initialised MPI, it also finalizes it. Otherwise a thread of ours initialises and,
// when the process exits, finalizes: MPI wants both from one thread, and init() can keep a deadline
// only if it does not wait inside MPI_Init_thread itself. After a failure, or while communicators
// are still in use, nothing is finalized: MPI_Finalize waits for all ranks.
class MpiEnvironment {
 public:
  static MpiEnvironment& instance();

  // Throws StalledError at the deadline, UnsupportedError if MPI was finalized already,
  // AbortedError in a process that was forked from one that had initialised MPI.
  // `serialized`: asks for MPI_THREAD_SERIALIZED rather than MPI_THREAD_MULTIPLE.
  void initialise(TimePoint deadline, bool serialized);
  // MPI may be called from several threads at once.
  bool concurrent() const noexcept { return concurrent_; }
  // Duplicates our private copy of MPI_COMM_WORLD. Collective; throws StalledError at the deadline.
  MPI_Comm duplicate(TimePoint deadline);
  // Frees what duplicate() gave, unless it is too late for that.
  void release(MPI_Comm communicator) noexcept;

  // The job is broken: from now on nothing of ours waits inside MPI. Any thread.
  void note_failure() noexcept { failed_ = true; }
  // `in_error`: ranks of the job may be gone, so that nothing is finalized.
  void job_ended(bool in_error) noexcept { ended_in_error_ = in_error; }

 private:
  MpiEnvironment() = default;
  void start_thread(TimePoint deadline, bool serialized);
  bool await_start(TimePoint deadline);
  void read_thread_level(bool serialized);
  void finalize_at_exit() noexcept;
  MPI_Comm duplicate(MPI_Comm from, TimePoint deadline);

  const std::uint32_t generation_ = fork_generation();

  std::mutex mutex_;  // guards what follows, up to the blank line
  std::condition_variable changed_;
  bool initialised_ = false;  // by our thread
  bool finalize_ = false;     // asks it to finalize
  bool finalized_ = false;    // it has
  int init_code_ = MPI_SUCCESS;

  std::mutex entry_;  // one initialise() at a time
  std::thread thread_;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::atomic<bool> concurrent_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> ended_in_error_{false};
  std::atomic<int> in_use_{0};  // communicators
};

}  // namespace hvd::engine
