#include <Eigen/Core>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

// Products of gathered rows, in the manner of Dukhan: "The indirect convolution algorithm" (2019):
// nothing is unrolled into a matrix, each row of the left side is read where it lies. A tile of
// kRows times some registers of the result stays in registers for a whole block of the depth.
namespace hvd::isa::HVD_ISA_NAME {
namespace {

#if defined(__AVX512F__)
constexpr int kRegister = 64;  // bytes
#elif defined(__AVX__)
constexpr int kRegister = 32;
#else
constexpr int kRegister = 16;
#endif

constexpr int kRows = 6;  // of a tile; with four registers each they fill the register file
constexpr int kWide = kRegister == 64 ? 4 : 2;  // registers a row
constexpr std::int64_t kBlock = 128;   // rows that gather_outer copies into the first-level cache
constexpr std::int64_t kAhead = 2048;  // bytes: how far ahead the right side is fetched

template <typename T>
struct Simd {
  typedef T Vec __attribute__((vector_size(kRegister)));
  typedef T Loose __attribute__((vector_size(kRegister), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = kRegister / static_cast<int>(sizeof(T));
};

template <typename T>
constexpr std::int64_t kPanel = kWide* Simd<T>::kLanes;

// The first `n` lanes.
#if defined(__AVX512F__)
inline __m512 load_some(const float* in, std::int64_t n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), in);
}
inline __m512d load_some(const double* in, std::int64_t n) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1U << n) - 1U), in);
}
inline void store_some(float* out, __m512 value, std::int64_t n) {
  _mm512_mask_storeu_ps(out, static_cast<__mmask16>((1U << n) - 1U), value);
}
inline void store_some(double* out, __m512d value, std::int64_t n) {
  _mm512_mask_storeu_pd(out, static_cast<__mmask8>((1U << n) - 1U), value);
}
#else
template <typename T>
typename Simd<T>::Vec load_some(const T* in, std::int64_t n) {
  typename Simd<T>::Vec result = {};
  for (std::int64_t i = 0; i < n; ++i) result[i] = in[i];
  return result;
}
template <typename T, typename Vec>
void store_some(T* out, Vec value, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = value[i];
}
#endif

// `n` elements from `in` on, the rest zero.
template <typename T>
typename Simd<T>::Vec load(const T* in, std::int64_t n) {
  if (n >= Simd<T>::kLanes) return *reinterpret_cast<const typename Simd<T>::Loose*>(in);
  return n <= 0 ? typename Simd<T>::Vec{} : load_some(in, n);
}

template <typename T>
void store(T* out, typename Simd<T>::Vec value, std::int64_t n) {
  if (n >= Simd<T>::kLanes) {
    *reinterpret_cast<typename Simd<T>::Loose*>(out) = value;
  } else if (n > 0) {
    store_some(out, value, n);
  }
}

// Every loop over the accumulators is unrolled and the functions stay functions, or g++ 12 keeps
// the accumulators in memory.
template <typename T, int R, int V>
struct Tile {
  using Vec = typename Simd<T>::Vec;
  static constexpr std::int64_t kLanes = Simd<T>::kLanes;

