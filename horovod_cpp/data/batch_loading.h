#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <vector>

#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"

namespace hvd {
namespace data {

// Stacks examples into one batch: field f of the result has shape [samples, shape of field f...].
// Throws InvalidArgumentError naming position, field and both sides when the examples differ in
// number of fields, dtype or shape, or when there are none.
Sample collate(const std::vector<Sample>& samples);

// What a pass of a DataLoader is made of. Does not change, so workers share it.
struct PassPlan {
  std::shared_ptr<const Dataset> dataset;
  CollateFn collate_fn;
  std::vector<std::vector<std::int64_t>> batches;
  std::uint64_t seed = 0;  // seed and epoch of what examples draw at random
  std::int64_t epoch = 0;
};

// A batch, or what loading it threw.
struct LoadedBatch {
  Sample batch;
  std::exception_ptr error;
};

// Loads batch `number`. Once a stop is requested no further example is begun, and what comes back
// is not meant to be used. Throws nothing, but lets pass what ends the thread: Python unwinds
// threads that take its lock while it ends.
LoadedBatch load_batch(const PassPlan& plan, std::size_t number, const std::stop_token& stop = {});

}  // namespace data
}  // namespace hvd
