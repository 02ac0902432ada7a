#include "horovod_cpp/tensor/kernels/convolution/conv_rows.h"

#include <algorithm>
#include <map>

namespace hvd {
namespace kernels {

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

}  // namespace kernels
}  // namespace hvd
