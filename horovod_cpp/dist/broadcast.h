#pragma once

#include <memory>
#include <string>

#include "core/base/bytes.h"
#include "horovod_cpp/dist/world.h"
#include "horovod_cpp/optim/optimizer.h"
#include "horovod_cpp/tensor/named_tensors.h"

// What ranks must share before they train. All of these are collective and block. All ranks must
// pass the same names, shapes and dtypes: where shapes or dtypes differ, MismatchError on every
// rank; a name that some ranks lack is reported as a stall. `world` is the one of init() unless
// given.
namespace hvd {

// Overwrites every tensor with the root's values.
void broadcast_parameters(const NamedTensors& state, int root_rank = 0,
                          const std::shared_ptr<World>& world = nullptr);

// Makes options (learning rates and so on) and state tensors those of the root: missing state is
// created, surplus state is dropped. Takes no step; the root's state is only read. Throws
// InvalidArgumentError on every rank when the parameter groups do not fit the root's.
void broadcast_optimizer_state(optim::Optimizer& optimizer, int root_rank = 0,
                               const std::shared_ptr<World>& world = nullptr);

// The root's bytes on every rank; what other ranks pass is ignored.
Bytes broadcast_object(Bytes object, int root_rank = 0, const std::string& name = "",
                       const std::shared_ptr<World>& world = nullptr);

}  // namespace hvd
