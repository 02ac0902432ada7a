#include "horovod_cpp/data/batch_loading.h"

#include <cxxabi.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/data/transforms.h"

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

namespace {

// Throws the exception that is being handled again, with `where` before its message.
[[noreturn]] void rethrow_with(const std::string& where) {
  try {
    throw;
  } catch (const Error& error) {
    Status(error.code(), where + error.what()).throw_if_error();
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(std::runtime_error(where + error.what()));
  }
}

Sample load_example(const PassPlan& plan, std::int64_t index) {
  const ExampleRandomness randomness(plan.seed, plan.epoch, index);
  try {
    return plan.dataset->get(index);
  } catch (...) {
    rethrow_with("DataLoader: example " + std::to_string(index) + " of " +
                 plan.dataset->class_name() + ": ");
  }
}

}  // namespace

LoadedBatch load_batch(const PassPlan& plan, std::size_t number, const std::stop_token& stop) {
  try {
    const std::vector<std::int64_t>& indices = plan.batches[number];
    std::vector<Sample> samples;
    samples.reserve(indices.size());
    for (const std::int64_t index : indices) {
      if (stop.stop_requested()) return {};
      samples.push_back(load_example(plan, index));
    }
    try {
      return {plan.collate_fn(samples), nullptr};
    } catch (...) {
      rethrow_with("DataLoader: the batch that begins with example " +
                   std::to_string(indices.front()) + " of " + plan.dataset->class_name() + ": ");
    }
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

}  // namespace data
}  // namespace hvd
