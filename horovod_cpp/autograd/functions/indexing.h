#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// Reading and writing at positions that int64 tensors give, or masks. A position outside its axis
// throws InvalidArgumentError naming the function, the position and the extent; only index() takes
// negative ones. All are differentiable in what is read and written, not in the positions. Results
// are new.
namespace hvd {

// out[i][j] = a[index[i][j]][j] for axis 0, and so on for others. `index` has as many axes as `a`
// and, but along `axis`, reaches no further.
Tensor gather(const Tensor& a, std::int64_t axis, const Tensor& index);
// A copy of `a` with out[index[i][j]][j] = source[i][j], or += source[i][j]. `source` reaches as
// far as `index` at least. Of several writes to one element the last in row-major order stays.
Tensor scatter(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);
Tensor scatter_add(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);

// The same in `a` itself. Not recorded: throws InvalidArgumentError where `a` or `source` requires
// grad, outside no_grad.
void scatter_(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);
void scatter_add_(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);

// The slices at index[0], index[1], ... along an axis; `index` has one axis.
Tensor index_select(const Tensor& a, std::int64_t axis, const Tensor& index);
// A copy of `a` with alpha * source's slice i added to the slice at index[i].
Tensor index_add(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha = 1.0);

// NumPy's indexing with arrays: indices[i] picks along axis i, all of an axis where it is undefined
// or left out. int64 indices broadcast against each other; a bool one stands for the positions of
// its true elements, one index for each of its axes. The axes that were picked from are replaced by
// those of the (broadcast) indices, in place where they are neighbours, else in front.
Tensor index(const Tensor& a, const std::vector<Tensor>& indices);
// Writes `values`, which broadcasts, at those positions; adds instead if `accumulate`. In place;
// not recorded: throws InvalidArgumentError where `a` or `values` requires grad, outside no_grad.
void index_put_(const Tensor& a, const std::vector<Tensor>& indices, const Tensor& values,
                bool accumulate = false);

// The elements where the mask (bool, both broadcast) is true, in row-major order; one axis.
Tensor masked_select(const Tensor& a, const Tensor& mask);
// Positions of the elements that are not 0, int64 [count, axes], in row-major order.
Tensor nonzero(const Tensor& a);
// int64 classes of any shape -> int64 [..., classes], 1 at each class. -1: the largest plus one.
Tensor one_hot(const Tensor& classes, std::int64_t class_count = -1);

}  // namespace hvd
