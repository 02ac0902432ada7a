#pragma once

#include <poll.h>

#include <string>
#include <string_view>

#include "runner/process.h"
#include "runner/wire.h"

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

// Writes to this process's standard output and standard error.
class OutputWriter {
 public:
  // What shows up on `stop` (watch_stop_signals()) ends the wait for a reader that does not read;
  // output is dropped from then on.
  explicit OutputWriter(UniqueFd stop) : stop_(std::move(stop)) {}
  // False when the reader has left.
  bool write(Stream stream, std::string_view text);
  // Whether both streams go to one terminal or file.
  bool one_terminal() const;

 private:
  UniqueFd stop_;
  bool dropping_ = false;
};

}  // namespace hvd::runner
