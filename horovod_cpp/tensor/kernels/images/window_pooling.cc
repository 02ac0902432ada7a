#include "horovod_cpp/tensor/kernels/images/images.h"

#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::kernels {
namespace {

std::int64_t planes_of(const Shape& shape) {
  return shape[0] * shape[1];
}

Shape pooled_shape(const Shape& shape, const Spans& rows, const Spans& columns) {
  return {shape[0], shape[1], static_cast<std::int64_t>(rows.size()),
          static_cast<std::int64_t>(columns.size())};
}

// Calls `visit(row, column, output)` for every window; `output` counts from 0.
template <typename Visit>
void for_each_window(const Spans& rows, const Spans& columns, Visit visit) {
  std::int64_t output = 0;
  for (const Span& row : rows) {
    for (const Span& column : columns) visit(row, column, output++);
  }
}

template <typename T>
std::int64_t largest_in(const T* plane, std::int64_t width, const Span& row, const Span& column) {
  std::int64_t best = row.begin * width + column.begin;
  for (std::int64_t y = row.begin; y < row.end; ++y) {
    for (std::int64_t x = column.begin; x < column.end; ++x) {
      const T value = plane[y * width + x];
      const T so_far = plane[best];
      if (value > so_far || (value != value && so_far == so_far)) best = y * width + x;
    }
  }
  return best;
}

template <typename T>
T sum_of(const T* plane, std::int64_t width, const Span& row, const Span& column) {
  T total = 0;
  for (std::int64_t y = row.begin; y < row.end; ++y) {
    for (std::int64_t x = column.begin; x < column.end; ++x) total += plane[y * width + x];
  }
  return total;
}

template <typename T>
T divisor_of(const Span& row, const Span& column) {
  return static_cast<T>(row.extent * column.extent);
}

}  // namespace

Largest window_max(const Tensor& input, const Spans& rows, const Spans& columns) {
  const Tensor in = contiguous(input);
  const Shape shape = pooled_shape(input.shape(), rows, columns);
  const Largest result = {Tensor::empty(shape, input.dtype()), Tensor::empty(shape, DType::kI64)};
  const std::int64_t width = input.size(3);
  const std::int64_t pixels = input.size(2) * width;
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* plane = in.data<T>();
    T* out = result.values.data<T>();
    std::int64_t* index = result.index.data<std::int64_t>();
    for (std::int64_t p = 0; p < planes_of(shape); ++p, plane += pixels) {
      for_each_window(rows, columns, [&](const Span& row, const Span& column, std::int64_t) {
        *index = largest_in(plane, width, row, column);
        *out++ = plane[*index++];
      });
    }
  });
  return result;
}

Tensor window_max_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape) {
  const Tensor g = contiguous(grad);
  Tensor result = Tensor::zeros(input_shape, grad.dtype());
  const std::int64_t outputs = grad.size(2) * grad.size(3);
  const std::int64_t pixels = input_shape[2] * input_shape[3];
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = g.data<T>();
    const std::int64_t* at = index.data<std::int64_t>();
    T* plane = result.data<T>();
    for (std::int64_t p = 0; p < planes_of(input_shape); ++p, plane += pixels) {
      for (std::int64_t i = 0; i < outputs; ++i) plane[*at++] += *in++;
    }
  });
  return result;
}

Tensor window_mean(const Tensor& input, const Spans& rows, const Spans& columns) {
  const Tensor in = contiguous(input);
  Tensor result = Tensor::empty(pooled_shape(input.shape(), rows, columns), input.dtype());
  const std::int64_t width = input.size(3);
  const std::int64_t pixels = input.size(2) * width;
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* plane = in.data<T>();
    T* out = result.data<T>();
    for (std::int64_t p = 0; p < planes_of(input.shape()); ++p, plane += pixels) {
      for_each_window(rows, columns, [&](const Span& row, const Span& column, std::int64_t) {
        *out++ = sum_of(plane, width, row, column) / divisor_of<T>(row, column);
      });
    }
  });
  return result;
}

Tensor window_mean_grad(const Tensor& grad, const Spans& rows, const Spans& columns,
                        const Shape& input_shape) {
  const Tensor g = contiguous(grad);
  Tensor result = Tensor::zeros(input_shape, grad.dtype());
  const std::int64_t width = input_shape[3];
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = g.data<T>();
    T* plane = result.data<T>();
    for (std::int64_t p = 0; p < planes_of(input_shape); ++p, plane += input_shape[2] * width) {
      for_each_window(rows, columns, [&](const Span& row, const Span& column, std::int64_t) {
        const T share = *in++ / divisor_of<T>(row, column);
        for (std::int64_t y = row.begin; y < row.end; ++y) {
          for (std::int64_t x = column.begin; x < column.end; ++x) plane[y * width + x] += share;
        }
      });
    }
  });
  return result;
}

}  // namespace hvd::kernels
