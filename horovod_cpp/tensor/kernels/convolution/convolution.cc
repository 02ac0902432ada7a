#include "horovod_cpp/tensor/kernels/convolution/convolution.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"

// A convolution is a product of the rows (pixels) of one side, each with those around it that the
// kernel's taps reach, with the weight (ConvRows says which); its weight gradient is a product
// of the rows of both sides. Nothing is unrolled into a matrix.
namespace hvd::kernels {
namespace {

// -- which rows (pixels) of its two sides a convolution connects. One side, `c`, is gone through;
// each of its rows meets what the taps of the kernel reach on the other one, `a`. Rows that meet
// the same taps in the same places differ only in where they begin, so they go through the products
// together: inside an image that is nearly all of them, and what a tap would read from the padding
// is in no product at all, which on an image of 2x2 is more than half of the work.

// Rows that meet the same taps: where each begins on both sides, in elements.
struct RowGroup {
  std::vector<std::int64_t> a, c;
  std::vector<isa::Segment> segments;  // of a; the rows `b` are counted as ConvRows says

  isa::RowPairs rows() const { return {static_cast<std::int64_t>(a.size()), a.data(), c.data()}; }
  isa::Segments parts() const {
    return {static_cast<std::int64_t>(segments.size()), segments.data()};
  }
};

class ConvRows {
 public:
  // c_is_out: `c` is the strided side of the shape, and the rows of b are (tap, channel of a); else
  // it is the padded one, and the taps come in reverse, so that what lies side by side in b does so
  // in a as well.
  ConvRows(const ConvShape& shape, bool c_is_out);

  std::int64_t depth() const { return depth_; }      // channels of a in a group
  std::int64_t columns() const { return columns_; }  // channels of c in a group
  // Lines of c, counted through all images.
  std::int64_t lines() const { return images_ * c_extent_[0]; }
  std::int64_t line_rows() const { return c_extent_[1]; }
  // The groups of lines [first, last). Offsets count from the first image and channel.
  std::vector<RowGroup> groups(std::int64_t first, std::int64_t last) const;

 private:
  // Positions of c along an axis that meet the same taps.
  struct Class {
    // Tap, as counted in b, and how far what it meets is from what the first one meets.
    std::vector<std::pair<std::int64_t, std::int64_t>> taps;
    // Position of c, and what the first tap meets.
    std::vector<std::pair<std::int64_t, std::int64_t>> positions;
  };
  static std::vector<Class> classes(const ConvShape& shape, std::size_t axis, bool c_is_out);
  std::vector<isa::Segment> segments(const Class& y, const Class& x) const;

  std::int64_t images_, depth_, columns_, a_channels_, c_channels_, kernel_width_;
  std::array<std::int64_t, 2> a_extent_, c_extent_;
  std::array<std::vector<Class>, 2> classes_;
};

ConvRows::ConvRows(const ConvShape& shape, bool c_is_out)
    : images_(shape.images),
      depth_((c_is_out ? shape.in_channels : shape.out_channels) / shape.groups),
      columns_((c_is_out ? shape.out_channels : shape.in_channels) / shape.groups),
      a_channels_(depth_ * shape.groups),
      c_channels_(columns_ * shape.groups),
      kernel_width_(shape.kernel[1]),
      a_extent_(c_is_out ? shape.in : shape.out),
      c_extent_(c_is_out ? shape.out : shape.in),
      classes_{classes(shape, 0, c_is_out), classes(shape, 1, c_is_out)} {}

std::vector<ConvRows::Class> ConvRows::classes(const ConvShape& shape, std::size_t axis,
                                               bool c_is_out) {
  const std::int64_t stride = shape.stride[axis];
  const std::int64_t extent = c_is_out ? shape.in[axis] : shape.out[axis];
  std::map<std::vector<std::pair<std::int64_t, std::int64_t>>, std::size_t> known;
  std::vector<Class> result;
  for (std::int64_t at = 0; at < (c_is_out ? shape.out[axis] : shape.in[axis]); ++at) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taps;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < shape.kernel[axis]; ++i) {
      const std::int64_t tap = c_is_out ? i : shape.kernel[axis] - 1 - i;
      const std::int64_t shift = tap * shape.dilation[axis] - shape.padding[axis];
      if (!c_is_out && (at - shift) % stride != 0) continue;
      const std::int64_t met = c_is_out ? at * stride + shift : (at - shift) / stride;
      if (met < 0 || met >= extent) continue;
      if (taps.empty()) begin = met;
      taps.emplace_back(i, met - begin);
    }
    const auto [found, fresh] = known.emplace(taps, result.size());
    if (fresh) result.push_back({std::move(taps), {}});
    result[found->second].positions.emplace_back(at, begin);
  }
  return result;
}

