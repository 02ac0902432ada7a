#include "horovod_cpp/data/batch_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace data {

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size,
                           bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  if (sampler_ == nullptr) throw InvalidArgumentError("BatchSampler: no sampler");
  if (batch_size < 1) {
    throw InvalidArgumentError("BatchSampler: batch_size=" + std::to_string(batch_size) +
                               ": expected at least 1");
  }
}

std::int64_t BatchSampler::size() const {
  const std::int64_t examples = sampler_->size();
  return examples / batch_size_ + (!drop_last_ && examples % batch_size_ != 0 ? 1 : 0);
}

std::vector<std::vector<std::int64_t>> BatchSampler::batches() {
  const std::vector<std::int64_t> indices = sampler_->indices();
  std::vector<std::vector<std::int64_t>> batches;
  auto at = indices.begin();
  while (at != indices.end()) {
    const std::int64_t count = std::min<std::int64_t>(batch_size_, indices.end() - at);
    if (drop_last_ && count < batch_size_) break;
    batches.emplace_back(at, at + count);
    at += count;
  }
  return batches;
}

}  // namespace data
}  // namespace hvd
