#include "horovod_cpp/tensor/kernels/convolution/convolution.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/creation.h"
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

// 0, step, 2 * step, ...: where rows begin.
std::vector<std::int64_t> every(std::int64_t count, std::int64_t step) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(i * step);
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
                       every(width_, row).data(), data(), rows_by_tap().data());
  }

  // From the weight [groups, depth, columns, taps] of the other direction. The taps are reversed.
  void read_reversed(const T* weight) {
    std::vector<std::int64_t> to = every(taps_, depth_ * padded(width_));
    std::reverse(to.begin(), to.end());
    const std::vector<std::int64_t> from = every(width_, taps_);
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
                       weight + (group_ * columns_ + first_) * row, every(width_, row).data());
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

Shape images_shape(const ConvShape& shape, bool out) {
  const std::array<std::int64_t, 2> extent = out ? shape.out : shape.in;
  Shape result = {shape.images, out ? shape.out_channels : shape.in_channels};
  if (shape.spatial == 2) result.push_back(extent[0]);
  result.push_back(extent[1]);
  return result;
}

Tensor product(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
               const Tensor& bias) {
  const Tensor rows = channels_last(a);
  const Tensor dense = contiguous(weight);
  const Tensor shift = bias.defined() ? contiguous(bias) : bias;
  Tensor result = empty_channels_last(images_shape(shape, c_is_out), a.dtype());
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    multiply<T>(shape, c_is_out, rows.data<T>(), dense.data<T>(),
                shift.defined() ? shift.data<T>() : nullptr, result.data<T>());
  });
  return result;
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
  Shape weight_shape = {shape.out_channels, shape.in_channels / shape.groups};
  if (shape.spatial == 2) weight_shape.push_back(shape.kernel[0]);
  weight_shape.push_back(shape.kernel[1]);
  Tensor result = in_place_of(place, weight_shape, input, output);
  const Tensor a = channels_last(input);
  const Tensor c = channels_last(output);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_outer<T>(shape, a.data<T>(), c.data<T>(), result.data<T>());
  });
  return result;
}

}  // namespace hvd::kernels
