#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/isa.h"
#include "core/ports/collective.h"
#include "ops/host/byte_sequence.h"

// Adasum of two vectors (Maleki et al., "Scaling Distributed Training with Adaptive Summation",
// 2020): adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b. Orthogonal vectors are
// added, equal ones averaged; zeros are the neutral element. Of more vectors it is a tree of pairs.
// A vector is one tensor: tensors of one batch have products and weights of their own. dtypes are
// f16, bf16, f32 and f64, else InvalidArgumentError.
namespace hvd::engine::host {

// Inner products of two vectors, or of a range of them: those of the ranges add up to those of the
// vectors.
struct AdasumProducts {
  double ab = 0;
  double aa = 0;
  double bb = 0;

  AdasumProducts& operator+=(const AdasumProducts& other);
};

// Accumulated in f64; the same bits on every CPU, but a vector's bits depend on how it is divided.
AdasumProducts adasum_products(DType dtype, const void* a, const void* b, std::int64_t numel,
                               Isa isa = best_isa());

struct AdasumWeights {
  double a = 1;
  double b = 1;
};

// A vector whose squared norm is 0 (or no normal f64) has weight 1. Where an element is infinite or
// NaN a weight is NaN.
AdasumWeights adasum_weights(const AdasumProducts& whole);

// out = weights.a * a + weights.b * b, in f64, rounded to f32 and from there to a half (f64: not
// rounded). `out` may be exactly a or b and must not overlap them otherwise.
void adasum_combine(DType dtype, const void* a, const void* b, AdasumWeights weights, void* out,
                    std::int64_t numel, Isa isa = best_isa());

// One node of the tree: the vector of `left` becomes adasum(left, right); `right` is done.
struct AdasumPair {
  int left = 0;
  int right = 0;

  friend bool operator==(const AdasumPair&, const AdasumPair&) = default;
};

// The tree over ranks 0 to size - 1 by levels, from the leaves: at level k ranks that are multiples
// of 2^(k+1) are paired with the one 2^k further; one without a partner waits for a later level. In
// the end rank 0 has the result. For a power of two these are Horovod's pairs.
std::vector<std::vector<AdasumPair>> adasum_levels(int size);

// postscale * (Adasum of prescale * inputs) of one tensor, by the tree, each node rounded to
// `dtype`. `out` may be one of the inputs. Throws InvalidArgumentError without inputs.
void adasum(DType dtype, std::span<const void* const> inputs, void* out, std::int64_t numel,
            double prescale, double postscale);

// Adasum of a batch, made of other operations of a Collective: each rank gets a range of every
// rank's vectors and combines those by the tree. At each level the ranks exchange their
// parts of the inner products and add them in rank order, so that all use the same weights. The
// batch moves in one piece, because the weights of a tensor depend on all of it.
class AdasumOperation final : public Operation {
 public:
  // Starts all its operations at once, in one order on all ranks, and advances each when the one
  // before is finished: requires a Collective that touches no memory before the first advance().
  // Slices or, where each rank keeps its part of the same bits, ScatterSlices, of one floating
  // dtype; `ready` is what their inputs wait for.
  template <typename Slices>
  AdasumOperation(Collective& collective, Rank rank, int size, std::vector<Fence> ready,
                  const Slices& slices, const Reduction& reduction)
      : rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        ready_(std::move(ready)),
        reduction_(reduction),
        levels_(adasum_levels(size)) {
    for (const auto& slice : slices) add(slice);
    start(collective);
  }

  bool advance() override;
  bool withdraw() noexcept override;
  OperationStats stats() const override { return stats_; }

 private:
  // A region of the result that this rank keeps.
  struct Kept {
    std::size_t offset = 0;  // bytes from the start of the batch
    TensorView output;
  };

  void add(const Slice& slice) { add(slice.input, 0, slice.output); }
  void add(const ScatterSlice& slice);
  void add(const TensorView& input, std::size_t kept_from, const TensorView& output);
  void start(Collective& collective);
  void pack();
  void multiply();
  void combine();
  void keep();

  // The range of elements that `rank` combines.
  std::size_t begin(std::size_t rank) const { return begins_.back() * rank / size_; }
  std::size_t bytes_of(std::size_t rank) const;
  std::byte* vector(int rank) const;
  void scale(std::byte* data, std::size_t bytes, double factor) const;
  template <typename Visit>
  void for_each_range(Visit visit) const;

  const std::size_t rank_;
  const std::size_t size_;
  std::vector<Fence> ready_;
  const Reduction reduction_;
  const std::vector<std::vector<AdasumPair>> levels_;
  DType dtype_ = DType::kF32;
  std::vector<std::size_t> begins_{0};  // of the tensors, in elements, and the end of the last one
  ByteSequence input_;
  std::vector<Kept> kept_;
  OperationStats stats_;

  Buffer packed_;                         // this rank's batch
  Buffer vectors_;                        // this rank's range, of all ranks
  std::vector<AdasumProducts> products_;  // by pair and tensor
  std::vector<AdasumProducts> all_products_;
  Buffer result_;
  // Scatter, one exchange of products per level, gather. Last: they use the rest.
  std::vector<std::unique_ptr<Operation>> operations_;
  std::size_t finished_ = 0;  // operations
  std::size_t level_ = 0;     // whose products are exchanged next
  bool is_packed_ = false;
};

}  // namespace hvd::engine::host
