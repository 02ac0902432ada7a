#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "horovod_cpp/data/dataset.h"
#include "horovod_cpp/data/sampler.h"

namespace hvd {
namespace data {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;  // a RandomSampler with `seed`: another order every pass
  std::shared_ptr<Sampler> sampler = nullptr;  // decides the order instead; excludes shuffle
  bool drop_last = false;                      // leave out a last batch that is not full
  int num_workers = 0;                         // threads that load; 0: the one that iterates
  int prefetch_factor = 2;                     // batches that may wait for the consumer, a worker
  std::uint64_t seed = 0;                      // of shuffle
};

// Gives a dataset in batches, one pass a range-for:
//
//   for (const Sample& batch : loader) ...
//
// Batches come in the sampler's order whatever the number of workers. What a dataset throws in a
// worker is rethrown where its batch would have come, and ends the pass. Leaving a loop early stops
// and joins the workers. Use one loader from one thread; passes may overlap.
class DataLoader {
 public:
  class Iterator;

  // Throws InvalidArgumentError on a missing dataset, a batch size or prefetch factor below 1, a
  // negative number of workers, or shuffle together with a sampler.
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});

  // Batches in one pass.
  std::int64_t size() const;
  const std::shared_ptr<Sampler>& sampler() const { return options_.sampler; }

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

}  // namespace data
}  // namespace hvd
