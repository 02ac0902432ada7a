#include "horovod_cpp/data/data_loader.h"

#include <cxxabi.h>
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/scoped.h"
#include "core/base/status.h"
#include "core/system/engine_thread.h"
#include "core/system/process.h"
#include "horovod_cpp/data/image_ops.h"
#include "horovod_cpp/data/transforms.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::data {
namespace {

void check_alike(const std::vector<Sample>& samples) {
  const Sample& first = samples.front();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::string where = "collate: example " + std::to_string(i) + " of the batch";
    if (samples[i].size() != first.size()) {
      throw InvalidArgumentError(where, " has ", samples[i].size(), " fields, the first has ",
                                 first.size());
    }
    for (std::size_t f = 0; f < first.size(); ++f) {
      const Tensor& field = samples[i][f];
      if (field.dtype() == first[f].dtype() && field.shape() == first[f].shape()) continue;
      throw InvalidArgumentError(where, ", field ", f, ", is ", describe(field), ", the first is ",
                                 describe(first[f]));
    }
  }
}

Tensor stack_field(const std::vector<Sample>& samples, std::size_t field) {
  const Tensor& first = samples.front()[field];
  Shape shape = first.shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(samples.size()));
  Tensor batch = Tensor::empty(shape, first.dtype());
  const std::size_t bytes = bytes_of(first);
  if (bytes == 0) return batch;
  auto* to = static_cast<std::byte*>(batch.data());
  for (const Sample& sample : samples) {
    std::memcpy(to, kernels::contiguous(sample[field]).data(), bytes);
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

Sample load_example(const PassPlan& plan, std::int64_t index) {
  const Scoped randomness(default_generator(), example_generator(plan.seed, plan.epoch, index));
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

namespace {

void check(const std::shared_ptr<const Dataset>& dataset, const DataLoaderOptions& options) {
  if (dataset == nullptr) throw InvalidArgumentError("DataLoader: no dataset");
  const auto check_at_least = [](const char* option, std::int64_t value, int least) {
    if (value >= least) return;
    throw InvalidArgumentError("DataLoader: ", option, "=", value, ": expected at least ", least);
  };
  check_at_least("batch_size", options.batch_size, 1);
  check_at_least("num_workers", options.num_workers, 0);
  check_at_least("prefetch_factor", options.prefetch_factor, 1);
  if (options.shuffle && options.sampler != nullptr) {
    throw InvalidArgumentError("DataLoader: shuffle and sampler exclude each other");
  }
  if (options.batch_sampler != nullptr && (options.batch_size != 1 || options.shuffle ||
                                           options.sampler != nullptr || options.drop_last)) {
    throw InvalidArgumentError(
        "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last");
  }
}

std::shared_ptr<Sampler> sampler_for(std::int64_t size, const DataLoaderOptions& options) {
  if (options.sampler != nullptr) return options.sampler;
  if (options.shuffle) return std::make_shared<RandomSampler>(size, options.seed);
  return std::make_shared<SequentialSampler>(size, options.seed);
}

}  // namespace

// Workers take the next batch number, load it, and leave it in the slot number % slots. A number is
// taken only when its slot is free, so at most `slots` batches are loaded ahead of the consumer.
class DataLoader::Iterator::Pass {
 public:
  Pass(PassPlan plan, std::shared_ptr<Sampler> sampler, int num_workers, int prefetch_factor)
      : plan_(std::move(plan)), sampler_(std::move(sampler)), number_(sampler_->passes()) {
    const auto workers = std::min(static_cast<std::size_t>(num_workers), plan_.batches.size());
    slots_.resize(
        std::min(workers * static_cast<std::size_t>(prefetch_factor), plan_.batches.size()));
    try {
      for (std::size_t i = 0; i < workers; ++i) {
        threads_.push_back(engine::start_engine_thread<std::jthread>(
            [this](const std::stop_token& stop) { work(stop); }));
      }
    } catch (const std::system_error& error) {
      throw InvalidArgumentError("DataLoader: num_workers=", num_workers,
                                 ": the system starts only ", threads_.size(),
                                 " threads more: ", error.what());
    }
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  // A child of fork() has no workers to join, and they may have held the mutex.
  static void drop(Pass* pass) {
    if (!pass->workers_are_elsewhere()) delete pass;
  }

  // Nothing at the end of the pass.
  std::optional<LoadedBatch> next() {
    if (workers_are_elsewhere()) {
      throw InvalidArgumentError(
          "DataLoader: this process was forked in the middle of a pass, whose workers stayed in "
          "the parent; begin another pass here");
    }
    if (consumed_ == plan_.batches.size()) return std::nullopt;
    const auto examples = static_cast<std::int64_t>(plan_.batches[consumed_].size());
    LoadedBatch loaded = threads_.empty() ? load_batch(plan_, consumed_++) : take_slot();
    if (!loaded.error && sampler_->passes() == number_) sampler_->advance(examples);
    return loaded;
  }

 private:
  bool workers_are_elsewhere() const {
    return !threads_.empty() && engine::fork_generation() != generation_;
  }

  LoadedBatch take_slot() {
    std::unique_lock lock(mutex_);
    std::optional<LoadedBatch>& slot = slots_[consumed_ % slots_.size()];
    slot_filled_.wait(lock, [&] { return slot.has_value(); });
    LoadedBatch loaded = std::move(*slot);
    slot.reset();
    ++consumed_;
    lock.unlock();
    slot_freed_.notify_one();
    return loaded;
  }

  bool may_take() const {
    return taken_ == plan_.batches.size() || taken_ < consumed_ + slots_.size();
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (slot_freed_.wait(lock, stop, [this] { return may_take(); }) && !stop.stop_requested() &&
           taken_ < plan_.batches.size()) {
      const std::size_t number = taken_++;
      lock.unlock();
      LoadedBatch loaded = load_batch(plan_, number, stop);
      lock.lock();
      slots_[number % slots_.size()] = std::move(loaded);
      slot_filled_.notify_one();
    }
  }

  PassPlan plan_;
  std::shared_ptr<Sampler> sampler_;  // of the consumer's thread
  std::int64_t number_;               // of this pass among the sampler's
  const std::uint32_t generation_ = engine::fork_generation();

  std::mutex mutex_;  // guards what follows, up to the threads
  std::condition_variable_any slot_freed_;
  std::condition_variable_any slot_filled_;
  std::vector<std::optional<LoadedBatch>> slots_;
  std::size_t taken_ = 0;     // by workers
  std::size_t consumed_ = 0;  // written by the consumer alone

  std::vector<std::jthread> threads_;  // last: they are joined before the rest goes
};

DataLoader::Iterator::Iterator(std::shared_ptr<Pass> pass) : pass_(std::move(pass)) {
  ++*this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  std::optional<LoadedBatch> loaded = pass_->next();
  if (!loaded || loaded->error) pass_.reset();
  if (loaded && loaded->error) std::rethrow_exception(loaded->error);
  batch_ = loaded ? std::move(loaded->batch) : Sample{};
  return *this;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  check(dataset_, options_);
  if (options_.collate_fn == nullptr) options_.collate_fn = collate;
  if (options_.batch_sampler != nullptr) return;
  options_.batch_sampler = std::make_shared<BatchSampler>(sampler_for(dataset_->size(), options_),
                                                          options_.batch_size, options_.drop_last);
}

DataLoader::Iterator DataLoader::begin() {
  std::vector<std::vector<std::int64_t>> batches = options_.batch_sampler->batches();
  for (const std::vector<std::int64_t>& batch : batches) {
    if (batch.empty()) throw InvalidArgumentError("DataLoader: the batch sampler gave no index");
  }
  const SamplerState state = sampler()->state();
  PassPlan plan{dataset_, options_.collate_fn, std::move(batches), state.seed, state.epoch};
  auto pass = std::make_unique<Iterator::Pass>(std::move(plan), sampler(), options_.num_workers,
                                               options_.prefetch_factor);
  return Iterator(std::shared_ptr<Iterator::Pass>(pass.release(), &Iterator::Pass::drop));
}

}  // namespace hvd::data
