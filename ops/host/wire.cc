#include "ops/host/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/base/half.h"
#include "core/base/status.h"
#include "ops/host/convert.h"
#include "ops/host/loops.h"
#include "ops/host/reduce.h"

namespace hvd::engine::host {
namespace {

constexpr std::size_t kScaleBytes = sizeof(float);
constexpr float kLeastMagnitude = 0x1p-119f;  // its inverse times 127 is far from overflowing

constexpr std::size_t round_up_4(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

[[noreturn]] void refuse(WireFormat format) {
  throw InvalidArgumentError("wire format ", name_of(format),
                             " encodes nothing: elements travel as they are");
}

// The largest magnitude, as the bits of an f32: at least 0x7f800000 if one is infinite or NaN.
[[gnu::always_inline]] inline std::uint32_t max_magnitude(const float* in, std::int64_t count) {
  std::int32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<std::int32_t>(in[i]) & 0x7fffffff);
  }
  return static_cast<std::uint32_t>(most);
}

// in[i] * inverse, which is between -127 and 127, rounded to nearest even.
[[gnu::always_inline]] inline void quantize(const float* in, float inverse, std::int8_t* out,
                                            std::int64_t count) {
  // Added to a small number it leaves no room for a fraction: the FPU rounds, and the integer is
  // what the bits grew by.
  constexpr float kMagic = 0x1.8p23f;
  constexpr auto kMagicBits = std::bit_cast<std::int32_t>(kMagic);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(in[i] * inverse + kMagic);
    out[i] = static_cast<std::int8_t>(bits - kMagicBits);
  }
}

[[gnu::always_inline]] inline void dequantize(const std::int8_t* in, float scale, float* out,
                                              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(in[i]);
}

[[gnu::always_inline]] inline void accumulate(const std::int8_t* in, float scale, float* sum,
                                              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += scale * static_cast<float>(in[i]);
}

// The codecs below handle a block: at most kWireBlock elements, as f32 in memory.
template <typename Half>
struct HalfCodec {
  Isa isa;

  void encode(const float* in, std::byte* out, std::int64_t count) const {
    from_float(in, reinterpret_cast<Half*>(out), count, isa);
  }
  void decode(const std::byte* in, float* out, std::int64_t count) const {
    to_float(reinterpret_cast<const Half*>(in), out, count, isa);
  }
};

struct Int8Codec {
  Isa isa;

  void encode(const float* in, std::byte* out, std::int64_t count) const {
    const auto largest = std::bit_cast<float>(compiled_for<max_magnitude>(isa)(in, count));
    const bool finite = largest <= std::numeric_limits<float>::max();
    float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
    if (largest < kLeastMagnitude) scale = 0;
    std::memcpy(out, &scale, sizeof scale);
    auto* const bytes = reinterpret_cast<std::int8_t*>(out + kScaleBytes);
    if (scale > 0) {
      compiled_for<quantize>(isa)(in, 127.0f / largest, bytes, count);
    } else {
      std::memset(bytes, 0, static_cast<std::size_t>(count));
    }
  }
  void decode(const std::byte* in, float* out, std::int64_t count) const {
    compiled_for<dequantize>(isa)(bytes_of(in), scale_of(in), out, count);
  }
  void add(const std::byte* in, float* sum, std::int64_t count) const {
    compiled_for<accumulate>(isa)(bytes_of(in), scale_of(in), sum, count);
  }

 private:
  static float scale_of(const std::byte* block) {
    float scale = 0;
    std::memcpy(&scale, block, sizeof scale);
    return scale;
  }
  static const std::int8_t* bytes_of(const std::byte* block) {
    return reinterpret_cast<const std::int8_t*>(block + kScaleBytes);
  }
};

template <typename Body>
void with_codec(WireFormat format, Isa isa, const Body& body) {
  switch (format) {
    case WireFormat::kF16:
      return body(HalfCodec<Float16>{isa});
    case WireFormat::kBF16:
      return body(HalfCodec<BFloat16>{isa});
    case WireFormat::kInt8:
      return body(Int8Codec{isa});
    case WireFormat::kNone:
      break;
  }
  refuse(format);
}

// Calls `body` with a null pointer of the dtype's type.
template <typename Body>
void with_type(DType dtype, const Body& body) {
  if (dtype == DType::kF32) return body(static_cast<float*>(nullptr));
  if (dtype == DType::kF64) return body(static_cast<double*>(nullptr));
  throw InvalidArgumentError("a wire format is not defined for dtype ", dtype);
}

template <typename Body>
void for_each_block(std::int64_t numel, const Body& body) {
  for (std::int64_t first = 0; first < numel; first += kWireBlock) {
    body(first, std::min(kWireBlock, numel - first));
  }
}

// prescale * in + residual: where it stands if that is `in`, else in `scratch`.
template <typename T>
const float* load(const T* in, double prescale, const float* residual, float* scratch,
                  std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    if (prescale == 1.0 && residual == nullptr) return in;
  }
  const auto factor = static_cast<T>(prescale);
  for (std::int64_t i = 0; i < count; ++i) scratch[i] = static_cast<float>(in[i] * factor);
  if (residual == nullptr) return scratch;
  for (std::int64_t i = 0; i < count; ++i) scratch[i] += residual[i];
  return scratch;
}

