#include "horovod_cpp/tensor/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/base/status.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/memory.h"
#include "horovod_cpp/tensor/shapes.h"

// Normal numbers have to be equal everywhere, and no two C libraries agree on log and cos in the
// last bit. So both are computed here, from operations that IEEE 754 defines to the bit; this file
// is compiled without contraction into fused multiply-add (horovod_cpp/CMakeLists.txt).
namespace hvd {
namespace {

using Block = std::array<std::uint32_t, 4>;

Block philox(std::uint64_t key, std::uint64_t counter) {
  Block x = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

std::uint64_t word(const Block& block, std::size_t half) {
  return std::uint64_t{block[2 * half + 1]} << 32 | block[2 * half];
}

double unit(std::uint64_t bits) {  // [0, 1)
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// log(x) for normal x > 0: x = m 2^e with m around 1, and atanh's series for m.
double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double z = s * s;  // below 0.0295
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * s * series;
}

// sin and cos of 2 pi turn, for a turn in [0, 1): the nearest quarter turn and Taylor's series for
// the rest, at most pi/4.
struct SinCos {
  double sin, cos;
};
SinCos portable_sincos(double turn) {
  const double quarters = std::floor(turn * 4 + 0.5);
  const double angle = (turn - quarters / 4) * 6.2831853071795865;
  const double z = angle * angle;
  double s = 0;
  double c = 0;
  for (int k = 8; k >= 1; --k) {
    s = (1 - s) * z / (2 * k * (2 * k + 1));
    c = (1 - c) * z / (2 * k * (2 * k - 1));
  }
  s = angle * (1 - s);
  c = 1 - c;
  switch (static_cast<int>(quarters) % 4) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// Box and Muller (1958): two uniform numbers give two independent normal ones.
std::array<double, 2> box_muller(const Block& block) {
  const double radius = std::sqrt(-2.0 * portable_log(1.0 - unit(word(block, 0))));
  const SinCos at = portable_sincos(unit(word(block, 1)));
  return {radius * at.cos, radius * at.sin};
}

// Fills a contiguous tensor: `make(block)` gives `width` doubles at a time.
template <typename Make>
void fill_blocks(const Tensor& target, Generator& generator, Make make) {
  const std::int64_t numel = target.numel();
  dispatch(target.dtype(), "random numbers", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = target.data<T>();
    constexpr std::size_t kWidth = std::tuple_size_v<decltype(make(Block{}))>;
    const auto width = static_cast<std::int64_t>(kWidth);
    const std::int64_t blocks = (numel + width - 1) / width;
    const std::uint64_t first = generator.reserve(static_cast<std::uint64_t>(blocks));
    const std::uint64_t seed = generator.state().seed;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto values = make(philox(seed, first + static_cast<std::uint64_t>(b)));
      for (std::int64_t i = 0; i < width && b * width + i < numel; ++i) {
        out[b * width + i] = convert<T>(values[static_cast<std::size_t>(i)]);
      }
    }
  });
}

template <typename Fill>
void overwrite(const Tensor& tensor, const char* function, Fill fill) {
  shapes::require_floating(tensor, function);
  refuse_expanded(tensor, function);
  if (tensor.is_contiguous() && is_on_cpu(tensor)) {
    fill(tensor);
    bump_version(tensor);
  } else {
    const Tensor values = Tensor::empty(tensor.shape(), tensor.dtype());
    fill(values);
    kernels::copy_into(tensor, values);
  }
}

}  // namespace

std::uint64_t Generator::reserve(std::uint64_t blocks) {
  const std::uint64_t first = state_.position;
  state_.position += blocks;
  return first;
}

double Generator::uniform() {
  return unit(word(philox(state_.seed, reserve(1)), 0));
}

double Generator::normal() {
  return box_muller(philox(state_.seed, reserve(1)))[0];
}

std::uint64_t Generator::below(std::uint64_t bound) {
  if (bound == 0) throw InvalidArgumentError("Generator::below: the bound is 0");
  const std::uint64_t reject = (0 - bound) % bound;  // 2^64 mod bound: those would be unfair
  for (;;) {
    const std::uint64_t bits = word(philox(state_.seed, reserve(1)), 0);
    if (bits >= reject) return bits % bound;
  }
}

namespace {

std::vector<std::int64_t> make_room(std::int64_t count) {
  try {
    return std::vector<std::int64_t>(static_cast<std::size_t>(count));
  } catch (const std::exception&) {  // more than the system has, or than a vector may
    throw OutOfMemoryError(str_cat("Generator::permutation: no memory for ", count, " numbers"));
  }
}

}  // namespace

std::vector<std::int64_t> Generator::permutation(std::int64_t count) {
  if (count < 0) {
    throw InvalidArgumentError("Generator::permutation: count ", count);
  }
  std::vector<std::int64_t> order = make_room(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[below(left)]);
  }
  return order;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) {
  default_generator().manual_seed(seed);
}

