#include "horovod_cpp/distributed/collectives/compression.h"

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/power_sgd.h"

namespace hvd {

std::vector<Tensor> TensorCompressor::next_round(int round, std::vector<Tensor>) {
  throw InternalError("a compressor of " + std::to_string(rounds()) +
                      " rounds does not say what round " + std::to_string(round) + " reduces");
}

Compression Compression::powersgd(int rank) {
  return Compression(std::make_shared<PowerSgd>(rank));
}

std::string Compression::name() const {
  return compressor_ != nullptr ? compressor_->name() : std::string(name_of(wire_));
}

}  // namespace hvd
