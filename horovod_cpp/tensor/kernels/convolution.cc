#include "horovod_cpp/tensor/kernels/convolution.h"

#include <algorithm>

#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/isa/table.h"
#include "horovod_cpp/tensor/kernels/channels_last.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/result_place.h"

// A convolution is, for each tap of the kernel, a product of the rows (pixels) of one side that the
// tap connects with rows of the other side. What a tap would read from the padding is in no pair,
// so it costs nothing: on an image of 2x2 that is more than half of the work. With few channels
// there is too little depth in a tap; then the taps' rows are put side by side first.
namespace hvd {
namespace kernels {
namespace {

constexpr std::int64_t kBlockRows = 512;  // of the result, so that they stay in the cache
constexpr std::int64_t kShallow = 16;     // channels

// One of the two sides: what lies where.
struct Side {
  std::array<std::int64_t, 2> extent;
  std::int64_t channels;  // all groups
};

Side in_side(const ConvShape& shape) {
  return {shape.in, shape.in_channels};
}
Side out_side(const ConvShape& shape) {
  return {shape.out, shape.out_channels};
}

// Rows of the side that is computed block by block, `c`, and those of the other one, `a`.
class Pairs {
 public:
  // c_is_out: the results are the strided side.
  Pairs(const ConvShape& shape, bool c_is_out)
      : shape_(shape),
        c_is_out_(c_is_out),
        a_side_(c_is_out ? in_side(shape) : out_side(shape)),
        c_side_(c_is_out ? out_side(shape) : in_side(shape)) {}

  // Lines of c, counted through all images.
  std::int64_t lines() const { return shape_.images * c_side_.extent[0]; }
  std::int64_t lines_a_block() const {
    return std::max<std::int64_t>(1, kBlockRows / std::max<std::int64_t>(c_side_.extent[1], 1));
  }
  std::int64_t line_rows() const { return c_side_.extent[1]; }

  // The pairs of one tap for lines [first, last) of c. Offsets of `c` count from line `origin` in
  // steps of c_step, those of `a` from the first image in steps of its channels.
  isa::RowPairs of_tap(std::int64_t tap, std::int64_t first, std::int64_t last, std::int64_t origin,
                       std::int64_t c_step) {
    const auto ys = partners(0, tap / shape_.kernel[1]);
    const auto xs = partners(1, tap % shape_.kernel[1]);
    a_.clear();
    c_.clear();
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t image = line / c_side_.extent[0];
      const std::int64_t y = ys[static_cast<std::size_t>(line % c_side_.extent[0])];
      if (y < 0) continue;
      const std::int64_t a_line = (image * a_side_.extent[0] + y) * a_side_.extent[1];
      const std::int64_t c_line = (line - origin) * c_side_.extent[1];
      for (std::int64_t x = 0; x < c_side_.extent[1]; ++x) {
        const std::int64_t partner = xs[static_cast<std::size_t>(x)];
        if (partner < 0) continue;
        a_.push_back((a_line + partner) * a_side_.channels);
        c_.push_back((c_line + x) * c_step);
      }
    }
    return {static_cast<std::int64_t>(a_.size()), a_.data(), c_.data()};
  }

  // Pairs of row i of a block, which are `step` apart, with row i of c from line `first` on.
  isa::RowPairs straight(std::int64_t first, std::int64_t last, std::int64_t step) {
    a_.clear();
    c_.clear();
    const std::int64_t begin = first * line_rows();
    for (std::int64_t row = begin; row < last * line_rows(); ++row) {
      a_.push_back((row - begin) * step);
      c_.push_back(row * c_side_.channels);
    }
    return {static_cast<std::int64_t>(a_.size()), a_.data(), c_.data()};
  }

 private:
  // For each position of c along an axis, what the tap connects it with; -1 = padding.
  std::vector<std::int64_t> partners(std::size_t axis, std::int64_t tap) const {
    std::vector<std::int64_t> result;
    const std::int64_t shift = tap * shape_.dilation[axis] - shape_.padding[axis];
    const std::int64_t stride = shape_.stride[axis];
    for (std::int64_t at = 0; at < c_side_.extent[axis]; ++at) {
      std::int64_t partner = c_is_out_ ? at * stride + shift : at - shift;
      if (!c_is_out_) partner = partner < 0 || partner % stride != 0 ? -1 : partner / stride;
      result.push_back(partner >= 0 && partner < a_side_.extent[axis] ? partner : -1);
    }
    return result;
  }

