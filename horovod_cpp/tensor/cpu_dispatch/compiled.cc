#include <math.h>

#include <Eigen/Core>
#include <limits>

#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

namespace hvd::isa::HVD_ISA_NAME {
namespace {

namespace element = engine::element;

// -- how this file uses Eigen's vector functions: on whole chunks, the last one padded. Eigen's own
// loops compute what lies outside aligned packets by other code, so that a result would depend on
// where in memory its operand happens to be.

// Elements of a chunk: the widest register.
template <typename T>
constexpr int kLanes = 64 / static_cast<int>(sizeof(T));

template <typename T>
using Chunk = Eigen::Array<T, kLanes<T>, 1>;

// e^x; what is smaller than any normal number is 0, where Eigen gives some subnormal one.
template <typename T>
Chunk<T> exp_of(const Chunk<T>& x) {
  constexpr T kLowest = sizeof(T) == sizeof(float) ? T(-87.3365448) : T(-708.3964185322641);
  Chunk<T> result = x.exp();
  const T* in = x.data();
  T* out = result.data();
  for (int i = 0; i < kLanes<T>; ++i) out[i] = in[i] < kLowest ? T(0) : out[i];
  return result;
}

// The natural logarithm. Eigen takes what is smaller than any normal number for the smallest of
// them or for 0, so that is made larger by a power of two first.
template <typename T>
Chunk<T> log_of(const Chunk<T>& x) {
  constexpr T kScale = sizeof(T) == sizeof(float) ? T(0x1p24) : T(0x1p53);
  constexpr T kLogOfScale = sizeof(T) == sizeof(float) ? T(16.635532333) : T(36.7368005696771);
  Chunk<T> scaled = x;
  Chunk<T> excess = Chunk<T>::Zero();
  T* in = scaled.data();
  T* over = excess.data();
  for (int i = 0; i < kLanes<T>; ++i) {
    const bool small = in[i] < std::numeric_limits<T>::min();
    over[i] = small ? kLogOfScale : T(0);
    in[i] *= small ? kScale : T(1);
  }
  return scaled.log() - excess;
}

// out = function(chunk of in); the last chunk is padded with ones.
template <typename T, typename Function>
void map_chunks(const T* in, T* out, std::int64_t n, Function function) {
  using Read = Eigen::Map<const Chunk<T>>;
  using Write = Eigen::Map<Chunk<T>>;
  std::int64_t at = 0;
  for (; n - at >= kLanes<T>; at += kLanes<T>) {
    const Chunk<T> x = Read(in + at);
    Write(out + at) = function(x);
  }
  if (at == n) return;
  Chunk<T> last = Chunk<T>::Ones();
  for (std::int64_t i = 0; at + i < n; ++i) last[i] = in[at + i];
  last = function(last);
  for (std::int64_t i = 0; at + i < n; ++i) out[at + i] = last[i];
}

// Sum of term(i) for i in [0, n): four chunks of partial sums over 1,024 terms at a time, those in
// double. The order depends on n alone.
template <typename T, typename Term>
double sum_of(std::int64_t n, Term term) {
  constexpr int kWidth = 4 * kLanes<T>;
  constexpr std::int64_t kBlock = 1024;
  double total = 0.0;
  std::int64_t i = 0;
  while (n - i >= kWidth) {
    T lanes[kWidth] = {};
    const std::int64_t end = n - i < kBlock ? n : i + kBlock;
    for (; end - i >= kWidth; i += kWidth) {
      for (int lane = 0; lane < kWidth; ++lane) lanes[lane] += term(i + lane);
    }
    for (int half = kWidth / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    total += static_cast<double>(lanes[0]);
  }
  T rest = T(0);
  for (; i < n; ++i) rest += term(i);
  return total + static_cast<double>(rest);
}

template <typename T, typename Function>
void map(const T* in, T* out, std::int64_t n, Function function) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = function(in[i]);
}

// The C library's function of T.
#define HVD_OF_LIBRARY(name)                    \
  [](auto... x) {                               \
    if constexpr (sizeof(T) == sizeof(float)) { \
      return ::name##f(x...);                   \
    } else {                                    \
      return ::name(x...);                      \
    }                                           \
  }

// `op` if it is one of these.
template <Unary... kOps, typename T>
bool exact(Unary op, const T* in, T* out, std::int64_t n) {
  return ((op == kOps && (map(in, out, n, [](T x) { return element::exact_of(kOps, x); }), true)) ||
          ...);
}

template <typename T>
void unary(Unary op, const T* in, T* out, std::int64_t n) {
  const auto root = HVD_OF_LIBRARY(sqrt);  // the processor's own: Eigen's is wrong at infinity
  switch (op) {
    case Unary::kSqrt:
      return map(in, out, n, root);
    case Unary::kRsqrt:
      return map(in, out, n, [root](T x) { return T(1) / root(x); });
    case Unary::kExp:
      return map_chunks(in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return exp_of<T>(x); });
    case Unary::kLog:
      return map_chunks(in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return log_of<T>(x); });
    case Unary::kTanh:
      return map_chunks(in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return x.tanh(); });
    case Unary::kSigmoid:
      return map_chunks(
          in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return T(1) / (T(1) + exp_of<T>(-x)); });
    case Unary::kSin:
      return map(in, out, n, HVD_OF_LIBRARY(sin));
    case Unary::kCos:
      return map(in, out, n, HVD_OF_LIBRARY(cos));
    case Unary::kErf:
      return map(in, out, n, HVD_OF_LIBRARY(erf));
    case Unary::kLog1p:
      return map(in, out, n, HVD_OF_LIBRARY(log1p));
    default:
      exact<Unary::kNeg, Unary::kAbs, Unary::kSign, Unary::kSquare, Unary::kReciprocal,
            Unary::kRelu>(op, in, out, n);
  }
}

