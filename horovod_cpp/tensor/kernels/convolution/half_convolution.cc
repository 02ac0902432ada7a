#include "horovod_cpp/tensor/kernels/convolution/convolution.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::kernels {
namespace {

constexpr std::int64_t kPatchElements = 1 << 19;  // of a block; a megabyte
constexpr std::int64_t kNarrow = 16;  // where fewer meet, the tiles of a product stay empty

// The side that is computed, `c`, and the other one, `a`, in one group.
struct Sides {
  Sides(const ConvShape& shape, bool c_is_out)
      : c_extent(c_is_out ? shape.out : shape.in),
        a_extent(c_is_out ? shape.in : shape.out),
        c_channels(c_is_out ? shape.out_channels : shape.in_channels),
        a_channels(c_is_out ? shape.in_channels : shape.out_channels),
        columns(c_channels / shape.groups),
        depth(a_channels / shape.groups),
        rows(shape.images * c_extent[0] * c_extent[1]),
        width(depth * shape.taps()) {}

  const std::array<std::int64_t, 2> c_extent, a_extent;
  const std::int64_t c_channels, a_channels;
  const std::int64_t columns, depth;  // channels of c and of a
  const std::int64_t rows;            // pixels of c
  const std::int64_t width;           // of a patch
};

// What each pixel of c meets in a: [rows, taps, depth].
class Patches {
 public:
  Patches(const ConvShape& shape, bool c_is_out)
      : sides_(shape, c_is_out),
        taps_(shape.kernel),
        block_(std::max<std::int64_t>(std::min(kPatchElements / sides_.width, sides_.rows), 1)),
        memory_(Tensor::empty({block_ * sides_.width}, DType::kBF16)) {
    for (std::size_t axis = 0; axis < 2; ++axis) partners_[axis] = partners(shape, c_is_out, axis);
  }

  const Sides& sides() const { return sides_; }
  std::int64_t block() const { return block_; }  // rows at a time

  // Those of rows [first, last) and one group.
  const BFloat16* gather(const BFloat16* a, std::int64_t group, std::int64_t first,
                         std::int64_t last) {
    BFloat16* out = memory_.data<BFloat16>();
    const std::size_t bytes = static_cast<std::size_t>(sides_.depth) * sizeof(BFloat16);
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t x = row % sides_.c_extent[1];
      const std::int64_t y = row / sides_.c_extent[1] % sides_.c_extent[0];
      const std::int64_t image = row / sides_.c_extent[1] / sides_.c_extent[0];
      for (std::int64_t i = 0; i < taps_[0]; ++i) {
        const std::int64_t line = partners_[0][static_cast<std::size_t>(y * taps_[0] + i)];
        for (std::int64_t j = 0; j < taps_[1]; ++j, out += sides_.depth) {
          const std::int64_t at = partners_[1][static_cast<std::size_t>(x * taps_[1] + j)];
          if (line < 0 || at < 0) {
            std::memset(static_cast<void*>(out), 0, bytes);
            continue;
          }
          const std::int64_t pixel = (image * sides_.a_extent[0] + line) * sides_.a_extent[1] + at;
          std::memcpy(out, a + pixel * sides_.a_channels + group * sides_.depth, bytes);
        }
      }
    }
    return memory_.data<BFloat16>();
  }

 private:
  // For each position of c along an axis and each tap the position in a; -1 = padding.
  std::vector<std::int64_t> partners(const ConvShape& shape, bool c_is_out,
                                     std::size_t axis) const {
    std::vector<std::int64_t> result;
    const std::int64_t stride = shape.stride[axis];
    for (std::int64_t at = 0; at < sides_.c_extent[axis]; ++at) {
      for (std::int64_t tap = 0; tap < shape.kernel[axis]; ++tap) {
        const std::int64_t shift = tap * shape.dilation[axis] - shape.padding[axis];
        std::int64_t partner = c_is_out ? at * stride + shift : at - shift;
        if (!c_is_out) partner = partner < 0 || partner % stride != 0 ? -1 : partner / stride;
        result.push_back(partner >= 0 && partner < sides_.a_extent[axis] ? partner : -1);
      }
    }
    return result;
  }

  const Sides sides_;
  const std::array<std::int64_t, 2> taps_;
  const std::int64_t block_;
  const Tensor memory_;
  std::array<std::vector<std::int64_t>, 2> partners_;
};

// in [n, taps] -> out [taps, n], rows `ld` apart
void taps_first(const BFloat16* in, std::int64_t n, std::int64_t taps, BFloat16* out,
                std::int64_t ld) {
  for (std::int64_t tap = 0; tap < taps; ++tap, out += ld) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = in[i * taps + tap];
  }
}

// The weight [groups * out, in, taps] with the taps before what they are summed with: for each
// group [columns, taps, depth] if c is the out side, which is the transposed right side of a
// product; else that side itself, [taps, depth, columns].
Tensor rearranged(const Tensor& weight, const ConvShape& shape, bool c_is_out) {
  const Tensor from = contiguous(weight);
  const Tensor result = Tensor::empty({weight.numel()}, DType::kBF16);
  const std::int64_t taps = shape.taps();
  const std::int64_t out = shape.out_channels / shape.groups;
  const std::int64_t in = shape.in_channels / shape.groups;
  const BFloat16* source = from.data<BFloat16>();
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    BFloat16* target = result.data<BFloat16>() + group * out * in * taps;
    for (std::int64_t o = 0; o < out; ++o, source += in * taps) {
      taps_first(source, in, taps, target + o * in * (c_is_out ? taps : 1),
                 c_is_out ? in : out * in);
    }
  }
  return result;
}