  const ConvShape& shape_;
  const bool c_is_out_;
  const Side a_side_;
  const Side c_side_;
  std::vector<std::int64_t> a_, c_;
};

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Rows of side a that a block of c meets, all taps' side by side: [rows, depth * taps].
template <typename T>
void gather_patches(Pairs& pairs, const ConvShape& shape, std::int64_t depth, std::int64_t first,
                    std::int64_t last, const T* a, T* patches) {
  const std::int64_t taps = shape.taps();
  std::fill_n(patches, (last - first) * pairs.line_rows() * depth * taps, T(0));
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const isa::RowPairs rows = pairs.of_tap(tap, first, last, first, depth * taps);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const T* from = a + rows.a[i];
      T* to = patches + rows.c[i] + tap;
      for (std::int64_t d = 0; d < depth; ++d) to[d * taps] = from[d];
    }
  }
}

// The weight as the right side of products: for each group, for each panel of up to `panel` columns
// of the result side, rows (depth, tap) of the panel's columns, padded to whole registers.
template <typename T>
class Packed {
 public:
  Packed(const ConvShape& shape, bool c_is_out, const Tensor& weight)
      : kernels_(isa::table().of<T>()),
        taps_(shape.taps()),
        depth_((c_is_out ? shape.in_channels : shape.out_channels) / shape.groups),
        columns_((c_is_out ? shape.out_channels : shape.in_channels) / shape.groups),
        padded_(round_up(columns_, kernels_.lanes)),
        memory_(Tensor::empty({shape.groups * depth_ * taps_ * padded_}, weight.dtype())) {
    if (padded_ != columns_) std::fill_n(memory_.template data<T>(), memory_.numel(), T(0));
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const T* from = weight.data<T>() + group * depth_ * taps_ * columns_;
      for (std::int64_t first = 0; first < columns_; first += kernels_.panel) {
        if (c_is_out) {
          pack_transposed(from + first * depth_ * taps_, group, first);
        } else {
          pack_straight(from + first * taps_, group, first);
        }
      }
    }
  }

  std::int64_t columns() const { return columns_; }
  std::int64_t width(std::int64_t first) const {
    return std::min(kernels_.panel, columns_ - first);
  }
  // Rows of a panel are this far apart.
  std::int64_t ld(std::int64_t first) const { return round_up(width(first), kernels_.lanes); }
  T* panel(std::int64_t group, std::int64_t first) const {
    return memory_.template data<T>() + depth_ * taps_ * (group * padded_ + first);
  }

 private:
  // weight [columns, depth, taps]
  void pack_transposed(const T* from, std::int64_t group, std::int64_t first) {
    kernels_.transpose(width(first), depth_ * taps_, from, depth_ * taps_, panel(group, first),
                       ld(first));
  }

  // weight [depth, columns, taps]
  void pack_straight(const T* from, std::int64_t group, std::int64_t first) {
    T* to = panel(group, first);
    for (std::int64_t d = 0; d < depth_; ++d, from += columns_ * taps_, to += taps_ * ld(first)) {
      kernels_.transpose(width(first), taps_, from, taps_, to, ld(first));
    }
  }

  const isa::Kernels<T>& kernels_;
  const std::int64_t taps_, depth_, columns_, padded_;
  Tensor memory_;
};

// Rows [begin, end) of `channels` each become the bias, or zero.
template <typename T>
void start_rows(const Tensor& bias, std::int64_t rows, std::int64_t channels, T* out) {
  if (!bias.defined()) {
    std::fill_n(out, rows * channels, T(0));
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(bias.data<T>(), channels, out + i * channels);
  }
}

// Cuts the work into products of rows: for each block of c, start(first row, rows); then for each
// group and tap, or for all taps at once where they are shallow,
// body(rows, what rows.a counts from, group, depth, tap, taps a row of the weight is apart).
template <typename T, typename Start, typename Body>
void for_each_product(const ConvShape& shape, bool c_is_out, const T* a, Start start, Body body) {
  Pairs pairs(shape, c_is_out);
  const std::int64_t taps = shape.taps();
  const std::int64_t depth = (c_is_out ? shape.in_channels : shape.out_channels) / shape.groups;
  const std::int64_t c_channels = c_is_out ? shape.out_channels : shape.in_channels;
  const bool shallow = depth < kShallow && taps > 1;
  const std::int64_t step = pairs.lines_a_block();
  const Tensor patches =
      Tensor::empty({shallow ? step * pairs.line_rows() * depth * taps : 0}, dtype_of<T>::value);
  for (std::int64_t first = 0; first < pairs.lines(); first += step) {
    const std::int64_t last = std::min(first + step, pairs.lines());
    start(first * pairs.line_rows(), (last - first) * pairs.line_rows());
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const T* left = a + group * depth;
      if (shallow) {
        gather_patches(pairs, shape, depth, first, last, left, patches.data<T>());
        body(pairs.straight(first, last, depth * taps), patches.data<T>(), group, depth * taps,
             std::int64_t{0}, std::int64_t{1});
        continue;
      }
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        body(pairs.of_tap(tap, first, last, 0, c_channels), left, group, depth, tap, taps);
      }
    }
  }
}