  // c[rows[i]] = bias + the segments of a[rows[i]] * b for R rows
  __attribute__((noinline)) static void product(const T* a, const std::int64_t* a_rows,
                                                const Segments& segments, const T* b, const T* bias,
                                                T* c, const std::int64_t* c_rows, std::int64_t n) {
    Vec sums[R][V];
    const T* left[R];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      left[r] = a + a_rows[r];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums[r][v] = bias == nullptr ? Vec{} : load(bias + v * kLanes, n - v * kLanes);
      }
    }
    for (std::int64_t s = 0; s < segments.count; ++s) {
      const T* right_row = b + segments.at[s].b * V * kLanes;
      const std::int64_t end = segments.at[s].a + segments.at[s].length;
      for (std::int64_t p = segments.at[s].a; p < end; ++p, right_row += V * kLanes) {
        Vec right[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          const T* from = right_row + v * kLanes;
          if (v * kRegister % 64 == 0) {  // once per line
            __builtin_prefetch(from + kAhead / static_cast<std::int64_t>(sizeof(T)));
          }
          right[v] = *reinterpret_cast<const typename Simd<T>::Loose*>(from);
        }
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
          const T x = left[r][p];
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) sums[r][v] += x * right[v];
        }
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        store(c + c_rows[r] + v * kLanes, sums[r][v], n - v * kLanes);
      }
    }
  }

  // w += sum over i of a[rows[i]]^T y[i], R columns of a
  __attribute__((noinline)) static void outer(std::int64_t count, const T* a,
                                              const std::int64_t* a_rows, const T* y, T* w) {
    Vec sums[R][V];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = load(w + (r * V + v) * kLanes, kLanes);
    }
    for (std::int64_t i = 0; i < count; ++i, y += V * kLanes) {
      const T* left = a + a_rows[i];
      Vec right[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        right[v] = *reinterpret_cast<const typename Simd<T>::Loose*>(y + v * kLanes);
      }
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const T x = left[r];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[r][v] += x * right[v];
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(w + (r * V + v) * kLanes, sums[r][v], kLanes);
    }
  }
};

// Calls body(Tile<T, R, V>) with the R that is asked for.
template <typename T, int V, typename Body>
void with_rows(std::int64_t rows, Body body) {
  switch (rows) {
    case 1:
      return body(Tile<T, 1, V>{});
    case 2:
      return body(Tile<T, 2, V>{});
    case 3:
      return body(Tile<T, 3, V>{});
    case 4:
      return body(Tile<T, 4, V>{});
    case 5:
      return body(Tile<T, 5, V>{});
    default:
      return body(Tile<T, kRows, V>{});
  }
}

template <typename T, int V>
void gather_gemm_panel(const RowPairs& rows, const Segments& segments, std::int64_t n, const T* a,
                       const T* b, const T* bias, T* c) {
  for (std::int64_t i = 0; i < rows.count; i += kRows) {
    with_rows<T, V>(rows.count - i, [&](auto tile) {
      tile.product(a, rows.a + i, segments, b, bias, c, rows.c + i, n);
    });
  }
}

template <typename T, int V>
void gather_outer_panel(const RowPairs& rows, const Segments& segments, std::int64_t n, const T* a,
                        const T* c, T* w) {
  constexpr std::int64_t kLanes = Simd<T>::kLanes;
  alignas(64) T block[kBlock * V * kLanes];
  for (std::int64_t first = 0; first < rows.count; first += kBlock) {
    const std::int64_t count = rows.count - first < kBlock ? rows.count - first : kBlock;
    for (std::int64_t i = 0; i < count; ++i) {
      const T* row = c + rows.c[first + i];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        store(block + (i * V + v) * kLanes, load(row + v * kLanes, n - v * kLanes), kLanes);
      }
    }
    for (std::int64_t s = 0; s < segments.count; ++s) {
      const Segment& segment = segments.at[s];
      for (std::int64_t p = 0; p < segment.length; p += kRows) {
        with_rows<T, V>(segment.length - p, [&](auto tile) {
          tile.outer(count, a + segment.a + p, rows.a + first, block,
                     w + (segment.b + p) * V * kLanes);
        });
      }
    }
  }
}

template <int N>
struct Registers {
  static constexpr int value = N;
};

// Calls body(a constant: the registers that n elements need).
template <typename T, typename Body>
void with_width(std::int64_t n, Body body) {
  constexpr std::int64_t kLanes = Simd<T>::kLanes;
  if (n <= kLanes) return body(Registers<1>{});
  if (kWide == 2 || n <= 2 * kLanes) return body(Registers<2>{});
  if (n <= 3 * kLanes) return body(Registers < kWide == 4 ? 3 : 2 > {});
  return body(Registers<kWide>{});
}

