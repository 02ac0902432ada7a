#pragma once

#include <stdexcept>
#include <string>

#include "test/horovod_cpp/reference_file.h"

namespace hvd {
namespace data {

// A tensor of test/support/reference/data.safetensors.
inline Tensor reference(const std::string& name) {
  return reference_tensor("data", name);
}

// The largest difference between elements of two tensors of one shape and dtype.
inline double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    throw std::invalid_argument(to_string(a) + " beside " + to_string(b));
  }
  const std::vector<double> x = a.to_vector();
  const std::vector<double> y = b.to_vector();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

}  // namespace data
}  // namespace hvd
