#pragma once

#include <string>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace data {

// Reads an IDX file (the format of MNIST: Y. LeCun, C. Cortes, C. Burges, "The MNIST database"),
// gzip-compressed or not: uint8, int32, float32 or float64 elements in any number of dimensions.
// Throws InvalidArgumentError naming the file and what is wrong with it: not an IDX file, an
// element type we do not have, fewer or more bytes than the header promises.
Tensor read_idx(const std::string& path);

}  // namespace data
}  // namespace hvd
