#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/ports/doorbell.h"
#include "core/runtime/callback_queue.h"

namespace hvd::engine {

// Calls user code for the coordinator, which must never wait for it: it may want a lock that the
// program holds while it waits for the coordinator. Its queue is another one than that of
// Runtime::callbacks(), which therefore goes on meanwhile.
class Notifier {
 public:
  // `bell` rings when an answer is there, and must outlive this.
  explicit Notifier(Doorbell& bell);
  // A thread that is stuck in user code for longer than a second is left behind.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // What to call from now on; any thread. An exception is logged. `where` says where this rank's
  // program is ("train.py:12"), for reports of stalls; it may take locks that the program holds
  // while it waits: an answer that does not come is done without.
  void set_location_callback(std::function<std::string()> where);
  // `report` gets every stall warning, besides the log.
  void on_stall(std::function<void(const std::string&)> report);

  // Asks where the program is. False when it is not known: there is no function, or it has not come
  // back from the last time.
  bool request_location();
  // The location from the last request, once.
  std::optional<std::string> take_location();
  void report(const std::string& text);

 private:
  struct Shared;

  const std::shared_ptr<Shared> shared_;
  CallbackQueue calls_;
};

}  // namespace hvd::engine
