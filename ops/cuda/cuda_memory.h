#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/ports/collective.h"
#include "ops/cuda/stream.h"

namespace hvd::engine {

// Memory from the pool of cuda_memory(), for what is put on `stream` from now on. Given back with
// the last copy of `owner`, by any thread, and used again past what is then on `users` and on
// DeviceMemory::stream(), which whoever uses the memory on other streams makes wait for them.
// Nothing waits on the host. Throws PeerLostError when there is not enough.
Buffer allocate_in_order(const CudaStream& stream, std::size_t bytes,
                         std::vector<std::shared_ptr<const CudaStream>> users);

}  // namespace hvd::engine
