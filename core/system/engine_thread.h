#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace hvd::engine {

// While it lives, the calling thread takes no signal that is sent to the process, and threads that
// it starts never do. What a thread does to itself (SIGSEGV and the like) stays unblocked, so that
// crash handlers go on working.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&all, own);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Starts a thread of this library (std::thread or std::jthread; the arguments are its
// constructor's). Signals are for the program's own threads: one that blocks SIGTERM in them, to
// look for it with sigpending() or a signalfd, must not be killed because a thread that it does not
// know of takes it. Throws std::system_error.
template <typename Thread = std::thread, typename... Arguments>
Thread start_engine_thread(Arguments&&... arguments) {
  const SignalsBlocked blocked;
  return Thread(std::forward<Arguments>(arguments)...);
}

}  // namespace hvd::engine
