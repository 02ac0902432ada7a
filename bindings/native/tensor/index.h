#pragma once

#include "bindings/native/bindings.h"

namespace hvd::python {

// NumPy's basic indexing: integers, slices of step 1, None, Ellipsis and tuples of them. The result
// is a view. Throws IndexError out of range, TypeError on other kinds of index.
Tensor index_tensor(const Tensor& tensor, const IndexLike& index);

// tensor[index] = value: a number, or a Tensor or array that broadcasts.
void assign_index(Tensor& tensor, const IndexLike& index,
                  const Typed<"ArrayLike | int | float | bool">& value);

}  // namespace hvd::python
