#pragma once

#include <poll.h>

#include <string>

#include "runner/process.h"

namespace hvd::runner {

// Copies this process's standard input into a pipe, without ever waiting. A terminal is only read
// while this process is in its foreground.
class StdinPump {
 public:
  void connect(UniqueFd to);
  // What poll() should wait for, then call move(); fd -1 when there is nothing to wait for.
  pollfd wanted() const;
  void move();

 private:
  UniqueFd to_;
  std::string waiting_;
  bool at_end_ = false;
};

}  // namespace hvd::runner
