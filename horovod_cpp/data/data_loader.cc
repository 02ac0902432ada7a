#include "horovod_cpp/data/data_loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/data/collate.h"

namespace hvd {
namespace data {
namespace {

template <typename Int>
Int batches_of(Int examples, Int batch_size, bool drop_last) {
  return examples / batch_size + (!drop_last && examples % batch_size != 0 ? 1 : 0);
}

// Batches of one pass: which indices each of them holds.
class Plan {
 public:
  Plan(std::vector<std::int64_t> indices, const DataLoaderOptions& options)
      : indices_(std::move(indices)),
        batch_size_(static_cast<std::size_t>(options.batch_size)),
        batches_(batches_of(indices_.size(), batch_size_, options.drop_last)) {}

  std::size_t batches() const { return batches_; }
  std::span<const std::int64_t> batch(std::size_t number) const {
    const std::size_t first = number * batch_size_;
    return std::span(indices_).subspan(first, std::min(batch_size_, indices_.size() - first));
  }

 private:
  std::vector<std::int64_t> indices_;
  std::size_t batch_size_;
  std::size_t batches_;
};

// A batch, or what loading it threw.
struct Loaded {
  Sample batch;
  std::exception_ptr error;
};

Loaded load(const Dataset& dataset, std::span<const std::int64_t> indices) {
  try {
    std::vector<Sample> samples;
    samples.reserve(indices.size());
    for (const std::int64_t index : indices) samples.push_back(dataset.get(index));
    return {collate(samples), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

void check(const std::shared_ptr<const Dataset>& dataset, const DataLoaderOptions& options) {
  if (dataset == nullptr) throw InvalidArgumentError("DataLoader: no dataset");
  if (options.batch_size < 1) {
    throw InvalidArgumentError("DataLoader: batch_size=" + std::to_string(options.batch_size) +
                               ": expected at least 1");
  }
  if (options.num_workers < 0) {
    throw InvalidArgumentError("DataLoader: num_workers=" + std::to_string(options.num_workers) +
                               ": expected at least 0");
  }
  if (options.prefetch_factor < 1) {
    throw InvalidArgumentError("DataLoader: prefetch_factor=" +
                               std::to_string(options.prefetch_factor) + ": expected at least 1");
  }
  if (options.shuffle && options.sampler != nullptr) {
    throw InvalidArgumentError("DataLoader: shuffle and sampler exclude each other");
  }
}

}  // namespace

// Workers take the next batch number, load it, and leave it in the slot number % slots. A number is
// taken only when its slot is free, so at most `slots` batches are loaded ahead of the consumer.
class DataLoader::Iterator::Pass {
 public:
  Pass(std::shared_ptr<const Dataset> dataset, Plan plan, const DataLoaderOptions& options)
      : dataset_(std::move(dataset)), plan_(std::move(plan)) {
    const auto workers = std::min(static_cast<std::size_t>(options.num_workers), plan_.batches());
    slots_.resize(workers * static_cast<std::size_t>(options.prefetch_factor));
    for (std::size_t i = 0; i < workers; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  // Nothing at the end of the pass.
  std::optional<Loaded> next() {
    if (consumed_ == plan_.batches()) return std::nullopt;
    if (threads_.empty()) return load(*dataset_, plan_.batch(consumed_++));
    std::unique_lock lock(mutex_);
    std::optional<Loaded>& slot = slots_[consumed_ % slots_.size()];
    slot_filled_.wait(lock, [&] { return slot.has_value(); });
    Loaded loaded = std::move(*slot);
    slot.reset();
    ++consumed_;
    lock.unlock();
    slot_freed_.notify_one();
    return loaded;
  }

 private:
  bool may_take() const { return taken_ == plan_.batches() || taken_ < consumed_ + slots_.size(); }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (slot_freed_.wait(lock, stop, [this] { return may_take(); }) && !stop.stop_requested() &&
           taken_ < plan_.batches()) {
      const std::size_t number = taken_++;
      lock.unlock();
      Loaded loaded = load(*dataset_, plan_.batch(number));
      lock.lock();
      slots_[number % slots_.size()] = std::move(loaded);
      slot_filled_.notify_one();
    }
  }

  std::shared_ptr<const Dataset> dataset_;
  Plan plan_;

  std::mutex mutex_;  // guards what follows, up to the threads
  std::condition_variable_any slot_freed_;
  std::condition_variable_any slot_filled_;
  std::vector<std::optional<Loaded>> slots_;
  std::size_t taken_ = 0;     // by workers
  std::size_t consumed_ = 0;  // written by the consumer alone

  std::vector<std::jthread> threads_;  // last: they are joined before the rest goes
};

DataLoader::Iterator::Iterator(std::shared_ptr<Pass> pass) : pass_(std::move(pass)) {
  ++*this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  std::optional<Loaded> loaded = pass_->next();
  if (!loaded || loaded->error) pass_.reset();
  if (loaded && loaded->error) std::rethrow_exception(loaded->error);
  batch_ = loaded ? std::move(loaded->batch) : Sample{};
  return *this;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  check(dataset_, options_);
  if (options_.sampler != nullptr) return;
  const std::int64_t size = dataset_->size();
  if (options_.shuffle) {
    options_.sampler = std::make_shared<RandomSampler>(size, options_.seed);
  } else {
    options_.sampler = std::make_shared<SequentialSampler>(size);
  }
}

std::int64_t DataLoader::size() const {
  return batches_of(options_.sampler->size(), options_.batch_size, options_.drop_last);
}

DataLoader::Iterator DataLoader::begin() {
  return Iterator(std::make_shared<Iterator::Pass>(
      dataset_, Plan(options_.sampler->indices(), options_), options_));
}

}  // namespace data
}  // namespace hvd