// The three common stride pairs get loops of their own, which vectorise.
template <Binary kOp, typename T>
void zip(const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* out, std::int64_t n) {
  if (sa == 1 && sb == 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, a[i], b[i]);
  } else if (sa == 1 && sb == 0) {
    const T y = *b;
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, a[i], y);
  } else if (sa == 0 && sb == 1) {
    const T x = *a;
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, x, b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, a[i * sa], b[i * sb]);
  }
}

template <Binary... kOps, typename T>
void zip_one_of(Binary op, const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* out,
                std::int64_t n) {
  static_cast<void>(((op == kOps && (zip<kOps>(a, sa, b, sb, out, n), true)) || ...));
}

template <typename T>
void binary(Binary op, const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* out,
            std::int64_t n) {
  zip_one_of<Binary::kAdd, Binary::kMul, Binary::kSub, Binary::kDiv, Binary::kMaximum,
             Binary::kMinimum, Binary::kReluGrad, Binary::kTanhGrad, Binary::kSigmoidGrad,
             Binary::kSqrtGrad>(op, a, sa, b, sb, out, n);
}

template <typename T>
void power(const T* in, T exponent, T* out, std::int64_t n) {
  if (exponent == T(2)) return unary(Unary::kSquare, in, out, n);
  const auto raise = HVD_OF_LIBRARY(pow);
  for (std::int64_t i = 0; i < n; ++i) out[i] = raise(in[i], exponent);
}
#undef HVD_OF_LIBRARY

template <typename T>
void add_scaled(T* out, const T* in, T alpha, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += alpha * in[i];
}

template <typename T>
void affine(const T* in, T scale, T shift, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * scale + shift;
}

template <typename T>
void affine2(const T* a, T scale_a, const T* b, T scale_b, T shift, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * scale_a + b[i] * scale_b + shift;
}

template <typename T>
double sum(const T* in, std::int64_t n) {
  return sum_of<T>(n, [=](std::int64_t i) { return in[i]; });
}

template <typename T>
double sum_squares(const T* in, T center, std::int64_t n) {
  return sum_of<T>(n, [=](std::int64_t i) { return (in[i] - center) * (in[i] - center); });
}

template <typename T>
double dot(const T* a, const T* b, T center, std::int64_t n) {
  return sum_of<T>(n, [=](std::int64_t i) { return a[i] * (b[i] - center); });
}

template <typename T>
T largest(const T* in, std::int64_t n) {
  T best = in[0];
  for (std::int64_t i = 1; i < n; ++i) best = in[i] > best ? in[i] : best;
  return best;
}

template <typename T>
void exp_of_difference(const T* in, T shift, T* out, std::int64_t n) {
  map_chunks(in, out, n, [=](const Chunk<T>& x) -> Chunk<T> { return exp_of<T>(x - shift); });
}

