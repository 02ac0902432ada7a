// What a DataLoader promises whatever its workers: the same batches, drawn in the same way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "core/base/status.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/transforms.h"
#include "test/support/message_of.h"
#include "test/support/threads.h"

namespace hvd {
namespace data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Example i is {i, a number it draws}.
class Drawing : public Dataset {
 public:
  explicit Drawing(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Sample get(std::int64_t index) const override {
    return {Tensor::scalar(static_cast<double>(index), DType::kI64),
            Tensor::scalar(default_generator().uniform(), DType::kF64)};
  }

 private:
  std::int64_t size_;
};

std::map<double, double> drawn(DataLoader& loader) {
  std::map<double, double> numbers;
  for (const Sample& batch : loader) {
    const std::vector<double> indices = batch[0].to_vector();
    const std::vector<double> values = batch[1].to_vector();
    for (std::size_t i = 0; i < indices.size(); ++i) numbers[indices[i]] = values[i];
  }
  return numbers;
}

TEST(ExampleGenerator, DependsOnSeedEpochAndIndexAlone) {
  const auto dataset = std::make_shared<Drawing>(24);
  DataLoader alone(dataset, {.batch_size = 4, .shuffle = true, .seed = 3});
  const auto first = drawn(alone);
  const auto second = drawn(alone);
  EXPECT_EQ(first.size(), 24u);
  EXPECT_NE(first.at(0), first.at(1));
  EXPECT_NE(first.at(0), second.at(0));
  for (const int workers : {1, 3}) {
    DataLoader loader(dataset,
                      {.batch_size = 5, .shuffle = true, .num_workers = workers, .seed = 3});
    EXPECT_EQ(drawn(loader), first) << workers << " workers";
    EXPECT_EQ(drawn(loader), second) << workers << " workers";
  }
  DataLoader other(dataset, {.batch_size = 4, .shuffle = true, .seed = 4});
  EXPECT_NE(drawn(other).at(0), first.at(0));
}

TEST(ExampleGenerator, IsTheSameOnEveryRank) {
  const auto dataset = std::make_shared<Drawing>(12);
  DataLoader whole(dataset, {.sampler = std::make_shared<DistributedSampler>(12, 1, 0, true, 8)});
  std::map<double, double> shares;
  for (int rank = 0; rank < 3; ++rank) {
    DataLoader share(dataset,
                     {.sampler = std::make_shared<DistributedSampler>(12, 3, rank, true, 8),
                      .num_workers = rank});
    shares.merge(drawn(share));
  }
  EXPECT_EQ(shares, drawn(whole));
}

TEST(ExampleGenerator, LeavesTheCallersGeneratorAlone) {
  manual_seed(5);
  const double expected = Generator(5).uniform();
  DataLoader loader(std::make_shared<Drawing>(3), {});
  drawn(loader);
  EXPECT_EQ(default_generator().uniform(), expected);
}

TEST(ExampleGenerator, GivesStreamsThatDiffer) {
  std::map<double, int> firsts;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      for (std::int64_t index = 0; index < 8; ++index) {
        ++firsts[example_generator(seed, epoch, index).uniform()];
      }
    }
  }
  EXPECT_EQ(firsts.size(), 256u);
}

// Every batch of a pass, from the loader's current state on.
std::vector<Tensor> batches_of(DataLoader& loader) {
  std::vector<Tensor> batches;
  for (const Sample& batch : loader) batches.push_back(batch[0]);
  return batches;
}

std::shared_ptr<Dataset> augmented_images(std::int64_t count) {
  Tensor images = Tensor::empty({count, 3, 8, 8}, DType::kU8);
  for (std::int64_t i = 0; i < images.numel(); ++i) {
    images.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7);
  }
  using namespace transforms;  // NOLINT: in one function of a test
  return std::make_shared<TransformDataset>(
      std::make_shared<ImageDataset>(images, Tensor::arange(count), PixelFormat::kU8),
      std::make_shared<Compose>(RandomCrop(8, 2), RandomHorizontalFlip(), ToTensor(),
                                Normalize({0.5, 0.4, 0.3}, {0.2, 0.2, 0.3})));
}

TEST(DataLoader, GoesOnInTheMiddleOfAnEpochBitForBit) {
  const auto dataset = augmented_images(22);
  const auto loader_with = [&](int workers, std::uint64_t seed) {
    return DataLoader(dataset,
                      {.batch_size = 4, .shuffle = true, .num_workers = workers, .seed = seed});
  };
  DataLoader uninterrupted = loader_with(0, 6);
  batches_of(uninterrupted);
  const std::vector<Tensor> second = batches_of(uninterrupted);
  const std::vector<Tensor> third = batches_of(uninterrupted);

  DataLoader stopped = loader_with(2, 6);
  batches_of(stopped);
  SamplerState state;
  int seen = 0;
  for (const Sample& batch : stopped) {
    EXPECT_TRUE(bitwise_equal(batch[0], second[static_cast<std::size_t>(seen)]));
    if (++seen < 3) continue;
    state = stopped.sampler()->state();
    break;
  }
  EXPECT_EQ(state, (SamplerState{6, 1, 12}));

  DataLoader resumed = loader_with(1, 77);
  resumed.sampler()->load_state(state);
  std::vector<Tensor> rest = batches_of(resumed);
  ASSERT_EQ(rest.size(), second.size() - 3);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(rest[i], second[i + 3])) << i;
  }
  rest = batches_of(resumed);
  ASSERT_EQ(rest.size(), third.size());
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_TRUE(bitwise_equal(rest[i], third[i]));
}

