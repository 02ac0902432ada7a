#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "test/bench/gradient_sets.h"

namespace hvd::bench {

// One way to sum a set of tensors over all ranks, in place. It owns the tensors, so that a way may
// put them where it likes; what is measured is reduce() alone.
class Way {
 public:
  virtual ~Way() = default;
  virtual std::span<float> tensor(std::size_t index) = 0;
  virtual void reduce() = 0;
};

struct WayInfo {
  const char* name;
  const char* what;
  std::unique_ptr<Way> (*make)(const GradientSet& sizes);
};

// All there are. A new way is one more entry; engine.py says which of them a target compares.
std::span<const WayInfo> all_ways();

}  // namespace hvd::bench