template <typename T>
void multiply(const ConvShape& shape, bool c_is_out, const T* a, const Tensor& weight,
              const Tensor& bias, T* c) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  const Packed<T> packed(shape, c_is_out, weight);
  const std::int64_t channels = packed.columns() * shape.groups;
  for_each_product(
      shape, c_is_out, a,
      [&](std::int64_t row, std::int64_t rows) {
        start_rows(bias, rows, channels, c + row * channels);
      },
      [&](const isa::RowPairs& rows, const T* left, std::int64_t group, std::int64_t depth,
          std::int64_t tap, std::int64_t taps) {
        for (std::int64_t n = 0; n < packed.columns(); n += kernels.panel) {
          kernels.gather_gemm(rows, depth, packed.width(n), left,
                              packed.panel(group, n) + tap * packed.ld(n), taps * packed.ld(n),
                              c + group * packed.columns() + n);
        }
      });
}

// sums [groups, depth, taps, columns] += what a and the gradient c give.
template <typename T>
void sum_outer(const ConvShape& shape, const T* a, const T* c, T* sums) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  const std::int64_t columns = shape.out_channels / shape.groups;
  const std::int64_t group_size = shape.in_channels / shape.groups * shape.taps() * columns;
  for_each_product(
      shape, true, a, [](std::int64_t, std::int64_t) {},
      [&](const isa::RowPairs& rows, const T* left, std::int64_t group, std::int64_t depth,
          std::int64_t tap, std::int64_t taps) {
        T* sum = sums + group * group_size + tap * columns;
        for (std::int64_t n = 0; n < columns; n += kernels.panel) {
          kernels.gather_outer(rows, depth, std::min(kernels.panel, columns - n), left,
                               c + group * columns + n, sum + n, taps * columns);
        }
      });
}

Shape images_shape(const ConvShape& shape, const Side& side) {
  Shape result = {shape.images, side.channels};
  if (shape.spatial == 2) result.push_back(side.extent[0]);
  result.push_back(side.extent[1]);
  return result;
}

Tensor product(const ConvShape& shape, bool c_is_out, const Tensor& a, const Tensor& weight,
               const Tensor& bias) {
  const Tensor rows = channels_last(a);
  const Tensor dense = contiguous(weight);
  const Tensor shift = bias.defined() ? contiguous(bias) : bias;
  Tensor result = empty_channels_last(
      images_shape(shape, c_is_out ? out_side(shape) : in_side(shape)), a.dtype());
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    multiply<T>(shape, c_is_out, rows.data<T>(), dense, shift, result.data<T>());
  });
  return result;
}

}  // namespace

Tensor convolve(const ConvShape& shape, const Tensor& input, const Tensor& weight,
                const Tensor& bias) {
  return product(shape, true, input, weight, bias);
}

Tensor convolve_transposed(const ConvShape& shape, const Tensor& output, const Tensor& weight,
                           const Tensor& bias) {
  return product(shape, false, output, weight, bias);
}

Tensor convolve_weight_grad(const ConvShape& shape, const Tensor& input, const Tensor& output,
                            const Tensor& place) {
  const std::int64_t rows = shape.in_channels / shape.groups * shape.taps();
  const std::int64_t columns = shape.out_channels / shape.groups;
  const Tensor sums = Tensor::zeros({shape.groups, rows, columns}, input.dtype());
  Shape weight_shape = {shape.out_channels, shape.in_channels / shape.groups};
  if (shape.spatial == 2) weight_shape.push_back(shape.kernel[0]);
  weight_shape.push_back(shape.kernel[1]);
  Tensor result = in_place_of(place, weight_shape, input, output);
  const Tensor a = channels_last(input);
  const Tensor c = channels_last(output);
  dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_outer<T>(shape, a.data<T>(), c.data<T>(), sums.data<T>());
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      const std::int64_t at = group * rows * columns;
      isa::table().of<T>().transpose(rows, columns, sums.data<T>() + at, columns,
                                     result.data<T>() + at, rows);
    }
  });
  return result;
}

}  // namespace kernels
}  // namespace hvd
