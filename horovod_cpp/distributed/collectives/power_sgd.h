#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "horovod_cpp/distributed/collectives/compression.h"

namespace hvd {

// PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: practical low-rank gradient compression for
// distributed optimization", NeurIPS 2019): a tensor, seen as a matrix M of shape[0] rows, is
// reduced as P Q^T with `rank` columns. One step of a power iteration, started where the last one
// ended: P = M Q is reduced and made orthonormal, then Q = M^T P is reduced. What P Q^T of this
// rank lost is added to its next tensor (error feedback). Exact when `rank` is at least that of the
// matrix, up to rounding.
//
// float32 and float64 tensors of two or more axes for which P and Q together have at most half of
// the elements; others travel as they are. The first Q is random, from the tensor's name: equal on
// every rank and in every run.
class PowerSgd final : public Compressor {
 public:
  // Throws InvalidArgumentError unless rank > 0.
  explicit PowerSgd(int rank);

  std::string name() const override;
  std::shared_ptr<TensorCompressor> for_tensor(const std::string& name, const Shape& shape,
                                               DType dtype) override;

 private:
  std::int64_t rank_;
};

}  // namespace hvd
