#pragma once

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/nn/checks.h"

// What the constructors of convolutions refuse, as nn/checks.h.
namespace hvd {
namespace nn {

inline void check_pair(const char* layer, const char* argument, IntPair pair, std::int64_t least) {
  check_at_least(layer, argument, pair.height, least);
  check_at_least(layer, argument, pair.width, least);
}

inline void check_channels(const char* layer, std::int64_t in_channels, std::int64_t out_channels,
                           std::int64_t groups) {
  check_positive(layer, "in_channels", in_channels);
  check_positive(layer, "out_channels", out_channels);
  check_positive(layer, "groups", groups);
  if (in_channels % groups == 0 && out_channels % groups == 0) return;
  throw InvalidArgumentError(std::string(layer) + ": in_channels=" + std::to_string(in_channels) +
                             " and out_channels=" + std::to_string(out_channels) +
                             ": expected multiples of groups=" + std::to_string(groups));
}

inline void check_padding(const char* layer, const ConvPadding& padding, IntPair stride) {
  check_pair(layer, "padding", padding.size, 0);
  if (!padding.same || (stride.height == 1 && stride.width == 1)) return;
  throw InvalidArgumentError(std::string(layer) + ": padding 'same' needs a stride of 1");
}

}  // namespace nn
}  // namespace hvd
