#pragma once

#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include "core/system/class_name.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace data {

// One example, or one batch of them: the tensors a dataset gives, e.g. {image, label}.
using Sample = std::vector<Tensor>;

// A finite, indexable set of examples. get() may be called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // Throws InvalidArgumentError when index is outside [0, size()).
  virtual Sample get(std::int64_t index) const = 0;
  // What messages call it.
  virtual std::string class_name() const { return class_name_of(typeid(*this)); }
};

// Throws InvalidArgumentError unless 0 <= index < size.
void check_index(std::int64_t index, std::int64_t size);

}  // namespace data
}  // namespace hvd
