#pragma once

#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/message_queue.h"
#include "core/negotiate/messages/message.h"

namespace hvd::engine {

// How the job ends at one rank: who is told, and whose confirmation is still to come.
class Stopping {
 public:
  // The arguments outlive it.
  Stopping(const Tree& tree, MessageQueue& messages)
      : tree_(tree), messages_(messages), awaited_(tree.children) {}

  // This rank leaves, and submits nothing any more. False if it does already.
  bool leave();
  // Throws when this rank may not submit what `name` says.
  void check_submission(const std::string& name) const;

  // To rank 0, if that is another.
  void report(const AbortNotice& notice);
  // Rank 0 tells everybody, another rank its children (rank 0 may be dead).
  void broadcast(const AbortNotice& notice);

  // The job has ended here: nothing is done any more but to wait for the children.
  void stop(const Status& why);
  const std::optional<Status>& stopped() const { return stopped_; }
  // `rank` needs not be waited for: it confirmed the stop, or it is gone.
  void lost(Rank rank);
  // All children confirmed.
  bool finished() const { return stopped_ && awaited_.empty(); }

 private:
  const Tree& tree_;
  MessageQueue& messages_;
  bool leaving_ = false;
  std::optional<Status> stopped_;
  std::vector<Rank> awaited_;  // children that have not confirmed the stop and are not lost
  bool parent_gone_ = false;
};

}  // namespace hvd::engine