// Sums of a group's columns to their place among all channels, plus the bias, rounded.
void put_rows(const float* sums, std::int64_t rows, const Sides& sides, const float* bias,
              BFloat16* out) {
  std::vector<float> row(static_cast<std::size_t>(sides.columns));
  for (std::int64_t i = 0; i < rows; ++i, sums += sides.columns, out += sides.c_channels) {
    const float* from = sums;
    if (bias != nullptr) {
      for (std::size_t j = 0; j < row.size(); ++j) row[j] = sums[j] + bias[j];
      from = row.data();
    }
    isa::table().bf16.narrow(from, out, sides.columns);
  }
}

Tensor images_on(const ConvShape& shape, const Sides& sides) {
  Shape result = {shape.images, sides.c_channels};
  if (shape.spatial == 2) result.push_back(sides.c_extent[0]);
  result.push_back(sides.c_extent[1]);
  return empty_channels_last(result, DType::kBF16);
}

// The product that serves, or null: widened operands do.
Bf16Gemm gemm_for(const ConvShape& shape, DType dtype) {
  const std::int64_t deep = shape.in_channels / shape.groups * shape.taps();
  const bool filled = std::min(deep, shape.out_channels / shape.groups) >= kNarrow;
  return dtype == DType::kBF16 && filled ? isa::table().bf16.gemm : nullptr;
}

}  // namespace

Tensor bf16_convolve(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
                     const Tensor& bias, Bf16Gemm gemm) {
  const Tensor images = channels_last(a);
  const Tensor matrix = rearranged(weight, shape, c_is_out);
  const Tensor shift = bias.defined() ? contiguous(to(bias, DType::kF32)) : bias;
  Patches patches(shape, c_is_out);
  const Sides& sides = patches.sides();
  Tensor result = images_on(shape, sides);
  const Tensor sums = Tensor::empty({patches.block() * sides.columns}, DType::kF32);
  for (std::int64_t first = 0; first < sides.rows; first += patches.block()) {
    const std::int64_t last = std::min(first + patches.block(), sides.rows);
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const BFloat16* left = patches.gather(images.data<BFloat16>(), group, first, last);
      const BFloat16* right = matrix.data<BFloat16>() + group * sides.width * sides.columns;
      gemm(false, c_is_out, last - first, sides.columns, sides.width, left, sides.width, right,
           c_is_out ? sides.width : sides.columns, sums.data<float>(), sides.columns, false);
      const std::int64_t column = group * sides.columns;
      put_rows(sums.data<float>(), last - first, sides,
               shift.defined() ? shift.data<float>() + column : nullptr,
               result.data<BFloat16>() + first * sides.c_channels + column);
    }
  }
  return result;
}

Tensor bf16_convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output,
                                 Bf16Gemm gemm) {
  const Tensor images = channels_last(input);
  const Tensor grads = channels_last(output);
  Patches patches(shape, true);
  const Sides& sides = patches.sides();
  const std::int64_t size = sides.columns * sides.width;  // of a group
  const Tensor sums = Tensor::zeros({shape.groups * size}, DType::kF32);
  for (std::int64_t first = 0; first < sides.rows; first += patches.block()) {
    const std::int64_t last = std::min(first + patches.block(), sides.rows);
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const BFloat16* right = patches.gather(images.data<BFloat16>(), group, first, last);
      const BFloat16* left =
          grads.data<BFloat16>() + first * sides.c_channels + group * sides.columns;
      gemm(true, false, sides.columns, sides.width, last - first, left, sides.c_channels, right,
           sides.width, sums.data<float>() + group * size, sides.width, true);
    }
  }
  Shape weight_shape = {shape.out_channels, sides.depth};
  if (shape.spatial == 2) weight_shape.push_back(shape.kernel[0]);
  weight_shape.push_back(shape.kernel[1]);
  Tensor result = Tensor::empty(weight_shape, DType::kBF16);
  const Tensor row = Tensor::empty({sides.width}, DType::kF32);  // [depth, taps]
  const std::vector<std::int64_t> by_tap = row_offsets(shape.taps(), sides.depth);
  const std::vector<std::int64_t> by_channel = row_offsets(sides.depth, shape.taps());
  for (std::int64_t o = 0; o < shape.out_channels; ++o) {
    isa::table().f32.transpose(shape.taps(), sides.depth, sums.data<float>() + o * sides.width,
                               by_tap.data(), row.data<float>(), by_channel.data());
    narrow(row.data<float>(), result, o * sides.width, sides.width);
  }
  return result;
}

Tensor half_convolve(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
                     const Tensor& bias) {
  if (const Bf16Gemm gemm = gemm_for(shape, a.dtype())) {
    return bf16_convolve(shape, c_is_out, a, weight, bias, gemm);
  }
  const auto direction = c_is_out ? convolve : convolve_transposed;
  return cast(direction(shape, cast(a, DType::kF32), cast(weight, DType::kF32),
                        bias.defined() ? cast(bias, DType::kF32) : bias),
              a.dtype());
}

Tensor half_convolve_weight_grad(const ConvShape& shape, const Tensor& input,
                                 const Tensor& output) {
  if (const Bf16Gemm gemm = gemm_for(shape, input.dtype())) {
    return bf16_convolve_weight_grad(shape, input, output, gemm);
  }
  return cast(convolve_weight_grad(shape, cast(input, DType::kF32), cast(output, DType::kF32)),
              input.dtype());
}

}  // namespace hvd::kernels
