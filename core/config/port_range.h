#pragma once

#include <cstdint>

namespace hvd {

// TCP ports of which a listener takes the first free one; {0, 0} = whichever the system chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  friend bool operator==(const PortRange&, const PortRange&) = default;
};

}  // namespace hvd
