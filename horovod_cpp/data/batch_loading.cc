#include "horovod_cpp/data/batch_loading.h"

#include <cxxabi.h>

#include <stdexcept>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/data/example_random.h"

namespace hvd {
namespace data {
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