void uniform_(const Tensor& tensor, double low, double high, Generator& generator) {
  const double range = high - low;
  overwrite(tensor, "uniform_", [&](const Tensor& target) {
    if (tensor.dtype() == DType::kF64) {
      fill_blocks(target, generator, [&](const Block& block) {
        return std::array<double, 2>{low + range * unit(word(block, 0)),
                                     low + range * unit(word(block, 1))};
      });
    } else {  // 24 bits fit a float, so that 1 is never rounded up to
      fill_blocks(target, generator, [&](const Block& block) {
        std::array<double, 4> values;
        for (std::size_t i = 0; i < 4; ++i) values[i] = low + range * (block[i] >> 8) * 0x1p-24;
        return values;
      });
    }
  });
}

void normal_(const Tensor& tensor, double mean, double deviation, Generator& generator) {
  overwrite(tensor, "normal_", [&](const Tensor& target) {
    fill_blocks(target, generator, [&](const Block& block) {
      const auto pair = box_muller(block);
      return std::array<double, 2>{mean + deviation * pair[0], mean + deviation * pair[1]};
    });
  });
}

Tensor rand(Shape shape, DType dtype, Generator& generator) {
  Tensor result = Tensor::empty(std::move(shape), dtype);
  uniform_(result, 0.0, 1.0, generator);
  return result;
}

Tensor randn(Shape shape, DType dtype, Generator& generator) {
  Tensor result = Tensor::empty(std::move(shape), dtype);
  normal_(result, 0.0, 1.0, generator);
  return result;
}

Tensor bernoulli(Shape shape, double p, DType dtype, Generator& generator) {
  if (!(p >= 0.0 && p <= 1.0)) {
    throw InvalidArgumentError("bernoulli: probability ", p);
  }
  Tensor result = Tensor::empty(std::move(shape), dtype);
  fill_blocks(result, generator, [&](const Block& block) {
    std::array<double, 4> values;
    for (std::size_t i = 0; i < 4; ++i) values[i] = block[i] * 0x1p-32 < p ? 1.0 : 0.0;
    return values;
  });
  return result;
}

Tensor randint(std::int64_t low, std::int64_t high, Shape shape, Generator& generator) {
  if (low >= high) {
    throw InvalidArgumentError("randint: no integer in [", low, ", ", high, ")");
  }
  Tensor result = Tensor::empty(std::move(shape), DType::kI64);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  std::int64_t* out = result.data<std::int64_t>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + generator.below(range));
  }
  return result;
}

Tensor randperm(std::int64_t count, Generator& generator) {
  const std::vector<std::int64_t> order = generator.permutation(count);
  return Tensor::from(std::span<const std::int64_t>(order), {count});
}

Tensor get_rng_state(const Generator& generator) {
  const Generator::State state = generator.state();
  const std::int64_t words[] = {std::bit_cast<std::int64_t>(state.seed),
                                std::bit_cast<std::int64_t>(state.position)};
  return Tensor::from(words, {2});
}

void set_rng_state(const Tensor& state, Generator& generator) {
  if (state.dtype() != DType::kI64 || state.shape() != Shape{2}) {
    throw InvalidArgumentError("set_rng_state: ", state.dtype(), " ", state.shape(),
                               ", expected int64 [2]");
  }
  const Tensor words = kernels::contiguous(state);
  const auto* first = words.data<std::int64_t>();
  generator.set_state(
      {std::bit_cast<std::uint64_t>(first[0]), std::bit_cast<std::uint64_t>(first[1])});
}

}  // namespace hvd