template <typename T>
void gather_gemm(const RowPairs& rows, const Segments& segments, std::int64_t n, const T* a,
                 const T* b, const T* bias, T* c) {
  with_width<T>(n, [&](auto width) {
    gather_gemm_panel<T, decltype(width)::value>(rows, segments, n, a, b, bias, c);
  });
}

template <typename T>
void gather_outer(const RowPairs& rows, const Segments& segments, std::int64_t n, const T* a,
                  const T* c, T* w) {
  with_width<T>(n, [&](auto width) {
    gather_outer_panel<T, decltype(width)::value>(rows, segments, n, a, c, w);
  });
}

template <typename T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <typename T>
constexpr int kTileSide = Eigen::internal::unpacket_traits<Packet<T>>::size;

// The first `rows` and `columns` of a tile; each packet is a register of Simd<T>.
template <typename T>
void transpose_tile(std::int64_t rows, std::int64_t columns, const T* in,
                    const std::int64_t* in_rows, T* out, const std::int64_t* out_rows) {
  constexpr int kSide = kTileSide<T>;
  static_assert(kSide == Simd<T>::kLanes);
  using Vec = typename Simd<T>::Vec;
  Eigen::internal::PacketBlock<Packet<T>, kSide> tile;
#pragma GCC unroll 16
  for (int s = 0; s < kSide; ++s) {
    tile.packet[s] = Packet<T>(s < rows ? load(in + in_rows[s], columns) : Vec{});
  }
  Eigen::internal::ptranspose(tile);
#pragma GCC unroll 16
  for (int s = 0; s < kSide; ++s) {
    if (s < columns) store(out + out_rows[s], Vec(tile.packet[s]), rows);
  }
}

template <typename T>
void transpose(std::int64_t rows, std::int64_t columns, const T* in, const std::int64_t* in_rows,
               T* out, const std::int64_t* out_rows) {
  constexpr int kSide = kTileSide<T>;
  constexpr std::int64_t kSquare = 64;  // short runs of lines on both sides, fetched ahead
  for (std::int64_t i0 = 0; i0 < rows; i0 += kSquare) {
    const std::int64_t i_end = rows - i0 < kSquare ? rows : i0 + kSquare;
    for (std::int64_t j0 = 0; j0 < columns; j0 += kSquare) {
      const std::int64_t j_end = columns - j0 < kSquare ? columns : j0 + kSquare;
      for (std::int64_t i = i0; i < i_end; i += kSide) {
        for (std::int64_t j = j0; j < j_end; j += kSide) {
          transpose_tile(i_end - i, j_end - j, in + j, in_rows + i, out + i, out_rows + j);
        }
      }
    }
  }
}

// -- products of whole matrices, by Eigen

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Read = Eigen::Map<const Matrix<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using Write = Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>>;

template <typename T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc,
          bool accumulate) {
  const Read<T> left(a, transpose_a ? k : m, transpose_a ? m : k, Eigen::OuterStride<>(lda));
  const Read<T> right(b, transpose_b ? n : k, transpose_b ? k : n, Eigen::OuterStride<>(ldb));
  Write<T> result(c, m, n, Eigen::OuterStride<>(ldc));
  if (!accumulate) result.setZero();
  if (transpose_a && transpose_b) {
    result.noalias() += left.transpose() * right.transpose();
  } else if (transpose_a) {
    result.noalias() += left.transpose() * right;
  } else if (transpose_b) {
    result.noalias() += left * right.transpose();
  } else {
    result.noalias() += left * right;
  }
}

}  // namespace

template <typename T>
void set_products(Kernels<T>& kernels) {
  kernels.gemm = gemm<T>;
  kernels.panel = kPanel<T>;
  kernels.lanes = Simd<T>::kLanes;
  kernels.gather_gemm = gather_gemm<T>;
  kernels.gather_outer = gather_outer<T>;
  kernels.transpose = transpose<T>;
}

template void set_products(Kernels<float>& kernels);
template void set_products(Kernels<double>& kernels);

}  // namespace hvd::isa::HVD_ISA_NAME
