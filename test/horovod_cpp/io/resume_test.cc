// A run that stops and goes on from its checkpoint equals one that never stopped.
#include <gtest/gtest.h>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/io/checkpoint.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/lr_scheduler.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace {

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kBatches = 6;  // a pass
constexpr std::int64_t kSteps = 4 * kBatches;

std::shared_ptr<data::Dataset> examples() {
  Generator generator(5);
  const Tensor inputs = randn({kBatch * kBatches, 8}, DType::kF32, generator);
  const Tensor labels = randint(0, 3, {kBatch * kBatches}, generator);
  return std::make_shared<data::TensorDataset>(std::vector<Tensor>{inputs, labels});
}

// An MLP with dropout, a shuffling sampler, momentum or Adam, and a schedule of both options.
class Training {
 public:
  explicit Training(std::uint64_t seed, bool adam) : dataset_(examples()) {
    manual_seed(seed);
    model_ = std::make_unique<nn::Sequential>(nn::Linear(8, 16), nn::ReLU(), nn::Dropout(0.3),
                                              nn::Linear(16, 3));
    if (adam) {
      optimizer_ = std::make_unique<optim::Adam>(model_->parameters());
    } else {
      optimizer_ =
          std::make_unique<optim::SGD>(model_->parameters(), optim::SGDOptions{.momentum = 0.9});
    }
    schedule_ = std::make_unique<optim::lr_scheduler::OneCycleLR>(
        *optimizer_,
        optim::lr_scheduler::OneCycleLROptions{.max_lr = {0.05}, .total_steps = kSteps});
  }

  void train(std::int64_t until) {
    while (step_ < until) {
      auto sampler = std::make_shared<data::RandomSampler>(kBatch * kBatches, 11);
      sampler->set_epoch(step_ / kBatches);
      data::DataLoader loader(dataset_, {.batch_size = kBatch, .sampler = sampler});
      std::int64_t batch = step_ / kBatches * kBatches;
      for (const auto& sample : loader) {
        if (batch++ < step_) continue;  // seen before the checkpoint
        if (step_ == until) return;
        optimizer_->zero_grad();
        cross_entropy((*model_)(sample[0]), sample[1]).backward();
        optimizer_->step();
        schedule_->step();
        ++step_;
      }
    }
  }

  void save(const std::string& path) {
    io::save_checkpoint(path, {.parts = {{"model", model_->state_dict()},
                                         {"optimizer", optimizer_->state_dict()},
                                         {"schedule", schedule_->state_dict()},
                                         {"sampler", io::integers({{"step", step_}})},
                                         {"random", {{"state", get_rng_state()}}}}});
  }

  void load(const std::string& path) {
    const io::Checkpoint checkpoint = io::load_checkpoint(path);
    model_->load_state_dict(checkpoint.part("model"));
    optimizer_->load_state_dict(checkpoint.part("optimizer"));
    schedule_->load_state_dict(checkpoint.part("schedule"));
    step_ = io::integers_from(checkpoint.part("sampler")).at("step");
    set_rng_state(checkpoint.tensor("random", "state"));
  }

  NamedTensors state() {
    NamedTensors all = model_->state_dict();
    for (const auto& entry : optimizer_->state_dict()) all.push_back(entry);
    return all;
  }

 private:
  std::shared_ptr<data::Dataset> dataset_;
  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::lr_scheduler::LRScheduler> schedule_;
  std::int64_t step_ = 0;
};

TEST(Resume, EqualsAnUninterruptedRunBitForBit) {
  for (const bool adam : {false, true}) {
    Training whole(1, adam);
    whole.train(kSteps);
    const NamedTensors expected = whole.state();
    for (const std::int64_t stop : {kBatches, 2 * kBatches + 2}) {  // after a pass, and inside one
      const TemporaryFolder folder;
      {
        Training first(1, adam);
        first.train(stop);
        first.save(folder.file("a"));
      }
      Training second(99, adam);  // whatever it began with is overwritten
      second.load(folder.file("a"));
      second.train(kSteps);
      const NamedTensors given = second.state();
      ASSERT_EQ(given.size(), expected.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(given[i].second, expected[i].second))
            << given[i].first << " after stopping at step " << stop;
      }
    }
  }
}

}  // namespace
}  // namespace hvd
