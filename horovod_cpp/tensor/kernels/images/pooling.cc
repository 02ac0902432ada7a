#include "horovod_cpp/tensor/kernels/images/images.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::kernels {
namespace {

Shape pooled_shape(const Shape& shape, const Spans& rows, const Spans& columns) {
  return {shape[0], shape[1], static_cast<std::int64_t>(rows.size()),
          static_cast<std::int64_t>(columns.size())};
}

// Calls `visit(row, column)` for every window.
template <typename Visit>
void for_each_window(const Spans& rows, const Spans& columns, Visit visit) {
  for (const Span& row : rows) {
    for (const Span& column : columns) visit(row, column);
  }
}

// With fewer channels than its vectors have lanes max_of_rows() is slower than one plane after the
// other; with as many its list of pixels is small beside the image.
constexpr std::int64_t kManyChannels = 16;

template <typename T>
std::int64_t largest_in(const T* plane, std::int64_t width, const Span& row, const Span& column) {
  std::int64_t best = row.begin * width + column.begin;
  for (std::int64_t y = row.begin; y < row.end; ++y) {
    for (std::int64_t x = column.begin; x < column.end; ++x) {
      const T value = plane[y * width + x];
      if (value > plane[best] || value != value) best = y * width + x;
    }
  }
  return best;
}

// `in` is contiguous.
template <typename T>
void max_of_planes(const Tensor& in, const Spans& rows, const Spans& columns,
                   const Pooled& result) {
  const std::int64_t channels = in.size(1);
  const std::int64_t width = in.size(3);
  const std::int64_t pixels = in.size(2) * width;
  const std::int64_t result_image = channels * std::ssize(rows) * std::ssize(columns);
  const T* plane = in.data<T>();
  T* values = result.values.data<T>();
  std::int32_t* index = result.index.data<std::int32_t>();
  for (std::int64_t p = 0; p < in.size(0) * channels; ++p, plane += pixels) {
    std::int64_t at = p / channels * result_image + p % channels;
    for_each_window(rows, columns, [&](const Span& row, const Span& column) {
      const std::int64_t best = largest_in(plane, width, row, column);
      values[at] = plane[best];
      index[at] = static_cast<std::int32_t>(best);
      at += channels;
    });
  }
}

constexpr std::size_t kPixels = 1 << 15;  // that are listed at once, of one window at least

// `in` is channels last.
template <typename T>
void max_of_columns(const Tensor& in, const Spans& rows, const Spans& columns,
                    const Pooled& result) {
  const std::int64_t channels = in.size(1);
  const std::int64_t width = in.size(3);
  const std::int64_t image = channels * in.size(2) * width;
  const std::int64_t result_image = channels * std::ssize(rows) * std::ssize(columns);
  std::vector<std::int32_t> pixels;  // of some windows
  std::vector<std::size_t> ends;     // where each window's pixels end
  std::int64_t at = 0;               // the first one's result in its image
  const auto compute = [&] {
    for (std::int64_t i = 0; i < in.size(0); ++i) {
      T* out = result.values.data<T>() + i * result_image + at;
      std::int32_t* index = result.index.data<std::int32_t>() + i * result_image + at;
      std::size_t begin = 0;
      for (const std::size_t end : ends) {
        isa::table().of<T>().max_of_rows(in.data<T>() + i * image, channels, &pixels[begin],
                                         static_cast<std::int64_t>(end - begin), out, index);
        begin = end;
        out += channels;
        index += channels;
      }
    }
    at += channels * std::ssize(ends);
    pixels.clear();
    ends.clear();
  };
  for_each_window(rows, columns, [&](const Span& row, const Span& column) {
    for (std::int64_t y = row.begin; y < row.end; ++y) {
      for (std::int64_t x = column.begin; x < column.end; ++x) {
        pixels.push_back(static_cast<std::int32_t>(y * width + x));
      }
    }
    ends.push_back(pixels.size());
    if (pixels.size() >= kPixels) compute();
  });
  compute();
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

Pooled max_pool2d(const Tensor& input, const Spans& rows, const Spans& columns) {
  if (input.size(2) * input.size(3) > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgumentError("max_pool2d: input ", input.shape(), " has over 2^31 - 1 pixels");
  }
  const Shape shape = pooled_shape(input.shape(), rows, columns);
  const Pooled result = {empty_channels_last(shape, input.dtype()),
                         empty_channels_last(shape, DType::kI32)};
  if (!is_half(input.dtype())) {
    dispatch_float(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (shape[1] < kManyChannels) {
        max_of_planes<T>(contiguous(input), rows, columns, result);
      } else {
        max_of_columns<T>(channels_last(input), rows, columns, result);
      }
    });
    return result;
  }
  const Tensor in = channels_last(input);
  for_each_part(in, [&](std::int64_t first, std::int64_t last) {
    const Pooled part = max_pool2d(widened_images(in, first, last), rows, columns);
    put_images(part.values, result.values, first);
    std::copy_n(part.index.data<std::int32_t>(), part.index.numel(),
                result.index.data<std::int32_t>() + first * (result.index.numel() / shape[0]));
  });
  return result;
}

Tensor max_pool2d_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape) {
  const Tensor g = channels_last(grad);
  Tensor result = empty_channels_last(input_shape, grad.dtype());
  if (is_half(grad.dtype())) {
    const std::int64_t image = grad.size(0) == 0 ? 0 : grad.numel() / grad.size(0);
    for_each_part(result, [&](std::int64_t first, std::int64_t last) {
      Shape shape = input_shape;
      shape[0] = last - first;
      const Tensor at = make_view(index, {(last - first) * image}, {1}, first * image);
      put_images(max_pool2d_grad(widened_images(g, first, last), at, shape), result, first);
    });
    return result;
  }
  const std::int64_t channels = input_shape[1];
  const std::int64_t outputs = grad.size(2) * grad.size(3);
  dispatch_float(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = g.data<T>();
    const std::int32_t* at = index.data<std::int32_t>();
    T* to = result.data<T>();
    std::fill_n(to, result.numel(), T(0));
    for (std::int64_t image = 0; image < input_shape[0]; ++image) {
      for (std::int64_t i = 0; i < outputs; ++i, in += channels, at += channels) {
        for (std::int64_t c = 0; c < channels; ++c) to[at[c] * channels + c] += in[c];
      }
      to += input_shape[2] * input_shape[3] * channels;
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
    for (std::int64_t p = 0; p < input.size(0) * input.size(1); ++p, plane += pixels) {
      for_each_window(rows, columns, [&](const Span& row, const Span& column) {
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
    for (std::int64_t p = 0; p < input_shape[0] * input_shape[1];
         ++p, plane += input_shape[2] * width) {
      for_each_window(rows, columns, [&](const Span& row, const Span& column) {
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
