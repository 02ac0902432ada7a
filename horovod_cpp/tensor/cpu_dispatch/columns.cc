#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

// Passes over rows of `columns` elements, where every column has numbers of its own: what
// normalisation and pooling of channels-last images need. Memory bounds them, so that plain loops
// that vectorise are enough.
namespace hvd::isa::HVD_ISA_NAME {
namespace {

constexpr std::int64_t kChunk = 256;  // columns whose sums stay in the first-level cache
constexpr std::int64_t kBlock = 64;   // rows that are summed up in T, before the sum in double

// For each chunk of columns and block of rows: body(first column, columns, first row, last row,
// two arrays of sums), which are then added to `a` and `b`.
template <typename T, typename Body>
void sum_up(std::int64_t rows, std::int64_t columns, double* a, double* b, Body body) {
  T x[kChunk];
  T y[kChunk];
  for (std::int64_t c = 0; c < columns; c += kChunk) {
    const std::int64_t width = columns - c < kChunk ? columns - c : kChunk;
    for (std::int64_t j = 0; j < width; ++j) a[c + j] = b[c + j] = 0.0;
    for (std::int64_t row = 0; row < rows; row += kBlock) {
      for (std::int64_t j = 0; j < width; ++j) x[j] = y[j] = T(0);
      body(c, width, row, rows - row < kBlock ? rows : row + kBlock, x, y);
      for (std::int64_t j = 0; j < width; ++j) {
        a[c + j] += static_cast<double>(x[j]);
        b[c + j] += static_cast<double>(y[j]);
      }
    }
  }
}

template <typename T>
void column_moments(std::int64_t rows, std::int64_t columns, const T* in, double* sums,
                    double* squares) {
  sum_up<T>(rows, columns, sums, squares,
            [&](std::int64_t c, std::int64_t width, std::int64_t row, std::int64_t end,
                T* __restrict s, T* __restrict q) {
              const T* center = in + c;
              for (; row < end; ++row) {
                const T* x = in + row * columns + c;
                for (std::int64_t j = 0; j < width; ++j) {
                  const T d = x[j] - center[j];
                  s[j] += d;
                  q[j] += d * d;
                }
              }
            });
}

template <typename T>
void column_affine(std::int64_t rows, std::int64_t columns, const T* in, const T* scale,
                   const T* shift, bool relu, T* __restrict out) {
  for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
    if (relu) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const T y = in[j] * scale[j] + shift[j];
        out[j] = y < T(0) ? T(0) : y;
      }
    } else {
      for (std::int64_t j = 0; j < columns; ++j) out[j] = in[j] * scale[j] + shift[j];
    }
  }
}

template <typename T>
void column_dots(std::int64_t rows, std::int64_t columns, const T* g, const T* x, const T* center,
                 double* sums, double* dots) {
  sum_up<T>(rows, columns, sums, dots,
            [&](std::int64_t c, std::int64_t width, std::int64_t row, std::int64_t end,
                T* __restrict s, T* __restrict d) {
              for (; row < end; ++row) {
                const T* gradient = g + row * columns + c;
                const T* value = x + row * columns + c;
                for (std::int64_t j = 0; j < width; ++j) {
                  s[j] += gradient[j];
                  d[j] += gradient[j] * (value[j] - center[c + j]);
                }
              }
            });
}

template <typename T>
void column_affine2(std::int64_t rows, std::int64_t columns, const T* a, const T* scale_a,
                    const T* b, const T* scale_b, const T* shift, T* __restrict out) {
  for (std::int64_t row = 0; row < rows; ++row, a += columns, b += columns, out += columns) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out[j] = a[j] * scale_a[j] + b[j] * scale_b[j] + shift[j];
    }
  }
}

// As many columns as fit the widest register. Written with vector types, because g++ 12 makes
// branches, half of them mispredicted, of a choice between a value with its row and another.
constexpr std::int64_t kLanes = 16;
template <typename T>
struct Lanes {
  typedef T Values __attribute__((vector_size(kLanes * sizeof(T))));
  typedef T Loose __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
};

template <typename T>
void max_of_lanes(const T* in, std::int64_t columns, const std::int32_t* rows, std::int64_t count,
                  T* out, std::int32_t* index) {
  using Indices = typename Lanes<std::int32_t>::Values;
  typename Lanes<T>::Values best =
      *reinterpret_cast<const typename Lanes<T>::Loose*>(in + rows[0] * columns);
  Indices at = rows[0] - Indices{};
  for (std::int64_t i = 1; i < count; ++i) {
    const typename Lanes<T>::Values value =
        *reinterpret_cast<const typename Lanes<T>::Loose*>(in + rows[i] * columns);
    const auto wins = (value > best) | (value != value);
    best = wins ? value : best;
    at = __builtin_convertvector(wins, Indices) ? rows[i] - Indices{} : at;
  }
  *reinterpret_cast<typename Lanes<T>::Loose*>(out) = best;
  *reinterpret_cast<typename Lanes<std::int32_t>::Loose*>(index) = at;
}

template <typename T>
void max_of_rows(const T* in, std::int64_t columns, const std::int32_t* rows, std::int64_t count,
                 T* out, std::int32_t* index) {
  const std::int64_t whole = columns - columns % kLanes;
  for (std::int64_t j = 0; j < whole; j += kLanes) {
    max_of_lanes(in + j, columns, rows, count, out + j, index + j);
  }
  for (std::int64_t j = whole; j < columns; ++j) {
    out[j] = in[rows[0] * columns + j];
    index[j] = rows[0];
    for (std::int64_t i = 1; i < count; ++i) {
      const T value = in[rows[i] * columns + j];
      if (!(value > out[j]) && value == value) continue;
      out[j] = value;
      index[j] = rows[i];
    }
  }
}

}  // namespace

template <typename T>
void set_columns(Kernels<T>& kernels) {
  kernels.column_moments = column_moments<T>;
  kernels.column_affine = column_affine<T>;
  kernels.column_dots = column_dots<T>;
  kernels.column_affine2 = column_affine2<T>;
  kernels.max_of_rows = max_of_rows<T>;
}

template void set_columns(Kernels<float>& kernels);
template void set_columns(Kernels<double>& kernels);

}  // namespace hvd::isa::HVD_ISA_NAME
