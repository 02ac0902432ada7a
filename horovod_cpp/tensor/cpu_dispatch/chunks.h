#pragma once

#include <Eigen/Core>
#include <cstdint>

// How files compiled per instruction set use Eigen's vector functions: on whole chunks, the last
// one padded. Eigen's own loops compute what lies outside aligned packets by other code, so that a
// result would depend on where in memory its operand happens to be.
namespace hvd::isa::HVD_ISA_NAME {

// Elements of a chunk: the widest register.
template <typename T>
inline constexpr int kLanes = 64 / static_cast<int>(sizeof(T));

template <typename T>
using Chunk = Eigen::Array<T, kLanes<T>, 1>;

// e^x; what is smaller than any normal number is 0, where Eigen gives some subnormal one.
template <typename T>
inline Chunk<T> exp_of(const Chunk<T>& x) {
  constexpr T kLowest = sizeof(T) == sizeof(float) ? T(-87.3365448) : T(-708.3964185322641);
  Chunk<T> result = x.exp();
  const T* in = x.data();
  T* out = result.data();
  for (int i = 0; i < kLanes<T>; ++i) out[i] = in[i] < kLowest ? T(0) : out[i];
  return result;
}

// out = function(chunk of in); the last chunk is padded with ones.
template <typename T, typename Function>
inline void map_chunks(const T* in, T* out, std::int64_t n, Function function) {
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
inline double sum_of(std::int64_t n, Term term) {
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

}  // namespace hvd::isa::HVD_ISA_NAME