std::vector<isa::Segment> ConvRows::segments(const Class& y, const Class& x) const {
  std::vector<isa::Segment> result;
  for (const auto& [tap_y, dy] : y.taps) {
    for (const auto& [tap_x, dx] : x.taps) {
      const isa::Segment next = {(dy * a_extent_[1] + dx) * a_channels_,
                                 (tap_y * kernel_width_ + tap_x) * depth_, depth_};
      if (!result.empty()) {
        isa::Segment& last = result.back();
        if (last.a + last.length == next.a && last.b + last.length == next.b) {
          last.length += next.length;
          continue;
        }
      }
      result.push_back(next);
    }
  }
  return result;
}

std::vector<RowGroup> ConvRows::groups(std::int64_t first, std::int64_t last) const {
  std::vector<RowGroup> result;
  for (const Class& y : classes_[0]) {
    for (const Class& x : classes_[1]) {
      RowGroup group{{}, {}, segments(y, x)};
      for (std::int64_t image = first / c_extent_[0]; image * c_extent_[0] < last; ++image) {
        for (const auto& [at_y, met_y] : y.positions) {
          const std::int64_t line = image * c_extent_[0] + at_y;
          if (line < first || line >= last) continue;
          const std::int64_t a_line = (image * a_extent_[0] + met_y) * a_extent_[1];
          for (const auto& [at_x, met_x] : x.positions) {
            group.a.push_back((a_line + met_x) * a_channels_);
            group.c.push_back((line * c_extent_[1] + at_x) * c_channels_);
          }
        }
      }
      if (!group.a.empty()) result.push_back(std::move(group));
    }
  }
  return result;
}

// Elements of side a that a block of side c meets: they stay in the second-level cache, and so does
// the panel of the weight that they meet.
constexpr std::int64_t kBlock = std::int64_t{128} * 1024;
constexpr std::int64_t kLeastRows = 512;

using Block = std::vector<RowGroup>;

std::vector<Block> blocks(const ConvRows& rows) {
  const std::int64_t wanted =
      std::max(kBlock / std::max<std::int64_t>(rows.depth(), 1), kLeastRows);
  const std::int64_t step =
      std::max<std::int64_t>(1, wanted / std::max<std::int64_t>(rows.line_rows(), 1));
  std::vector<Block> result;
  for (std::int64_t first = 0; first < rows.lines(); first += step) {
    result.push_back(rows.groups(first, std::min(first + step, rows.lines())));
  }
  return result;
}

// Some columns of a matrix with a row for each tap and channel of side a and a column for each
// channel of side c in a group. One after the other lie in the same memory, so that they are in the
// cache when they are used; rows are padded to whole registers.
template <typename T>
class Panel {
 public:
  Panel(const ConvShape& shape, const ConvRows& rows)
      : kernels_(isa::table().of<T>()),
        groups_(shape.groups),
        taps_(shape.taps()),
        depth_(rows.depth()),
        columns_(rows.columns()),
        memory_(Tensor::zeros({taps_ * depth_ * padded(std::min(columns_, kernels_.panel))},
                              dtype_of<T>::value)) {}

  // Moves on to each panel and calls body(its first channel on side a, on side c).
  template <typename Body>
  void for_each(Body body) {
    for (group_ = 0; group_ < groups_; ++group_) {
      for (first_ = 0; first_ < columns_; first_ += kernels_.panel) {
        width_ = std::min(kernels_.panel, columns_ - first_);
        body(group_ * depth_, group_ * columns_ + first_);
      }
    }
  }

  std::int64_t width() const { return width_; }
  T* data() { return memory_.template data<T>(); }
  void clear() { std::fill_n(data(), memory_.numel(), T(0)); }

  // From a weight [groups, columns, depth, taps].
  void read(const T* weight) {
    const std::int64_t row = depth_ * taps_;
    kernels_.transpose(width_, row, weight + (group_ * columns_ + first_) * row,
                       row_offsets(width_, row).data(), data(), rows_by_tap().data());
  }

  // From the weight [groups, depth, columns, taps] of the other direction. The taps are reversed.
  void read_reversed(const T* weight) {
    std::vector<std::int64_t> to = row_offsets(taps_, depth_ * padded(width_));
    std::reverse(to.begin(), to.end());
    const std::vector<std::int64_t> from = row_offsets(width_, taps_);
    for (std::int64_t d = 0; d < depth_; ++d) {
      kernels_.transpose(width_, taps_,
                         weight + ((group_ * depth_ + d) * columns_ + first_) * taps_, from.data(),
                         data() + d * padded(width_), to.data());
    }
  }

