#pragma once

#include <memory>
#include <vector>

#include "core/negotiate/messages/request.h"
#include "core/ports/collective.h"
#include "core/runtime/process_set.h"
#include "core/runtime/tensor_table.h"

namespace hvd {

// Communication memory that is used again once nobody holds it any more. For one thread.
class ScratchMemory {
 public:
  // Aligned to 64 bytes; the contents are what was there before.
  Buffer take(Collective& collective, std::size_t bytes);

 private:
  std::vector<Buffer> buffers_;
};

// What a joined rank brings to a request of the others: the neutral element, or no rows. What it
// gets is written to the same memory, and nobody reads it. `position` is the rank's in the set.
InFlightPtr identity_contribution(const Request& request, const SetMembers& set, Rank position,
                                  Collective& collective, ScratchMemory& scratch);

}  // namespace hvd
