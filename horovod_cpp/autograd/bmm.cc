#include "horovod_cpp/autograd/bmm.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/matmul.h"
#include "horovod_cpp/tensor/kernels/views.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::requires_grad;
using autograd::Saved;

// op(a[i]) x op(b[i]) for every i, op being transposition or nothing.
Tensor products(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b) {
  Tensor result = Tensor::empty(
      {a.size(0), a.size(transpose_a ? 2 : 1), b.size(transpose_b ? 1 : 2)}, a.dtype());
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    kernels::copy_into(kernels::select(result, 0, i),
                       kernels::matmul(kernels::select(a, 0, i), transpose_a,
                                       kernels::select(b, 0, i), transpose_b, "bmm"));
  }
  return result;
}

}  // namespace

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (a.dim() != 3 || b.dim() != 3 || a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
    throw InvalidArgumentError("bmm: shapes " + to_string(a.shape()) + " and " +
                               to_string(b.shape()) + " do not fit");
  }
  Tensor result = products(a, false, b, false);
  if (!autograd::should_record({&a, &b})) return result;
  return autograd::record(std::move(result), "bmm", {edge_to(a), edge_to(b)},
                          [left = Saved(a), right = Saved(b), a_wanted = requires_grad(a),
                           b_wanted = requires_grad(b)](const Tensor& gradient) {
                            std::vector<Tensor> gradients(2);
                            if (a_wanted)
                              gradients[0] = products(gradient, false, right.get("bmm"), true);
                            if (b_wanted)
                              gradients[1] = products(left.get("bmm"), true, gradient, false);
                            return gradients;
                          });
}

}  // namespace hvd
