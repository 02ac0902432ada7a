#include <Eigen/Core>

#include "horovod_cpp/tensor/isa/compiled.h"

// Products of gathered rows, in the manner of Dukhan: "The indirect convolution algorithm" (2019):
// nothing is unrolled into a matrix, each row of the left side is read where it lies. A tile of
// kRows times some registers of the result stays in registers for a whole block of the depth.
namespace hvd {
namespace isa {
namespace HVD_ISA_NAME {
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
constexpr std::int64_t kDepth = 128;  // rows of the right side that stay in the first-level cache

template <typename T>
struct Simd {
  typedef T Vec __attribute__((vector_size(kRegister)));
  typedef T Loose __attribute__((vector_size(kRegister), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = kRegister / static_cast<int>(sizeof(T));
};

template <typename T>
constexpr std::int64_t kPanel = kWide* Simd<T>::kLanes;

// `n` elements from `in` on, the rest zero.
template <typename T>
typename Simd<T>::Vec load(const T* in, std::int64_t n) {
  if (n >= Simd<T>::kLanes) return *reinterpret_cast<const typename Simd<T>::Loose*>(in);
  typename Simd<T>::Vec result = {};
  for (std::int64_t i = 0; i < n; ++i) result[i] = in[i];
  return result;
}

template <typename T>
void store(T* out, typename Simd<T>::Vec value, std::int64_t n) {
  if (n >= Simd<T>::kLanes) {
    *reinterpret_cast<typename Simd<T>::Loose*>(out) = value;
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) out[i] = value[i];
}

// Every loop over the accumulators is unrolled and the functions stay functions, or g++ 12 keeps
// the accumulators in memory.
template <typename T, int R, int V>
struct Tile {
  using Vec = typename Simd<T>::Vec;
  static constexpr std::int64_t kLanes = Simd<T>::kLanes;

  // c[rows[i]] += a[rows[i]] * b for R rows
  __attribute__((noinline)) static void product(const T* a, const std::int64_t* a_rows,
                                                std::int64_t k, const T* b, std::int64_t ldb, T* c,
                                                const std::int64_t* c_rows, std::int64_t n) {
    Vec sums[R][V];
    const T* left[R];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      left[r] = a + a_rows[r];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        sums[r][v] = load(c + c_rows[r] + v * kLanes, n - v * kLanes);
      }
    }
    for (std::int64_t p = 0; p < k; ++p, b += ldb) {
      Vec right[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        right[v] = *reinterpret_cast<const typename Simd<T>::Loose*>(b + v * kLanes);
      }
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const T x = left[r][p];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sums[r][v] += x * right[v];
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
                                              const std::int64_t* a_rows, const T* y, T* w,
                                              std::int64_t ldw, std::int64_t n) {
    Vec sums[R][V];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sums[r][v] = load(w + r * ldw + v * kLanes, n - v * kLanes);
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
      for (int v = 0; v < V; ++v) store(w + r * ldw + v * kLanes, sums[r][v], n - v * kLanes);
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
void gather_gemm_panel(const RowPairs& rows, std::int64_t k, std::int64_t n, const T* a, const T* b,
                       std::int64_t ldb, T* c) {
  for (std::int64_t p = 0; p < k; p += kDepth) {
    const std::int64_t depth = k - p < kDepth ? k - p : kDepth;
    for (std::int64_t i = 0; i < rows.count; i += kRows) {
      with_rows<T, V>(rows.count - i, [&](auto tile) {
        tile.product(a + p, rows.a + i, depth, b + p * ldb, ldb, c, rows.c + i, n);
      });
    }
  }
}

template <typename T, int V>
void gather_outer_panel(const RowPairs& rows, std::int64_t k, std::int64_t n, const T* a,
                        const T* c, T* w, std::int64_t ldw) {
  constexpr std::int64_t kLanes = Simd<T>::kLanes;
  alignas(64) T block[kDepth * V * kLanes];
  for (std::int64_t first = 0; first < rows.count; first += kDepth) {
    const std::int64_t count = rows.count - first < kDepth ? rows.count - first : kDepth;
    for (std::int64_t i = 0; i < count; ++i) {
      const T* row = c + rows.c[first + i];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        store(block + (i * V + v) * kLanes, load(row + v * kLanes, n - v * kLanes), kLanes);
      }
    }
    for (std::int64_t p = 0; p < k; p += kRows) {
      with_rows<T, V>(k - p, [&](auto tile) {
        tile.outer(count, a + p, rows.a + first, block, w + p * ldw, ldw, n);
      });
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
void gather_gemm(const RowPairs& rows, std::int64_t k, std::int64_t n, const T* a, const T* b,
                 std::int64_t ldb, T* c) {
  with_width<T>(n, [&](auto width) {
    gather_gemm_panel<T, decltype(width)::value>(rows, k, n, a, b, ldb, c);
  });
}

template <typename T>
void gather_outer(const RowPairs& rows, std::int64_t k, std::int64_t n, const T* a, const T* c,
                  T* w, std::int64_t ldw) {
  with_width<T>(n, [&](auto width) {
    gather_outer_panel<T, decltype(width)::value>(rows, k, n, a, c, w, ldw);
  });
}

template <typename T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <typename T>
constexpr int kTileSide = Eigen::internal::unpacket_traits<Packet<T>>::size;

template <typename T>
void transpose_tile(const T* in, std::int64_t ld_in, T* out, std::int64_t ld_out) {
  constexpr int kSide = kTileSide<T>;
  Eigen::internal::PacketBlock<Packet<T>, kSide> tile;
#pragma GCC unroll 16
  for (int s = 0; s < kSide; ++s) {
    tile.packet[s] = Eigen::internal::ploadu<Packet<T>>(in + s * ld_in);
  }
  Eigen::internal::ptranspose(tile);
#pragma GCC unroll 16
  for (int s = 0; s < kSide; ++s) Eigen::internal::pstoreu(out + s * ld_out, tile.packet[s]);
}

template <typename T>
void transpose(std::int64_t rows, std::int64_t columns, const T* in, std::int64_t ld_in, T* out,
               std::int64_t ld_out) {
  constexpr int kSide = kTileSide<T>;
  constexpr std::int64_t kBlock = 64;  // short runs of lines on both sides, which are fetched ahead
  const std::int64_t whole_rows = rows / kSide * kSide;
  const std::int64_t whole_columns = columns / kSide * kSide;
  for (std::int64_t i0 = 0; i0 < whole_rows; i0 += kBlock) {
    const std::int64_t i_end = whole_rows - i0 < kBlock ? whole_rows : i0 + kBlock;
    for (std::int64_t j0 = 0; j0 < whole_columns; j0 += kBlock) {
      const std::int64_t j_end = whole_columns - j0 < kBlock ? whole_columns : j0 + kBlock;
      for (std::int64_t i = i0; i < i_end; i += kSide) {
        for (std::int64_t j = j0; j < j_end; j += kSide) {
          transpose_tile(in + i * ld_in + j, ld_in, out + j * ld_out + i, ld_out);
        }
      }
    }
  }
  for (std::int64_t j = 0; j < columns; ++j) {  // what fills no tile
    for (std::int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i) {
      out[j * ld_out + i] = in[i * ld_in + j];
    }
  }
}

}  // namespace

template <typename T>
void set_rows(Kernels<T>& kernels) {
  kernels.panel = kPanel<T>;
  kernels.lanes = Simd<T>::kLanes;
  kernels.gather_gemm = gather_gemm<T>;
  kernels.gather_outer = gather_outer<T>;
  kernels.transpose = transpose<T>;
}

template void set_rows(Kernels<float>& kernels);
template void set_rows(Kernels<double>& kernels);

}  // namespace HVD_ISA_NAME
}  // namespace isa
}  // namespace hvd
