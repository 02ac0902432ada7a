#pragma once

#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/optim/optimizer.h"
#include "horovod_cpp/tensor/tensor.h"

// What ranks must share before they train. All of these are collective over the set and block.
// Roots are ranks of the job, also inside a set; one that is not in the set is
// InvalidArgumentError.
namespace hvd {

// Overwrites every tensor with the root's values. Throws MismatchError on every rank, before
// anything was sent, when ranks pass other names, shapes or dtypes, or another order: it names the
// first difference.
void broadcast_parameters(const NamedTensors& state, int root_rank = 0,
                          const ProcessSet& process_set = {});

// What a rank calls instead when something in its state cannot be overwritten, `why`: the others'
// call throws MismatchError with this text. Returns once they know.
void refuse_parameters(const std::string& why, int root_rank = 0,
                       const ProcessSet& process_set = {});

// Makes options (learning rates and so on) and state tensors those of the root: missing state is
// created, surplus state is dropped. Takes no step; the root's state is only read, bit for bit.
// Parameters without state, frozen ones for instance, get none. What a DistributedOptimizer keeps
// for compression is not broadcast. Throws MismatchError on every rank, before anything changed,
// when a rank's parameter groups, options or parameters do not fit the root's.
void broadcast_optimizer_state(optim::Optimizer& optimizer, int root_rank = 0,
                               const ProcessSet& process_set = {});

// The root's bytes on every rank; what other ranks pass is ignored. `name` as in collectives.h.
Bytes broadcast_object(Bytes object, int root_rank = 0, const std::string& name = "",
                       const ProcessSet& process_set = {});

// Every rank's bytes, of any length, in rank order.
std::vector<Bytes> allgather_object(const Bytes& object, const std::string& name = "",
                                    const ProcessSet& process_set = {});

// One rank's misfit is every rank's error, so that none waits for what never comes: throws
// MismatchError on every rank of the set, "<what>: <misfit>", when any rank's misfit is not empty
// (that of the lowest such rank). Collective; blocks.
void agree(const std::string& what, const std::string& misfit, const ProcessSet& process_set);

}  // namespace hvd
