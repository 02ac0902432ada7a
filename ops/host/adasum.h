#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/isa.h"

// Adasum of two vectors (Maleki et al., "Scaling Distributed Training with Adaptive Summation",
// 2020): adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b. Orthogonal vectors are
// added, equal ones averaged; zeros are the neutral element. Of more vectors it is a tree of pairs.
// A vector is one tensor: tensors of one batch have products and weights of their own. dtypes are
// f16, bf16, f32 and f64, else InvalidArgumentError.
namespace hvd::host {

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
// of 2^(k+1) are paired with the one 2^k further; who has none waits for a later level. In the end
// rank 0 has the result. For a power of two these are Horovod's pairs.
std::vector<std::vector<AdasumPair>> adasum_levels(int size);

// postscale * (Adasum of prescale * inputs) of one tensor, by the tree, each node rounded to
// `dtype`. `out` may be one of the inputs. Throws InvalidArgumentError without inputs.
void adasum(DType dtype, std::span<const void* const> inputs, void* out, std::int64_t numel,
            double prescale, double postscale);

}  // namespace hvd::host
