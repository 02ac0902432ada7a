#include "examples/cifar/data.h"

#include <filesystem>
#include <vector>

namespace cifar {
namespace {

namespace fs = std::filesystem;
using hvd::Tensor;
using hvd::data::CIFAR10;
using hvd::data::ImageDataset;
using hvd::data::PixelFormat;
using hvd::data::TransformDataset;

// Mean and deviation of the training images' channels.
const std::vector<double> kMean = {0.4914, 0.4822, 0.4465};
const std::vector<double> kDeviation = {0.2470, 0.2435, 0.2616};

Data with_transforms(std::shared_ptr<const hvd::data::Dataset> train,
                     std::shared_ptr<const hvd::data::Dataset> test) {
  namespace t = hvd::data::transforms;
  return {std::make_shared<TransformDataset>(
              std::move(train),
              std::make_shared<t::Compose>(t::RandomCrop(32, 4), t::RandomHorizontalFlip(),
                                           t::ToTensor(), t::Normalize(kMean, kDeviation))),
          std::make_shared<TransformDataset>(
              std::move(test),
              std::make_shared<t::Compose>(t::ToTensor(), t::Normalize(kMean, kDeviation)))};
}

std::shared_ptr<ImageDataset> made_up(std::int64_t count, std::uint64_t seed) {
  hvd::Generator random(seed);
  const Tensor labels = hvd::randint(0, 10, {count}, random);
  const Tensor images = Tensor::empty({count, 3, 32, 32}, hvd::DType::kU8);
  auto* pixel = images.data<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = labels.data<std::int64_t>()[i];
    for (std::int64_t at = 0; at < std::int64_t{3} * 32 * 32; ++at) {
      const std::int64_t channel = at / 1024, column = at % 32;
      std::uint64_t value = random.below(96);
      if (label % 3 == channel) value += 80;
      if (column / 3 == label) value += 80;
      *pixel++ = static_cast<std::uint8_t>(value);
    }
  }
  return std::make_shared<ImageDataset>(images, labels, PixelFormat::kU8);
}

}  // namespace

Data load(const std::string& folder) {
  for (const char* below : {"", "cifar10", "cifar-10-batches-bin"}) {
    const std::string at = (fs::path(folder) / below).string();
    if (folder.empty() || !fs::exists(fs::path(at) / "test_batch.bin")) continue;
    return with_transforms(std::make_shared<CIFAR10>(at, /*train=*/true, PixelFormat::kU8),
                           std::make_shared<CIFAR10>(at, /*train=*/false, PixelFormat::kU8));
  }
  throw hvd::InvalidArgumentError(
      "no CIFAR-10 in '" + folder +
      "': get the binary version, cifar-10-binary.tar.gz, from "
      "www.cs.toronto.edu/~kriz/cifar.html, "
      "unpack it and give the folder with data_batch_1.bin ... data_batch_5.bin and "
      "test_batch.bin as --data or in HVD_DATA_DIR; or try --synthetic");
}

Data synthetic(std::int64_t train, std::uint64_t seed) {
  return with_transforms(made_up(train, seed), made_up(train / 2, seed + 1));
}

PartOfBatches::PartOfBatches(std::shared_ptr<hvd::data::Sampler> sampler, std::int64_t global_batch,
                             int rank, int size)
    : BatchSampler(std::move(sampler), global_batch, /*drop_last=*/true),
      global_batch_(global_batch),
      part_(global_batch / size),
      first_(part_ * rank) {}

std::int64_t PartOfBatches::size() const {
  return sampler()->size() / global_batch_;
}

std::vector<std::vector<std::int64_t>> PartOfBatches::batches() {
  const std::vector<std::int64_t> order = sampler()->indices();
  std::vector<std::vector<std::int64_t>> parts;
  for (std::int64_t batch = 0; batch < size(); ++batch) {
    const auto begin = order.begin() + batch * global_batch_ + first_;
    parts.emplace_back(begin, begin + part_);
  }
  return parts;
}

}  // namespace cifar