TEST(DataLoader, CountsThePassBegunLastAlone) {
  DataLoader loader(std::make_shared<Drawing>(9), {.batch_size = 2});
  auto first = loader.begin();
  auto second = loader.begin();
  ++first;
  EXPECT_EQ(loader.sampler()->state().position, 2);
  ++second;
  EXPECT_EQ(loader.sampler()->state(), (SamplerState{0, 1, 4}));
}

// Batches of one, two, three ... examples.
class Growing : public BatchSampler {
 public:
  explicit Growing(std::int64_t size)
      : BatchSampler(std::make_shared<SequentialSampler>(size), 1) {}
  std::int64_t size() const override { return 3; }
  std::vector<std::vector<std::int64_t>> batches() override {
    const std::vector<std::int64_t> indices = sampler()->indices();
    std::vector<std::vector<std::int64_t>> batches;
    for (std::size_t at = 0; at < indices.size();) {
      const std::size_t count = std::min(batches.size() + 1, indices.size() - at);
      const auto first = indices.begin() + static_cast<std::ptrdiff_t>(at);
      batches.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
      at += count;
    }
    return batches;
  }
};

TEST(DataLoader, TakesTheBatchesOfABatchSampler) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Drawing>(6),
                      {.num_workers = workers, .batch_sampler = std::make_shared<Growing>(6)});
    EXPECT_EQ(loader.size(), 3);
    std::vector<std::vector<double>> batches;
    for (const Sample& batch : loader) batches.push_back(batch[0].to_vector());
    EXPECT_EQ(batches, (std::vector<std::vector<double>>{{0}, {1, 2}, {3, 4, 5}}));
    EXPECT_EQ(loader.sampler()->state().position, 6);
  }
}

TEST(DataLoader, RefusesOptionsBesideABatchSampler) {
  const auto dataset = std::make_shared<Drawing>(6);
  const auto growing = std::make_shared<Growing>(6);
  EXPECT_THROW(DataLoader(dataset, {.batch_size = 2, .batch_sampler = growing}),
               InvalidArgumentError);
  EXPECT_THROW(DataLoader(dataset, {.shuffle = true, .batch_sampler = growing}),
               InvalidArgumentError);
  EXPECT_THROW(DataLoader(dataset, {.drop_last = true, .batch_sampler = growing}),
               InvalidArgumentError);
  EXPECT_THROW(BatchSampler(nullptr, 2), InvalidArgumentError);
  EXPECT_THROW(BatchSampler(std::make_shared<SequentialSampler>(3), 0), InvalidArgumentError);
}

TEST(DataLoader, MakesBatchesWithTheCollateFunctionGiven) {
  for (const int workers : {0, 2}) {
    DataLoader loader(std::make_shared<Drawing>(4),
                      {.batch_size = 2,
                       .num_workers = workers,
                       .collate_fn = [](const std::vector<Sample>& samples) {
                         Sample batch = collate(samples);
                         batch.push_back(Tensor::scalar(static_cast<double>(samples.size())));
                         return batch;
                       }});
    for (const Sample& batch : loader) {
      ASSERT_EQ(batch.size(), 3u);
      EXPECT_EQ(batch[2].item(), 2);
    }
    DataLoader broken(std::make_shared<Drawing>(4),
                      {.batch_size = 2,
                       .num_workers = workers,
                       .collate_fn = [](const std::vector<Sample>&) -> Sample {
                         throw InvalidArgumentError("these do not stack");
                       }});
    EXPECT_EQ(message_of<InvalidArgumentError>([&] { batches_of(broken); }),
              "DataLoader: the batch that begins with example 0 of Drawing: these do not stack");
  }
}

// Counts its calls, and waits in each until it is told to go on.
class Slow : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  Sample get(std::int64_t index) const override {
    ++calls;
    while (index > 0 && !open) std::this_thread::yield();
    return {Tensor::scalar(0)};
  }
  mutable std::atomic<int> calls{0};
  std::atomic<bool> open{false};
};

TEST(DataLoader, BeginsNoFurtherExampleOnceItsLoopIsLeft) {
  const auto dataset = std::make_shared<Slow>();
  const auto order = std::make_shared<SequentialSampler>(1000);
  class OneThenAll : public BatchSampler {
   public:
    using BatchSampler::BatchSampler;
    std::vector<std::vector<std::int64_t>> batches() override {
      std::vector<std::int64_t> all = sampler()->indices();
      return {{0}, {all.begin() + 1, all.end()}};
    }
  };
  std::thread opener;
  {
    DataLoader loader(dataset,
                      {.num_workers = 1, .batch_sampler = std::make_shared<OneThenAll>(order, 1)});
    auto it = loader.begin();
    while (dataset->calls < 2) std::this_thread::yield();  // the worker is at example 1
    opener = std::thread([&, loop = engine::test::thread_id()] {
      engine::test::wait_until_asleep(loop);  // the loop has been left, and waits for the worker
      dataset->open = true;
    });
  }
  opener.join();
  EXPECT_EQ(dataset->calls, 2);
}

}  // namespace
}  // namespace data
}  // namespace hvd
