#include "test/bench/gradient_sets.h"

#include <algorithm>
#include <numeric>

namespace hvd::bench {
namespace {

// A convolution's weight, and weight and bias of the batch normalisation behind it.
void add_convolution(GradientSet& set, std::int64_t in, std::int64_t out, std::int64_t side,
                     bool bias) {
  set.push_back(in * out * side * side);
  set.insert(set.end(), bias ? 3 : 2, out);
}

}  // namespace

GradientSet resnet50() {
  GradientSet set;
  add_convolution(set, 3, 64, 7, false);
  std::int64_t in = 64;
  const int blocks_of[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage;
    const std::int64_t out = 4 * width;
    for (int block = 0; block < blocks_of[stage]; ++block) {
      add_convolution(set, in, width, 1, false);
      add_convolution(set, width, width, 3, false);
      add_convolution(set, width, out, 1, false);
      if (block == 0) add_convolution(set, in, out, 1, false);
      in = out;
    }
  }
  set.insert(set.end(), {2048 * 1000, 1000});
  std::reverse(set.begin(), set.end());
  return set;
}

GradientSet vgg11() {
  GradientSet set;
  std::int64_t in = 3;
  for (const std::int64_t out : {64, 128, 256, 256, 512, 512, 512, 512}) {
    add_convolution(set, in, out, 3, true);
    in = out;
  }
  set.insert(set.end(), {512 * 10, 10});
  std::reverse(set.begin(), set.end());
  return set;
}

GradientSet thousand_small() {
  return GradientSet(1000, 1024);
}

std::int64_t numel(const GradientSet& set) {
  return std::accumulate(set.begin(), set.end(), std::int64_t{0});
}

}  // namespace hvd::bench
