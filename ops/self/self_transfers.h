#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/ports/fence.h"

namespace hvd {

// One end of a transfer of a rank to itself.
struct SelfTransfer {
  TensorView tensor;
  int tag = 0;
  bool sends = false;
  std::vector<Fence> ready;  // to be reached before its memory is touched
  bool over = false;         // copied or failed
  Status error;              // once over
};

using SelfTransferPtr = std::shared_ptr<SelfTransfer>;

// Sends and receives of one rank: of each tag the n-th with the n-th.
class SelfTransfers {
 public:
  // Takes its place among those of its tag.
  void post(const SelfTransferPtr& transfer);
  // Copies what can be copied now. True when `transfer` is over; throws MismatchError when its two
  // ends differ.
  bool serve(SelfTransfer& transfer);
  // As if it had not been posted; its memory is not touched any more.
  void withdraw(const SelfTransferPtr& transfer);

 private:
  struct Line {
    std::deque<SelfTransferPtr> sends;
    std::deque<SelfTransferPtr> receives;
  };

  std::map<int, Line> lines_;  // by tag
};

}  // namespace hvd
