#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <stop_token>
#include <vector>

#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/sampler.h"

namespace hvd::data {

// Makes one batch of a batch's examples. Workers call it at the same time.
using CollateFn = std::function<Sample(const std::vector<Sample>&)>;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;  // a RandomSampler with `seed`: another order every pass
  std::shared_ptr<Sampler> sampler = nullptr;  // decides the order instead; excludes shuffle
  bool drop_last = false;                      // leave out a last batch that is not full
  int num_workers = 0;                         // threads that load; 0: the one that iterates
  int prefetch_factor = 2;                     // batches that may wait for the consumer, per worker
  std::uint64_t seed = 0;                      // of the sampler, if none is given
  // Decides order and batches; excludes batch_size, shuffle, sampler and drop_last.
  std::shared_ptr<BatchSampler> batch_sampler = nullptr;
  CollateFn collate_fn = nullptr;  // collate(), if none is given
};

// Iterates over a dataset in batches, one pass per range-for:
//
//   for (const Sample& batch : loader) ...
//
// Batches come in the sampler's order whatever the number of workers. What an example draws from
// default_generator() (tensor/random.h), as the transforms do, depends on the sampler's seed, the
// epoch and the example's index alone: not on workers, ranks or batches.
//
// What a dataset throws in a worker is thrown where its batch would have come, and ends the pass:
// an error of this library as the same class, with the example's index before its message; any
// other std::exception as a std::runtime_error that names the example and has the original nested.
// Leaving a loop early stops and joins the workers, which takes as long as the examples they are
// at. Use one loader from one thread; passes may overlap. A child of fork() begins passes of its
// own: going on with one that has workers throws InvalidArgumentError there.
//
// sampler()->state() between two batches says where the pass is (of overlapping passes: the one
// begun last), prefetched batches not counted. A loader whose sampler loaded that state goes on
// with the next batch, bit for bit.
class DataLoader {
 public:
  class Iterator;

  // Throws InvalidArgumentError on a missing dataset, a batch size or prefetch factor below 1, a
  // negative number of workers, or options that exclude each other.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});

  // Batches in one whole pass.
  std::int64_t size() const { return options_.batch_sampler->size(); }
  const std::shared_ptr<Sampler>& sampler() const { return options_.batch_sampler->sampler(); }

  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
};

// The batches of one pass. begin() and ++ throw what loading their batch threw.
class DataLoader::Iterator {
 public:
  using value_type = Sample;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;

  const Sample& operator*() const { return batch_; }
  const Sample* operator->() const { return &batch_; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.pass_; }

 private:
  friend class DataLoader;
  class Pass;
  explicit Iterator(std::shared_ptr<Pass> pass);

  std::shared_ptr<Pass> pass_;  // empty at the end
  Sample batch_;
};

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

}  // namespace hvd::data
