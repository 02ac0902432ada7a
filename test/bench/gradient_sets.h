#pragma once

#include <cstdint>
#include <vector>

namespace hvd::bench {

// Elements of each gradient, in the order in which backward produces them.
using GradientSet = std::vector<std::int64_t>;

GradientSet resnet50();  // 161 tensors, 25,557,032 floats
// The CIFAR-10 one, with biases and batch normalisation: 34 tensors, 9,231,114 floats.
GradientSet vgg11();
GradientSet thousand_small();  // 1,000 tensors of 1,024 floats

std::int64_t numel(const GradientSet& set);

}  // namespace hvd::bench
