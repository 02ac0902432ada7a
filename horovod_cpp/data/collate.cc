#include "horovod_cpp/data/collate.h"

#include <cstring>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace data {
namespace {

std::string describe(const Tensor& tensor) {
  return std::string(name_of(tensor.dtype())) + " " + to_string(tensor.shape());
}

void check_alike(const std::vector<Sample>& samples) {
  const Sample& first = samples.front();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::string where = "collate: example " + std::to_string(i) + " of the batch";
    if (samples[i].size() != first.size()) {
      throw InvalidArgumentError(where + " has " + std::to_string(samples[i].size()) +
                                 " fields, the first has " + std::to_string(first.size()));
    }
    for (std::size_t f = 0; f < first.size(); ++f) {
      const Tensor& field = samples[i][f];
      if (field.dtype() == first[f].dtype() && field.shape() == first[f].shape()) continue;
      throw InvalidArgumentError(where + ", field " + std::to_string(f) + ", is " +
                                 describe(field) + ", the first is " + describe(first[f]));
    }
  }
}

Tensor stack_field(const std::vector<Sample>& samples, std::size_t field) {
  const Tensor& first = samples.front()[field];
  Shape shape = first.shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(samples.size()));
  Tensor batch = Tensor::empty(shape, first.dtype());
  const std::size_t bytes = static_cast<std::size_t>(first.numel()) * size_of(first.dtype());
  if (bytes == 0) return batch;
  auto* to = static_cast<std::byte*>(batch.data());
  for (const Sample& sample : samples) {
    std::memcpy(to, sample[field].contiguous().data(), bytes);
    to += bytes;
  }
  return batch;
}

}  // namespace

Sample collate(const std::vector<Sample>& samples) {
  if (samples.empty()) throw InvalidArgumentError("collate: a batch of no examples");
  check_alike(samples);
  Sample batch;
  for (std::size_t f = 0; f < samples.front().size(); ++f) {
    batch.push_back(stack_field(samples, f));
  }
  return batch;
}

}  // namespace data
}  // namespace hvd
