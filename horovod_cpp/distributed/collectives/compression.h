#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/reduction.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Compresses one tensor that is reduced again and again, and keeps what outlives a call: what
// compression lost (error feedback), warm starts. One call takes one or several rounds of
// reductions. Used by one thread at a time: the one that submits the call, then one that waits for
// it.
class TensorCompressor {
 public:
  virtual ~TensorCompressor() = default;

  // At least 1; equal on every rank.
  virtual int rounds() const { return 1; }
  // What the first round reduces in the tensor's place: dense host tensors that nothing else uses,
  // of equal number, shapes and dtypes on every rank. `tensor` must not be written.
  virtual std::vector<Tensor> compress(const Tensor& tensor) = 0;
  // What round 1, 2, ... reduces; `reduced` is the result of the round before.
  virtual std::vector<Tensor> next_round(int round, std::vector<Tensor> reduced);
  // Writes the call's result; `reduced` is the result of the last round. `output` has the tensor's
  // shape and dtype and may be the tensor.
  virtual void decompress(std::vector<Tensor> reduced, const Tensor& output) = 0;
};

// A way to compress tensors; users derive their own from it. All ranks use equal ones.
class Compressor {
 public:
  virtual ~Compressor() = default;

  // For messages: "powersgd(2)".
  virtual std::string name() const = 0;
  // The compressor of one tensor, `name` being equal on all ranks and telling tensors apart; null =
  // it travels as it is. A DistributedOptimizer asks once for each parameter, a collective call at
  // each call. User threads.
  virtual std::shared_ptr<TensorCompressor> for_tensor(const std::string& name, const Shape& shape,
                                                       DType dtype) = 0;
};

// How the tensors of an allreduce travel. With Sum and Average only (InvalidArgumentError); tensors
// of dtypes that a compression does not serve travel as they are.
class Compression {
 public:
  Compression() = default;  // none
  // A user's own.
  Compression(std::shared_ptr<Compressor> compressor) : compressor_(std::move(compressor)) {}
  explicit Compression(WireFormat wire) : wire_(wire) {}

  static Compression none() { return {}; }
  // float32 and float64 as float16 or bfloat16, encoded while they are packed; every addition is
  // made in float32. Out of float16's range (65504) is infinity.
  static Compression fp16() { return Compression(WireFormat::kF16); }
  static Compression bf16() { return Compression(WireFormat::kBF16); }
  // float32 and float64 as blocks of 256 signed bytes and a scale, encoded while they are packed.
  // A DistributedOptimizer adds what was lost to the next gradient (error feedback: Karimireddy et
  // al., "Error feedback fixes SignSGD", 2019); a plain allreduce does not.
  static Compression int8() { return Compression(WireFormat::kInt8); }
  // Matrices as a product of two of `rank` columns, see PowerSgd. Throws
  // InvalidArgumentError unless rank > 0.
  static Compression powersgd(int rank = 2);

  WireFormat wire() const { return wire_; }
  std::shared_ptr<Compressor> compressor() const { return compressor_; }
  bool is_none() const { return wire_ == WireFormat::kNone && compressor_ == nullptr; }
  std::string name() const;

 private:
  WireFormat wire_ = WireFormat::kNone;
  std::shared_ptr<Compressor> compressor_;
};

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
