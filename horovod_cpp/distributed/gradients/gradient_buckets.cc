#include "horovod_cpp/distributed/gradients/gradient_buckets.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "core/base/status.h"

namespace hvd {

std::int64_t GradientParameter::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t GradientParameter::bytes() const {
  return static_cast<std::size_t>(numel()) * size_of(dtype);
}

GradientBuckets buckets_by_size(const std::vector<GradientParameter>& parameters, std::size_t first,
                                std::size_t bytes) {
  GradientBuckets buckets;
  std::size_t filled = 0;
  for (std::size_t i = first; i < parameters.size(); ++i) {
    const GradientParameter& each = parameters[i];
    if (buckets.empty() || filled + each.bytes() > bytes ||
        each.device != parameters[i - 1].device) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(i);
    filled += each.bytes();
  }
  return buckets;
}

GradientBuckets equal_buckets(const std::vector<GradientParameter>& parameters, int count) {
  const std::size_t size = parameters.size();
  const std::size_t buckets = std::min(static_cast<std::size_t>(count), size);
  GradientBuckets result(buckets);
  for (std::size_t i = 0; i < size; ++i) result[i * buckets / size].push_back(i);
  return result;
}

GradientBuckets given_buckets(const std::vector<GradientParameter>& parameters,
                              const GradientBuckets& groups, const std::string& owner) {
  std::vector<bool> placed(parameters.size());
  GradientBuckets buckets;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t i : groups[g]) {
      if (placed.at(i)) {
        throw InvalidArgumentError(owner + ": groups[" + std::to_string(g) + "] has parameter '" +
                                   parameters[i].name + "', which is in another group already");
      }
      placed[i] = true;
    }
    if (!groups[g].empty()) buckets.push_back(groups[g]);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!placed[i]) buckets.push_back({i});
  }
  return buckets;
}

}  // namespace hvd
