#include "horovod_cpp/tensor/isa/compiled.h"

namespace hvd {
namespace isa {
namespace HVD_ISA_NAME {
namespace {

std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}
std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// The outputs [begin, end) whose kernel element `offset` meets the image, not the padding:
// 0 <= out * stride - padding + offset < extent.
struct Range {
  std::int64_t begin, end;
};

Range inside(std::int64_t extent, std::int64_t outputs, std::int64_t offset, std::int64_t stride,
             std::int64_t padding) {
  const std::int64_t first = padding - offset;
  const std::int64_t limit = extent + padding - offset;
  const std::int64_t begin = first <= 0 ? 0 : (first + stride - 1) / stride;
  const std::int64_t end = limit <= 0 ? 0 : (limit + stride - 1) / stride;
  return {smaller(begin, outputs), larger(smaller(end, outputs), smaller(begin, outputs))};
}

template <typename T>
void zero(T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = T(0);
}

// One row of the column matrix: what kernel element (ky, kx) sees of one plane.
template <typename T>
void gather_row(const Window& w, std::int64_t ky, std::int64_t kx, const T* plane, T* row) {
  const Range ys = inside(w.height, w.out_h, ky, w.stride, w.padding);
  const Range xs = inside(w.width, w.out_w, kx, w.stride, w.padding);
  zero(row, ys.begin * w.out_w);
  for (std::int64_t y = ys.begin; y < ys.end; ++y) {
    const T* in = plane + (y * w.stride - w.padding + ky) * w.width - w.padding + kx;
    T* out = row + y * w.out_w;
    zero(out, xs.begin);
    if (w.stride == 1) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) out[x] = in[x];
    } else {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) out[x] = in[x * w.stride];
    }
    zero(out + xs.end, w.out_w - xs.end);
  }
  zero(row + ys.end * w.out_w, (w.out_h - ys.end) * w.out_w);
}

template <typename T>
void scatter_row(const Window& w, std::int64_t ky, std::int64_t kx, const T* row, T* plane) {
  const Range ys = inside(w.height, w.out_h, ky, w.stride, w.padding);
  const Range xs = inside(w.width, w.out_w, kx, w.stride, w.padding);
  for (std::int64_t y = ys.begin; y < ys.end; ++y) {
    T* out = plane + (y * w.stride - w.padding + ky) * w.width - w.padding + kx;
    const T* in = row + y * w.out_w;
    if (w.stride == 1) {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) out[x] += in[x];
    } else {
      for (std::int64_t x = xs.begin; x < xs.end; ++x) out[x * w.stride] += in[x];
    }
  }
}

template <typename T>
void image_to_columns(const Window& w, const T* image, T* columns, std::int64_t ld) {
  for (std::int64_t c = 0; c < w.channels; ++c) {
    for (std::int64_t ky = 0; ky < w.kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < w.kernel_w; ++kx, columns += ld) {
        gather_row(w, ky, kx, image + c * w.height * w.width, columns);
      }
    }
  }
}

template <typename T>
void columns_to_image(const Window& w, const T* columns, std::int64_t ld, T* image) {
  for (std::int64_t c = 0; c < w.channels; ++c) {
    for (std::int64_t ky = 0; ky < w.kernel_h; ++ky) {
      for (std::int64_t kx = 0; kx < w.kernel_w; ++kx, columns += ld) {
        scatter_row(w, ky, kx, columns, image + c * w.height * w.width);
      }
    }
  }
}

template <typename T>
void max_pool(const Window& w, const T* image, T* out, std::int32_t* index) {
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const T* plane = image + c * w.height * w.width;
    for (std::int64_t y = 0; y < w.out_h; ++y) {
      for (std::int64_t x = 0; x < w.out_w; ++x) {
        const std::int64_t corner = y * w.stride * w.width + x * w.stride;
        std::int64_t best = corner;
        for (std::int64_t ky = 0; ky < w.kernel_h; ++ky) {
          for (std::int64_t kx = 0; kx < w.kernel_w; ++kx) {
            const std::int64_t at = corner + ky * w.width + kx;
            if (plane[at] > plane[best] || plane[at] != plane[at]) best = at;
          }
        }
        *out++ = plane[best];
        *index++ = static_cast<std::int32_t>(best);
      }
    }
  }
}

}  // namespace

template <typename T>
void set_windows(Kernels<T>& kernels) {
  kernels.image_to_columns = image_to_columns<T>;
  kernels.columns_to_image = columns_to_image<T>;
  kernels.max_pool = max_pool<T>;
}

template void set_windows(Kernels<float>& kernels);
template void set_windows(Kernels<double>& kernels);

}  // namespace HVD_ISA_NAME
}  // namespace isa
}  // namespace hvd
