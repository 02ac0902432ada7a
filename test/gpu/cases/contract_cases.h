#pragma once

#include <memory>
#include <vector>

#include "core/ports/collective.h"
#include "test/support/collective_contract.h"

// What the contract of the port (test/support/collective_contract.h) needs to run over CUDA memory.
namespace hvd::engine::test {

// A Collective of host memory in front of one of CUDA memory: what goes in is copied to memory of
// the device, what comes out is copied back when an operation is finished. An arena has a copy on
// the host; slices in it are copied with the padding behind them, which must come back as it was.
// `rank`: this one's, in `inner`.
std::unique_ptr<Collective> on_device(std::unique_ptr<Collective> inner, Rank rank);

// What `nccl` refuses as unsupported (the cases of nccl_reduction_test.cc, transfers), `host` does.
std::unique_ptr<Collective> or_on_host(std::unique_ptr<Collective> nccl,
                                       std::unique_ptr<Collective> host);

// The cases except three: NCCL wants operations of all sets in one order on all ranks, which the
// engine gives it (Executor::lane_of); all ranks have to stay until a communicator of theirs is
// made; and it scales halves as halves, where the host does in f32.
std::vector<CollectiveCase> nccl_contract();

}  // namespace hvd::engine::test
