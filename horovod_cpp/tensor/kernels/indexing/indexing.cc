#include "horovod_cpp/tensor/kernels/indexing/indexing.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {
namespace {

using Strides = std::vector<std::int64_t>;

void require_positions(const Tensor& index, const char* function) {
  if (index.dtype() == DType::kI64) return;
  throw InvalidArgumentError(function, ": an index is int64, not ", index.dtype());
}

[[noreturn]] void out_of_range(const char* function, std::int64_t at, std::int64_t extent) {
  throw InvalidArgumentError(function, ": index ", at, " is out of range for an axis of extent ",
                             extent);
}

void check_range(const Tensor& index, std::int64_t extent, const char* function) {
  const std::int64_t* in = index.data<std::int64_t>();
  for_each_row<1>(index.shape(), {index.strides()},
                  [&](const auto& at, std::int64_t n, const auto& step) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      const std::int64_t given = in[at[0] + i * step[0]];
                      if (given < 0 || given >= extent) out_of_range(function, given, extent);
                    }
                  });
}

// Checks the shapes of gather and scatter: `index` reaches no further than `bound`, but along
// `axis` where `free_axis`.
void check_reach(const Tensor& index, const Tensor& bound, std::int64_t axis, bool free_axis,
                 const char* function) {
  bool fits = index.dim() == bound.dim();
  for (std::int64_t i = 0; fits && i < index.dim(); ++i) {
    fits = (free_axis && i == axis) || index.size(i) <= bound.size(i);
  }
  if (fits) return;
  throw InvalidArgumentError(function, ": index ", index.shape(), " does not fit ", bound.shape(),
                             " along axis ", axis);
}

// Visits the elements of `index` with those of `dense`, which lies alike, and of `sparse`, which
// the index moves along `axis`: call(dense offset, sparse offset).
template <typename Call>
void for_each_indexed(const Tensor& index, const Strides& dense, const Tensor& sparse,
                      std::int64_t axis, Call call) {
  Strides moved = sparse.strides();
  const std::int64_t along = moved[static_cast<std::size_t>(axis)];
  moved[static_cast<std::size_t>(axis)] = 0;
  const std::int64_t* positions = index.data<std::int64_t>();
  for_each_row<3>(index.shape(), {index.strides(), dense, moved},
                  [&](const auto& at, std::int64_t n, const auto& step) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      call(at[1] + i * step[1],
                           at[2] + i * step[2] + along * positions[at[0] + i * step[0]]);
                    }
                  });
}

// `a` as [outer, along, inner], `axis` being in the middle.
struct Blocks {
  std::int64_t outer = 1, along = 1, inner = 1;
};

Blocks blocks_of(const Tensor& a, std::int64_t axis) {
  Blocks blocks;
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    (i < axis ? blocks.outer : i == axis ? blocks.along : blocks.inner) *= a.size(i);
  }
  return blocks;
}

std::int64_t check_list(const Tensor& a, std::int64_t axis, const Tensor& index,
                        const char* function) {
  const std::int64_t at = shapes::axis(axis, a.dim(), function);
  require_positions(index, function);
  shapes::require_dim(index, 1, function, "the index");
  check_range(index, a.size(at), function);
  return at;
}

template <typename T>
void add_block(T* out, const T* in, double alpha, std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    isa::table().of<T>().add_scaled(out, in, static_cast<T>(alpha), n);
  } else {
    using Compute = typename compute_type<T>::type;
    const Compute factor = convert<Compute>(alpha);
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = convert<T>(convert<Compute>(out[i]) + factor * convert<Compute>(in[i]));
    }
  }
}

// The slices of `a` along `axis` at the positions of a list, which are within `a`.
Tensor slices_at(const Tensor& a, std::int64_t axis, const Tensor& index) {
  const Tensor dense = contiguous(a);
  const Blocks blocks = blocks_of(a, axis);
  Shape shape = a.shape();
  shape[static_cast<std::size_t>(axis)] = index.numel();
  Tensor result = Tensor::empty(std::move(shape), a.dtype());
  const auto bytes = static_cast<std::size_t>(blocks.inner) * size_of(a.dtype());
  if (bytes == 0) return result;
  const auto* in = static_cast<const std::byte*>(dense.data());
  auto* out = static_cast<std::byte*>(result.data());
  const std::int64_t* positions = index.data<std::int64_t>();
  for (std::int64_t o = 0; o < blocks.outer; ++o) {
    for (std::int64_t i = 0; i < index.numel(); ++i, out += bytes) {
      const std::int64_t row = o * blocks.along + positions[i * index.strides()[0]];
      std::memcpy(out, in + static_cast<std::size_t>(row) * bytes, bytes);
    }
  }
  return result;
}

// Adds alpha times the slices of `source` along `axis`, in order, to those of `sum`, which is
// contiguous, at the positions of a list.
void add_slices(const Tensor& sum, std::int64_t axis, const Tensor& index, const Tensor& source,
                double alpha, const char* function) {
  const Tensor dense = contiguous(source);
  const Blocks blocks = blocks_of(sum, axis);
  const std::int64_t* positions = index.data<std::int64_t>();
  dispatch(sum.dtype(), function, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = dense.data<T>();
    for (std::int64_t o = 0; o < blocks.outer; ++o) {
      for (std::int64_t i = 0; i < index.numel(); ++i, in += blocks.inner) {
        const std::int64_t row = o * blocks.along + positions[i * index.strides()[0]];
        add_block(sum.data<T>() + row * blocks.inner, in, alpha, blocks.inner);
      }
    }
  });
}

