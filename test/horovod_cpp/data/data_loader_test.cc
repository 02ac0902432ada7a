#include "horovod_cpp/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include "core/base/status.h"
#include "horovod_cpp/data/datasets.h"
#include "test/support/message_of.h"
#include "test/support/threads.h"

namespace hvd {
namespace data {
namespace {

using Batches = std::vector<std::vector<double>>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Dataset> numbers(std::int64_t count) {
  return std::make_shared<TensorDataset>(std::vector<Tensor>{Tensor::arange(count)});
}

Batches collect(DataLoader& loader) {
  Batches batches;
  for (const Sample& batch : loader) batches.push_back(batch.at(0).to_vector());
  return batches;
}

// Numbers whose earlier ones take longer, so that workers finish out of order; one of them may
// throw. Counts its calls.
class UnevenNumbers : public Dataset {
 public:
  explicit UnevenNumbers(std::int64_t size, std::int64_t broken = -1)
      : size_(size), broken_(broken) {}
  std::int64_t size() const override { return size_; }
  Sample get(std::int64_t index) const override {
    ++calls;
    std::this_thread::sleep_for(std::chrono::microseconds(index % 4 == 0 ? 1000 : 10));
    if (index == broken_) throw std::runtime_error("number " + std::to_string(index));
    return {Tensor::scalar(static_cast<double>(index), DType::kI64)};
  }
  mutable std::atomic<int> calls{0};

