#pragma once

#include <vector>

#include "horovod_cpp/data/dataset.h"

namespace hvd {
namespace data {

// Stacks examples into one batch: field f of the result has shape [samples, shape of field f...].
// Throws InvalidArgumentError naming position, field and both sides when the examples differ in
// number of fields, dtype or shape, or when there are none.
Sample collate(const std::vector<Sample>& samples);

}  // namespace data
}  // namespace hvd
