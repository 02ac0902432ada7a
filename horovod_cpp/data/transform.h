#pragma once

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace data {
namespace transforms {

// A function from an image [channels, height, width] to a tensor. Several threads may call one
// transform. What it draws at random comes from the thread's default_generator(), which a
// DataLoader seeds anew for every example. The argument stays as it was.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Tensor operator()(const Tensor& image) const = 0;
};

}  // namespace transforms
}  // namespace data
}  // namespace hvd