 private:
  std::int64_t size_;
  std::int64_t broken_;
};

TEST(DataLoader, StacksTheExamplesOfABatch) {
  const float images[] = {0, 1, 2, 3, 4, 5};
  const std::int64_t labels[] = {7, 8, 9};
  DataLoader loader(std::make_shared<TensorDataset>(std::vector<Tensor>{
                        Tensor::from(images, {3, 2}), Tensor::from(labels, {3})}),
                    {.batch_size = 2});
  auto it = loader.begin();
  EXPECT_EQ((*it)[0].shape(), (Shape{2, 2}));
  EXPECT_EQ((*it)[0].dtype(), DType::kF32);
  EXPECT_THAT((*it)[0].to_vector(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ((*it)[1].dtype(), DType::kI64);
  EXPECT_THAT((*it)[1].to_vector(), ElementsAre(7, 8));
  ++it;
  EXPECT_EQ((*it)[0].shape(), (Shape{1, 2}));
  EXPECT_THAT((*it)[1].to_vector(), ElementsAre(9));
  ++it;
  EXPECT_TRUE(it == loader.end());
}

TEST(DataLoader, KeepsOrDropsAPartialLastBatch) {
  DataLoader keeps(numbers(5), {.batch_size = 2});
  EXPECT_EQ(collect(keeps), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(keeps.size(), 3);
  DataLoader drops(numbers(5), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(collect(drops), (Batches{{0, 1}, {2, 3}}));
  EXPECT_EQ(drops.size(), 2);
}

TEST(DataLoader, GivesNoBatchOfAnEmptyDataset) {
  for (const int workers : {0, 2}) {
    DataLoader loader(numbers(0), {.batch_size = 2, .num_workers = workers});
    EXPECT_EQ(collect(loader), Batches{});
    EXPECT_EQ(loader.size(), 0);
  }
}

TEST(DataLoader, TakesABatchSizeLargerThanTheDataset) {
  DataLoader loader(numbers(3), {.batch_size = std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(collect(loader), (Batches{{0, 1, 2}}));
  EXPECT_EQ(loader.size(), 1);
}

TEST(DataLoader, ShufflesAnewEveryPassAndRepeatsWithTheSeed) {
  DataLoader loader(numbers(64), {.batch_size = 64, .shuffle = true, .seed = 3});
  DataLoader again(numbers(64), {.batch_size = 64, .shuffle = true, .seed = 3});
  DataLoader other(numbers(64), {.batch_size = 64, .shuffle = true, .seed = 4});
  const Batches first = collect(loader);
  const Batches second = collect(loader);
  EXPECT_NE(first, second);
  EXPECT_THAT(second[0], ::testing::UnorderedElementsAreArray(first[0]));
  EXPECT_EQ(collect(again), first);
  EXPECT_EQ(collect(again), second);
  EXPECT_NE(collect(other), first);
}

TEST(DataLoader, VisitsWhatTheSamplerSays) {
  DataLoader loader(numbers(6),
                    {.batch_size = 2,
                     .sampler = std::make_shared<DistributedSampler>(6, 2, 1, /*shuffle=*/false)});
  EXPECT_EQ(collect(loader), (Batches{{1, 3}, {5}}));
  EXPECT_EQ(loader.size(), 2);
}

TEST(DataLoader, KeepsTheOrderWhateverTheNumberOfWorkers) {
  const auto dataset = std::make_shared<UnevenNumbers>(61);
  DataLoader alone(dataset, {.batch_size = 3, .shuffle = true});
  const Batches expected = collect(alone);
  for (const int workers : {1, 2, 3, 8, 40}) {
    for (const int prefetch : {1, 2, 5}) {
      DataLoader loader(
          dataset,
          {.batch_size = 3, .shuffle = true, .num_workers = workers, .prefetch_factor = prefetch});
      EXPECT_EQ(collect(loader), expected) << workers << " workers, prefetch " << prefetch;
    }
  }
}

TEST(DataLoader, LoadsNoMoreAheadThanItMay) {
  const auto dataset = std::make_shared<UnevenNumbers>(100);
  DataLoader loader(dataset, {.num_workers = 2, .prefetch_factor = 3});
  const auto it = loader.begin();
  // One batch taken and 2 * 3 ahead of it; wait until they are there, then see that no more come.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (dataset->calls < 7 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset->calls, 7);
}

TEST(DataLoader, RethrowsWhatAWorkerMetWhereItsBatchWouldHaveCome) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(std::make_shared<UnevenNumbers>(20, 9),
                      {.batch_size = 2, .num_workers = workers});
    Batches seen;
    try {
      for (const Sample& batch : loader) seen.push_back(batch[0].to_vector());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "DataLoader: example 9 of UnevenNumbers: number 9");
      try {
        std::rethrow_if_nested(error);
        ADD_FAILURE() << "the original is lost";
      } catch (const std::runtime_error& original) {
        EXPECT_STREQ(original.what(), "number 9");
      }
    }
    EXPECT_EQ(seen, (Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  }
}

TEST(DataLoader, NamesTheExampleInAnErrorOfThisLibrary) {
  class Broken : public Dataset {
   public:
    std::int64_t size() const override { return 4; }
    Sample get(std::int64_t index) const override {
      if (index == 2) throw InvalidArgumentError("cat.png: is a broken PNG file");
      return {Tensor::scalar(0)};
    }
  };
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Broken>(), {.batch_size = 2, .num_workers = workers});
    EXPECT_EQ(message_of<InvalidArgumentError>([&] { collect(loader); }),
              "DataLoader: example 2 of Broken: cat.png: is a broken PNG file");
  }
}

TEST(DataLoader, EndsThePassAfterAnError) {
  DataLoader loader(std::make_shared<UnevenNumbers>(4, 1), {.num_workers = 2});
  auto it = loader.begin();
  EXPECT_THROW(++it, std::runtime_error);
  EXPECT_TRUE(it == loader.end());
}

TEST(DataLoader, LeavesNoThreadBehind) {
  const std::size_t before = engine::test::thread_count();
  const auto dataset = std::make_shared<UnevenNumbers>(50);
  DataLoader loader(dataset, {.batch_size = 2, .num_workers = 4});
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(collect(loader).size(), 25u);
    EXPECT_TRUE(engine::test::thread_count_falls_to(before));
    for (const Sample& batch : loader) {
      EXPECT_THAT(batch[0].to_vector(), ElementsAre(0, 1));
      EXPECT_GT(engine::test::thread_count(), before);
      break;
    }
    EXPECT_TRUE(engine::test::thread_count_falls_to(before));
  }
}

TEST(DataLoader, DoesNotWaitForWorkersThatAForkLeftBehind) {
  DataLoader loader(numbers(100), {.num_workers = 2});
  std::optional<DataLoader::Iterator> pass(loader.begin());
  engine::test::wait_until_others_are_asleep();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const std::string error = message_of<InvalidArgumentError>([&] { ++*pass; });
    pass.reset();
    const bool works = collect(loader).size() == 100;
    _exit(works && error.find("was forked") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ++*pass;  // the parent is as it was
  EXPECT_THAT((**pass)[0].to_vector(), ElementsAre(1));
}

TEST(DataLoader, LetsTwoPassesOverlap) {
  DataLoader loader(numbers(3), {.num_workers = 2});
  auto a = loader.begin();
  auto b = loader.begin();
  ++a;
  EXPECT_THAT((*a)[0].to_vector(), ElementsAre(1));
  EXPECT_THAT((*b)[0].to_vector(), ElementsAre(0));
}

TEST(DataLoader, RefusesExamplesThatDoNotStack) {
  class Ragged : public Dataset {
   public:
    std::int64_t size() const override { return 2; }
    Sample get(std::int64_t index) const override { return {Tensor::zeros({index + 1})}; }
  };
  DataLoader loader(std::make_shared<Ragged>(), {.batch_size = 2, .num_workers = 1});
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { collect(loader); }),
              HasSubstr("float32 [2], the first is float32 [1]"));
}

TEST(DataLoader, RefusesOptionsThatMakeNoSense) {
  const auto dataset = numbers(4);
  EXPECT_THROW(DataLoader(nullptr), InvalidArgumentError);
  EXPECT_THROW(DataLoader(dataset, {.batch_size = 0}), InvalidArgumentError);
  EXPECT_THROW(DataLoader(dataset, {.num_workers = -1}), InvalidArgumentError);
  EXPECT_THROW(DataLoader(dataset, {.prefetch_factor = 0}), InvalidArgumentError);
  EXPECT_THROW(
      DataLoader(dataset, {.shuffle = true, .sampler = std::make_shared<SequentialSampler>(4)}),
      InvalidArgumentError);
}

// As Python ends threads that take the interpreter's lock while it ends: whoever swallows that is
// aborted.
class EndsTheThread final : public Dataset {
 public:
  std::int64_t size() const override { return 1; }
  Sample get(std::int64_t) const override { pthread_exit(nullptr); }
  std::string class_name() const override { return "EndsTheThread"; }
};

TEST(DataLoader, LetsADatasetEndItsThread) {
  PassPlan plan;
  plan.dataset = std::make_shared<EndsTheThread>();
  plan.batches = {{0}};
  bool loaded = false;
  std::thread([&] {
    load_batch(plan, 0);
    loaded = true;
  }).join();
  EXPECT_FALSE(loaded);
}

}  // namespace
}  // namespace data
}  // namespace hvd