void keep_loss(const float* exact, const float* decoded, float* residual, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const bool finite = (std::bit_cast<std::uint32_t>(decoded[i]) & 0x7f800000u) != 0x7f800000u;
    const std::uint32_t mask = finite ? ~0u : 0u;  // no branch: the loop is vectorised
    const auto loss = std::bit_cast<std::uint32_t>(exact[i] - decoded[i]);
    residual[i] = std::bit_cast<float>(loss & mask);
  }
}

// What follows the last element up to a multiple of 4 bytes: sent, so not left to chance.
void clear_end(WireFormat format, std::int64_t numel, std::byte* out) {
  const std::int64_t tail = numel % kWireBlock;
  if (tail == 0) return;
  const std::size_t used = format == WireFormat::kInt8
                               ? kScaleBytes + static_cast<std::size_t>(tail)
                               : 2 * static_cast<std::size_t>(tail);
  const std::size_t begin = wire_bytes(format, numel - tail) + used;
  std::memset(out + begin, 0, wire_bytes(format, numel) - begin);
}

void reduce_int8(std::span<const void* const> inputs, std::int64_t numel, double postscale,
                 std::byte* out, Isa isa) {
  const Int8Codec codec{isa};
  const auto factor = static_cast<float>(postscale);
  alignas(64) float sum[kWireBlock];
  for_each_block(numel, [&](std::int64_t first, std::int64_t count) {
    const std::size_t at = wire_bytes(WireFormat::kInt8, first);
    codec.decode(static_cast<const std::byte*>(inputs[0]) + at, sum, count);
    for (const void* const input : inputs.subspan(1)) {
      codec.add(static_cast<const std::byte*>(input) + at, sum, count);
    }
    if (factor != 1.0f) {
      for (std::int64_t i = 0; i < count; ++i) sum[i] *= factor;
    }
    codec.encode(sum, out + at, count);
  });
}

}  // namespace

std::size_t wire_bytes(WireFormat format, std::int64_t numel) {
  const auto count = static_cast<std::size_t>(numel);
  switch (format) {
    case WireFormat::kF16:
    case WireFormat::kBF16:
      return round_up_4(2 * count);
    case WireFormat::kInt8: {
      constexpr auto kBlock = static_cast<std::size_t>(kWireBlock);
      return round_up_4((count + kBlock - 1) / kBlock * kScaleBytes + count);
    }
    case WireFormat::kNone:
      break;
  }
  refuse(format);
}

void encode(WireFormat format, DType dtype, const void* in, double prescale, float* residual,
            std::int64_t numel, void* out, Isa isa) {
  auto* const bytes = static_cast<std::byte*>(out);
  with_codec(format, isa, [&](const auto& codec) {
    with_type(dtype, [&]<typename T>(T*) {
      alignas(64) float scratch[kWireBlock];
      alignas(64) float decoded[kWireBlock];
      for_each_block(numel, [&](std::int64_t first, std::int64_t count) {
        float* const loss = residual == nullptr ? nullptr : residual + first;
        const float* const exact =
            load(static_cast<const T*>(in) + first, prescale, loss, scratch, count);
        std::byte* const to = bytes + wire_bytes(format, first);
        codec.encode(exact, to, count);
        if (loss == nullptr) return;
        codec.decode(to, decoded, count);
        keep_loss(exact, decoded, loss, count);
      });
    });
  });
  clear_end(format, numel, bytes);
}

void decode(WireFormat format, const void* in, DType dtype, void* out, std::int64_t numel,
            Isa isa) {
  const auto* const bytes = static_cast<const std::byte*>(in);
  with_codec(format, isa, [&](const auto& codec) {
    with_type(dtype, [&]<typename T>(T*) {
      for_each_block(numel, [&](std::int64_t first, std::int64_t count) {
        const std::byte* const from = bytes + wire_bytes(format, first);
        T* const to = static_cast<T*>(out) + first;
        if constexpr (std::is_same_v<T, float>) {
          codec.decode(from, to, count);
        } else {
          alignas(64) float scratch[kWireBlock];
          codec.decode(from, scratch, count);
          std::copy_n(scratch, count, to);
        }
      });
    });
  });
}

void reduce_encoded(WireFormat format, std::span<const void* const> inputs, std::int64_t numel,
                    double postscale, void* out, Isa isa) {
  if (inputs.empty()) throw InvalidArgumentError("reduce of no encoded inputs");
  auto* const bytes = static_cast<std::byte*>(out);
  if (format == WireFormat::kInt8) {
    reduce_int8(inputs, numel, postscale, bytes, isa);
  } else {
    const DType half = format == WireFormat::kF16 ? DType::kF16 : DType::kBF16;
    if (format == WireFormat::kNone) refuse(format);
    reduce(half, ReduceOp::kSum, inputs, out, numel, 1.0, postscale);
  }
  clear_end(format, numel, bytes);
}

}  // namespace hvd::engine::host
