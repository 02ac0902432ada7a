#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/negotiate/request.h"

namespace hvd {

// One fused batch as an observer sees it; valid during the call.
struct BatchInfo {
  std::uint64_t number = 0;  // counts batches, equal on all ranks
  CollectiveKind kind = CollectiveKind::kAllreduce;
  DType dtype = DType::kF32;
  // Of the tensors (allgather: of what this rank contributes), alignment gaps left out.
  std::size_t bytes = 0;
  std::vector<std::string_view> names;
};

// Watches one Runtime: timeline, metrics. Calls come one at a time, on the coordinator thread (a
// world of one: on the submitting thread), must not throw and must not call the Runtime. The life
// of a name is submitted -> negotiated -> started -> finished; failed may end it at any point.
class Observer {
 public:
  virtual ~Observer() = default;

  // This rank announced the name to the others.
  virtual void submitted(std::string_view name) = 0;
  // All ranks announced these names; the batch waits for its turn.
  virtual void negotiated(const BatchInfo& batch) = 0;
  // Its collective began on this rank.
  virtual void started(const BatchInfo& batch) = 0;
  // Its results are there on this rank.
  virtual void finished(const BatchInfo& batch) = 0;
  virtual void failed(std::string_view name, const Status& why) = 0;
};

}  // namespace hvd
