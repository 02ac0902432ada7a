#pragma once

#include <cstddef>
#include <vector>

#include "horovod_cpp/distributed/gradients/gradient_access.h"

namespace hvd {

// Which gradients are reduced together, as numbers of parameters, those from `first` on.
using GradientBuckets = std::vector<std::vector<std::size_t>>;

// In order of the parameters, each of at most so many bytes or of one parameter, on one device.
GradientBuckets buckets_by_size(const std::vector<GradientParameter>& parameters, std::size_t first,
                                std::size_t bytes);
// So many, of about equal numbers of parameters.
GradientBuckets equal_buckets(const std::vector<GradientParameter>& parameters, int count);
// As given; those in no group go alone. Throws InvalidArgumentError, beginning with `owner`, on a
// parameter that is in two groups.
GradientBuckets given_buckets(const std::vector<GradientParameter>& parameters,
                              const GradientBuckets& groups, const std::string& owner);

}  // namespace hvd