template <typename T>
void softmax(const T* in, T* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
    exp_of_difference(in, largest(in, columns), out, columns);
    const T total = static_cast<T>(sum(out, columns));
    for (std::int64_t i = 0; i < columns; ++i) out[i] /= total;
  }
}

template <typename T>
void softmax_grad(const T* grad, const T* out, T* grad_in, std::int64_t rows,
                  std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T total = static_cast<T>(dot(grad, out, T(0), columns));
    for (std::int64_t i = 0; i < columns; ++i) grad_in[i] = out[i] * (grad[i] - total);
    grad += columns;
    out += columns;
    grad_in += columns;
  }
}

template <typename T>
void log_softmax(const T* in, T* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
    const T shift = largest(in, columns);
    exp_of_difference(in, shift, out, columns);
    const T log_total = static_cast<T>(::log(sum(out, columns)));
    for (std::int64_t i = 0; i < columns; ++i) out[i] = in[i] - shift - log_total;
  }
}

template <typename T>
void log_softmax_grad(const T* grad, const T* out, T* grad_in, std::int64_t rows,
                      std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T total = static_cast<T>(sum(grad, columns));
    map_chunks(out, grad_in, columns, [](const Chunk<T>& y) -> Chunk<T> { return exp_of<T>(y); });
    for (std::int64_t i = 0; i < columns; ++i) grad_in[i] = grad[i] - grad_in[i] * total;
    grad += columns;
    out += columns;
    grad_in += columns;
  }
}

// -- passes over rows of `columns` elements, where every column has numbers of its own: what
// normalisation and pooling of channels-last images need. Memory bounds them, so that plain loops
// that vectorise are enough.

constexpr std::int64_t kColumns = 256;  // columns whose sums stay in the first-level cache
constexpr std::int64_t kBlock = 64;     // rows that are summed up in T, before the sum in double

// For each chunk of columns and block of rows: body(first column, columns, first row, last row,
// two arrays of sums), which are then added to `a` and `b`.
template <typename T, typename Body>
void sum_up(std::int64_t rows, std::int64_t columns, double* a, double* b, Body body) {
  T x[kColumns];
  T y[kColumns];
  for (std::int64_t c = 0; c < columns; c += kColumns) {
    const std::int64_t width = columns - c < kColumns ? columns - c : kColumns;
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
constexpr std::int64_t kWidth = 16;
template <typename T>
struct Lanes {
  typedef T Values __attribute__((vector_size(kWidth * sizeof(T))));
  typedef T Loose __attribute__((vector_size(kWidth * sizeof(T)), aligned(alignof(T)), may_alias));
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
  const std::int64_t whole = columns - columns % kWidth;
  for (std::int64_t j = 0; j < whole; j += kWidth) {
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

void widen(const BFloat16* __restrict in, float* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(in[i].bits) << 16;
    __builtin_memcpy(&out[i], &bits, sizeof(bits));
  }
}

void narrow(const float* __restrict in, BFloat16* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &in[i], sizeof(bits));
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40u;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i].bits = static_cast<std::uint16_t>(nan ? quiet : rounded);
  }
}

template <typename T>
Kernels<T> kernels() {
  Kernels<T> result{};
  result.unary = unary<T>;
  result.binary = binary<T>;
  result.pow = power<T>;
  result.add_scaled = add_scaled<T>;
  result.affine = affine<T>;
  result.affine2 = affine2<T>;
  result.sum = sum<T>;
  result.sum_squares = sum_squares<T>;
  result.dot = dot<T>;
  result.softmax = softmax<T>;
  result.softmax_grad = softmax_grad<T>;
  result.log_softmax = log_softmax<T>;
  result.log_softmax_grad = log_softmax_grad<T>;
  result.column_moments = column_moments<T>;
  result.column_affine = column_affine<T>;
  result.column_dots = column_dots<T>;
  result.column_affine2 = column_affine2<T>;
  result.max_of_rows = max_of_rows<T>;
  set_products(result);
  return result;
}

}  // namespace

// Declared again in isa_choice.cc, the one caller.
void fill(Table& table) {
  table.f32 = kernels<float>();
  table.f64 = kernels<double>();
  table.bf16.widen = widen;
  table.bf16.narrow = narrow;
}

}  // namespace hvd::isa::HVD_ISA_NAME
