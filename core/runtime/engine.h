#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/negotiate/rank_protocol.h"
#include "core/runtime/handle.h"
#include "core/runtime/process_set.h"
#include "core/runtime/submission.h"

namespace hvd {

// What stands behind a Runtime; the calls have its contracts.
class Engine {
 public:
  virtual ~Engine() = default;
  // All or none; moves from them. As many handles as submissions.
  virtual void submit(std::span<Submission> submissions, std::span<Handle> handles) = 0;
  virtual Handle submit(PointToPoint transfer) = 0;
  virtual const SetRegistry& sets() const = 0;
  virtual void expect_wait_for_root(Duration wait) = 0;
  virtual void change_settings(std::function<void(NegotiationSettings&)> change) = 0;
  virtual void on_look(std::function<std::string()> where) = 0;
  virtual void on_stall(std::function<void(const std::string&)> report) = 0;
  virtual void shutdown() = 0;
  virtual Status stopped() const = 0;
  virtual bool ended_in_error() const = 0;
};

}  // namespace hvd