// `sum` is the new value of `target`, whose memory it may have.
void keep_sum(const Tensor& target, const Tensor& sum) {
  if (sum.data() == target.data()) {
    bump_version(target);
  } else {
    copy_into(target, sum);
  }
}

}  // namespace

Tensor gather(const Tensor& a, std::int64_t axis, const Tensor& index, const char* function) {
  require_cpu(function, {&a, &index});
  const std::int64_t at = shapes::axis(axis, a.dim(), function);
  require_positions(index, function);
  check_reach(index, a, at, true, function);
  check_range(index, a.size(at), function);
  Tensor result = Tensor::empty(index.shape(), a.dtype());
  dispatch_any(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = a.data<T>();
    T* out = result.data<T>();
    for_each_indexed(index, result.strides(), a, at,
                     [&](std::int64_t to, std::int64_t from) { out[to] = in[from]; });
  });
  return result;
}

void scatter(const Tensor& target, std::int64_t axis, const Tensor& index, const Tensor& source,
             bool add, const char* function) {
  require_cpu(function, {&target, &index, &source});
  const std::int64_t at = shapes::axis(axis, target.dim(), function);
  require_positions(index, function);
  shapes::require_same_dtype(target, source, function);
  check_reach(index, target, at, true, function);
  check_reach(index, source, at, false, function);
  check_range(index, target.size(at), function);
  if (add) require_arithmetic(target.dtype(), function);
  const Tensor positions = apart_from(target, index);
  const Tensor values = apart_from(target, source);
  dispatch_any(target.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = values.data<T>();
    T* out = target.data<T>();
    if (!add) {
      for_each_indexed(positions, values.strides(), target, at,
                       [&](std::int64_t from, std::int64_t to) { out[to] = in[from]; });
    } else if constexpr (!kIsComplex<T> && !std::is_same_v<T, bool>) {
      for_each_indexed(
          positions, values.strides(), target, at,
          [&](std::int64_t from, std::int64_t to) { add_block(out + to, in + from, 1.0, 1); });
    }
  });
  bump_version(target);
}

Tensor index_select(const Tensor& a, std::int64_t axis, const Tensor& index, const char* function) {
  require_cpu(function, {&a, &index});
  return slices_at(a, check_list(a, axis, index, function), index);
}

void index_add(const Tensor& target, std::int64_t axis, const Tensor& index, const Tensor& source,
               double alpha, const char* function) {
  require_cpu(function, {&target, &index, &source});
  require_arithmetic(target.dtype(), function);
  require_whole(alpha, target.dtype());
  shapes::require_same_dtype(target, source, function);
  const std::int64_t at = check_list(target, axis, index, function);
  Shape expected = target.shape();
  expected[static_cast<std::size_t>(at)] = index.numel();
  if (source.shape() != expected) {
    throw InvalidArgumentError(function, ": source ", source.shape(), " where ", expected,
                               " is added");
  }
  const Tensor sum = contiguous(is_half(target.dtype()) ? to(target, DType::kF32) : target);
  add_slices(sum, at, index, to(source, sum.dtype()), alpha, function);
  keep_sum(target, sum);
}

Tensor flat_nonzero(const Tensor& a) {
  require_cpu("nonzero", {&a});
  const Tensor mask = contiguous(to(a, DType::kBool));
  const bool* in = mask.data<bool>();
  const std::int64_t count = std::count(in, in + mask.numel(), true);
  Tensor result = Tensor::empty({count}, DType::kI64);
  std::int64_t* out = result.data<std::int64_t>();
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    if (in[i]) *out++ = i;
  }
  return result;
}

Tensor flat_positions(const std::vector<Tensor>& indices, const Shape& extents,
                      const char* function) {
  for (const Tensor& index : indices) require_cpu(function, {&index});
  Shape shape;
  for (const Tensor& index : indices) {
    require_positions(index, function);
    shape = shapes::broadcast(shape, index.shape(), function);
  }
  Tensor result = Tensor::zeros(shape, DType::kI64);
  std::int64_t* out = result.data<std::int64_t>();
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const std::int64_t* in = indices[axis].data<std::int64_t>();
    const std::int64_t extent = extents[axis];
    for_each_row<2>(
        shape,
        {result.strides(), shapes::broadcast_strides(indices[axis].shape(), indices[axis].strides(),
                                                     shape, function)},
        [&](const auto& at, std::int64_t n, const auto& step) {
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t given = in[at[1] + i * step[1]];
            if (given < -extent || given >= extent) out_of_range(function, given, extent);
            std::int64_t& position = out[at[0] + i * step[0]];
            position = position * extent + (given < 0 ? given + extent : given);
          }
        });
  }
  return result;
}

Tensor gather_rows(const Tensor& table, const Tensor& rows) {
  return slices_at(table, 0, rows);
}

void add_rows(const Tensor& table, const Tensor& rows, const Tensor& values) {
  if (values.numel() == 0) return;
  const Tensor sum = contiguous(table);
  add_slices(sum, 0, rows, values, 1.0, "add_rows");
  keep_sum(table, sum);
}

}  // namespace hvd::kernels
