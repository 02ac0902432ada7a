#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "horovod_cpp/data/sampler.h"

namespace hvd {
namespace data {

// Groups a sampler's indices into batches. Derive from it for other groupings (say, by length):
// override size() and batches(), and take the indices from sampler(), which keeps count of passes
// and of what was handed out. Not thread-safe.
class BatchSampler {
 public:
  // Throws InvalidArgumentError without a sampler or on a batch size below 1.
  BatchSampler(std::shared_ptr<Sampler> sampler, std::int64_t batch_size, bool drop_last = false);
  virtual ~BatchSampler() = default;

  // Batches in one whole pass.
  virtual std::int64_t size() const;
  // Starts a pass of the sampler: its batches in order, none of them empty.
  virtual std::vector<std::vector<std::int64_t>> batches();

  const std::shared_ptr<Sampler>& sampler() const { return sampler_; }

 private:
  std::shared_ptr<Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;  // leave out a last batch that is not full
};

}  // namespace data
}  // namespace hvd