  // The opposite of read().
  void write(T* weight) {
    const std::int64_t row = depth_ * taps_;
    kernels_.transpose(row, width_, data(), rows_by_tap().data(),
                       weight + (group_ * columns_ + first_) * row,
                       row_offsets(width_, row).data());
  }

 private:
  std::int64_t padded(std::int64_t width) const {
    return (width + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes;
  }

  // Where the row of each (channel, tap) begins.
  std::vector<std::int64_t> rows_by_tap() const {
    std::vector<std::int64_t> result;
    for (std::int64_t d = 0; d < depth_; ++d) {
      for (std::int64_t tap = 0; tap < taps_; ++tap) {
        result.push_back((tap * depth_ + d) * padded(width_));
      }
    }
    return result;
  }

  const isa::Kernels<T>& kernels_;
  const std::int64_t groups_, taps_, depth_, columns_;
  std::int64_t group_ = 0, first_ = 0, width_ = 0;
  Tensor memory_;
};

template <typename T>
void multiply(const ConvShape& shape, bool c_is_out, const T* a, const T* weight, const T* bias,
              T* c) {
  const ConvRows rows(shape, c_is_out);
  const std::vector<Block> all = blocks(rows);
  Panel<T> panel(shape, rows);
  panel.for_each([&](std::int64_t a_channel, std::int64_t c_channel) {
    c_is_out ? panel.read(weight) : panel.read_reversed(weight);
    for (const Block& block : all) {
      for (const RowGroup& group : block) {
        isa::table().of<T>().gather_gemm(group.rows(), group.parts(), panel.width(), a + a_channel,
                                         panel.data(), bias == nullptr ? nullptr : bias + c_channel,
                                         c + c_channel);
      }
    }
  });
}

template <typename T>
void sum_outer(const ConvShape& shape, const T* a, const T* c, T* weight) {
  const ConvRows rows(shape, true);
  const std::vector<Block> all = blocks(rows);
  Panel<T> sums(shape, rows);
  sums.for_each([&](std::int64_t a_channel, std::int64_t c_channel) {
    sums.clear();
    for (const Block& block : all) {
      for (const RowGroup& group : block) {
        isa::table().of<T>().gather_outer(group.rows(), group.parts(), sums.width(), a + a_channel,
                                          c + c_channel, sums.data());
      }
    }
    sums.write(weight);
  });
}

Tensor product(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
               const Tensor& bias) {
  const Tensor rows = channels_last(a);
  const Tensor dense = contiguous(weight);
  const Tensor shift = bias.defined() ? contiguous(bias) : bias;
  Tensor result = empty_channels_last(shape.images_shape(c_is_out), a.dtype());
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    multiply<T>(shape, c_is_out, rows.data<T>(), dense.data<T>(),
                shift.defined() ? shift.data<T>() : nullptr, result.data<T>());
  });
  return result;
}

// -- float16 and bfloat16, summed in float32 and rounded once. The products of bfloat16 matrices
// serve where there are any: what the positions of the kernel meet is put side by side (patches),
// block by block, and multiplied with the weight.

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
  Tensor result = empty_channels_last(shape.images_shape(c_is_out), DType::kBF16);
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
  Tensor result = Tensor::empty(shape.weight_shape(), DType::kBF16);
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

namespace {

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

}  // namespace

Tensor convolve(const ConvShape& shape, const Tensor& input, const Tensor& weight,
                const Tensor& bias) {
  if (is_half(input.dtype())) return half_convolve(shape, true, input, weight, bias);
  return product(shape, true, input, weight, bias);
}

Tensor convolve_transposed(const ConvShape& shape, const Tensor& output, const Tensor& weight,
                           const Tensor& bias) {
  if (is_half(output.dtype())) return half_convolve(shape, false, output, weight, bias);
  return product(shape, false, output, weight, bias);
}

Tensor convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output,
                            const Tensor& place) {
  if (is_half(input.dtype())) return half_convolve_weight_grad(shape, input, output);
  Tensor result = in_place_of(place, shape.weight_shape(), input, output);
  const Tensor a = channels_last(input);
  const Tensor c = channels_last(output);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_outer<T>(shape, a.data<T>(), c.data<T>(), result.data<T>());
  });
  return result;
}

}  // namespace hvd::kernels
