#pragma once

#include <array>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/kernels/convolution/convolution.h"

// Which rows (pixels) of its two sides a convolution connects. One side, `c`, is gone through; each
// of its rows meets what the taps of the kernel reach on the other one, `a`. Rows that meet the
// same taps in the same places differ only in where they begin, so they go through the products
// together: inside an image that is nearly all of them, and what a tap would read from the padding
// is in no product at all, which on an image of 2x2 is more than half of the work.
namespace hvd {
namespace kernels {

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

}  // namespace kernels
}  // namespace hvd
