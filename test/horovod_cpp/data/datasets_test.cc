#include "horovod_cpp/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/transforms.h"

namespace hvd {
namespace data {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<TensorDataset> pairs() {
  const float values[] = {1, 2, 3, 4, 5, 6};
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{Tensor::from(values, {3, 2}), Tensor::arange(3)});
}

TEST(TensorDataset, GivesARowOfEachTensor) {
  const auto dataset = pairs();
  EXPECT_EQ(dataset->size(), 3);
  const Sample sample = dataset->get(1);
  ASSERT_EQ(sample.size(), 2u);
  EXPECT_EQ(sample[0].shape(), Shape{2});
  EXPECT_THAT(sample[0].to_vector(), ElementsAre(3, 4));
  EXPECT_EQ(sample[1].shape(), Shape{});
  EXPECT_EQ(sample[1].item(), 1);
}

TEST(TensorDataset, GivesExamplesThatLeadBackToTheTensors) {
  const Tensor values = Tensor::zeros({3, 2}).requires_grad_();
  const Tensor example = TensorDataset({values}).get(1)[0];
  EXPECT_TRUE(example.requires_grad());
  sum(example).backward();
  EXPECT_THAT(values.grad().to_vector(), ElementsAre(0, 0, 1, 1, 0, 0));
}

TEST(TensorDataset, RefusesAnIndexOutside) {
  EXPECT_THROW(pairs()->get(3), InvalidArgumentError);
  EXPECT_THROW(pairs()->get(-1), InvalidArgumentError);
}

TEST(TensorDataset, RefusesTensorsThatDoNotPair) {
  EXPECT_THROW(TensorDataset({}), InvalidArgumentError);
  EXPECT_THROW(TensorDataset({Tensor::zeros({2}), Tensor::zeros({3})}), InvalidArgumentError);
  EXPECT_THROW(TensorDataset({Tensor::scalar(1)}), InvalidArgumentError);
  EXPECT_THROW(TensorDataset({Tensor()}), InvalidArgumentError);
}

TEST(Subset, GivesTheChosenExamplesInTheirOrder) {
  const Subset subset(pairs(), {2, 0, 2});
  EXPECT_EQ(subset.size(), 3);
  EXPECT_EQ(subset.get(0)[1].item(), 2);
  EXPECT_EQ(subset.get(1)[1].item(), 0);
  EXPECT_EQ(subset.get(2)[1].item(), 2);
  EXPECT_THROW(subset.get(3), InvalidArgumentError);
}

TEST(Subset, RefusesAnIndexOutsideAtOnce) {
  EXPECT_THROW(Subset(pairs(), {0, 3}), InvalidArgumentError);
  EXPECT_THROW(Subset(nullptr, {}), InvalidArgumentError);
}

TEST(ConcatDataset, GivesOneDatasetAfterTheOther) {
  const auto empty = std::make_shared<Subset>(pairs(), std::vector<std::int64_t>{});
  const ConcatDataset both({pairs(), empty, pairs()});
  ASSERT_EQ(both.size(), 6);
  std::vector<double> labels;
  for (std::int64_t i = 0; i < both.size(); ++i) labels.push_back(both.get(i)[1].item());
  EXPECT_THAT(labels, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THROW(both.get(6), InvalidArgumentError);
  EXPECT_THROW(both.get(-1), InvalidArgumentError);
  EXPECT_THROW(ConcatDataset({}), InvalidArgumentError);
  EXPECT_THROW(ConcatDataset({pairs(), nullptr}), InvalidArgumentError);
}

TEST(RandomSplit, GivesEveryExampleToOnePart) {
  const auto dataset = std::make_shared<TensorDataset>(std::vector<Tensor>{Tensor::arange(10)});
  const auto values_of = [](const Subset& part) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < part.size(); ++i) values.push_back(part.get(i)[0].item());
    return values;
  };
  Generator generator(3);
  const auto parts = random_split(dataset, std::vector<std::int64_t>{7, 0, 3}, generator);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1]->size(), 0);
  std::vector<double> all = values_of(*parts[0]);
  const std::vector<double> last = values_of(*parts[2]);
  all.insert(all.end(), last.begin(), last.end());
  EXPECT_THAT(all, ::testing::Not(::testing::ElementsAreArray(Tensor::arange(10).to_vector())));
  EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(Tensor::arange(10).to_vector()));

  Generator same(3);
  const auto again = random_split(dataset, std::vector<std::int64_t>{7, 0, 3}, same);
  EXPECT_EQ(values_of(*again[2]), last);
}

TEST(RandomSplit, RoundsFractionsDownAndGivesTheRestToTheFirst) {
  const auto dataset = std::make_shared<TensorDataset>(std::vector<Tensor>{Tensor::arange(11)});
  const auto parts = random_split(dataset, std::vector<double>{0.25, 0.25, 0.5});
  EXPECT_EQ(parts[0]->size(), 3);
  EXPECT_EQ(parts[1]->size(), 3);
  EXPECT_EQ(parts[2]->size(), 5);
}

TEST(RandomSplit, RefusesLengthsThatDoNotAddUp) {
  using Lengths = std::vector<std::int64_t>;
  EXPECT_THROW(random_split(pairs(), Lengths{1, 1}), InvalidArgumentError);
  EXPECT_THROW(random_split(pairs(), Lengths{4, -1}), InvalidArgumentError);
  EXPECT_THROW(random_split(pairs(), std::vector<double>{0.5, 0.4}), InvalidArgumentError);
  EXPECT_THROW(random_split(pairs(), std::vector<double>{1.5, -0.5}), InvalidArgumentError);
  EXPECT_THROW(random_split(nullptr, Lengths{}), InvalidArgumentError);
}

TEST(TransformDataset, ChangesTheFirstFieldAlone) {
  const auto doubled = std::make_shared<transforms::Lambda>([](const Tensor& image) {
    Tensor result = image.clone();
    return result.mul_(2);
  });
  const TransformDataset dataset(pairs(), doubled);
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_THAT(dataset.get(1)[0].to_vector(), ElementsAre(6, 8));
  EXPECT_EQ(dataset.get(1)[1].item(), 1);
  EXPECT_THAT(pairs()->get(1)[0].to_vector(), ElementsAre(3, 4));
  EXPECT_THROW(TransformDataset(nullptr, doubled), InvalidArgumentError);
  EXPECT_THROW(TransformDataset(pairs(), nullptr), InvalidArgumentError);
}

TEST(Collate, StacksViewsThatAreNotContiguous) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const Tensor columns = Tensor::from(values, {3, 2}).t();
  const Sample batch = collate({{columns.select(0, 1)}, {columns.select(0, 0)}});
  EXPECT_EQ(batch[0].shape(), (Shape{2, 3}));
  EXPECT_THAT(batch[0].to_vector(), ElementsAre(2, 4, 6, 1, 3, 5));
}

TEST(Collate, RefusesExamplesThatDiffer) {
  EXPECT_THROW(collate({}), InvalidArgumentError);
  EXPECT_THROW(collate({{Tensor::zeros({2})}, {}}), InvalidArgumentError);
  EXPECT_THROW(collate({{Tensor::zeros({2})}, {Tensor::zeros({2, 1})}}), InvalidArgumentError);
  EXPECT_THROW(collate({{Tensor::zeros({2})}, {Tensor::zeros({2}, DType::kF64)}}),
               InvalidArgumentError);
}

TEST(ImageDataset, ScalesPixelsToTheUnitInterval) {
  Tensor images = Tensor::zeros({2, 1, 1, 3}, DType::kU8);
  const std::uint8_t pixels[] = {0, 51, 255, 1, 2, 3};
  std::copy(std::begin(pixels), std::end(pixels), images.data<std::uint8_t>());
  const ImageDataset dataset(images, Tensor::arange(2));
  const Sample sample = dataset.get(0);
  EXPECT_EQ(sample[0].dtype(), DType::kF32);
  EXPECT_EQ(sample[0].shape(), (Shape{1, 1, 3}));
  EXPECT_THAT(sample[0].to_vector(), ElementsAre(0.0, static_cast<double>(0.2f), 1.0));
  EXPECT_EQ(dataset.get(1)[1].dtype(), DType::kI64);
  EXPECT_EQ(dataset.get(1)[1].item(), 1);
  EXPECT_THROW(dataset.get(2), InvalidArgumentError);
}

TEST(ImageDataset, GivesRawBytesOnRequest) {
  const ImageDataset dataset(Tensor::full({1, 3, 2, 2}, 200, DType::kU8), Tensor::arange(1),
                             PixelFormat::kU8);
  EXPECT_EQ(dataset.get(0)[0].dtype(), DType::kU8);
  EXPECT_THAT(dataset.get(0)[0].to_vector(), ::testing::Each(200));
}

TEST(ImageDataset, RefusesImagesAndLabelsThatDoNotPair) {
  const Tensor images = Tensor::zeros({2, 1, 4, 4}, DType::kU8);
  EXPECT_THROW(ImageDataset(images, Tensor::arange(3)), InvalidArgumentError);
  EXPECT_THROW(ImageDataset(images, Tensor::zeros({2})), InvalidArgumentError);
  EXPECT_THROW(ImageDataset(images.select(1, 0), Tensor::arange(2)), InvalidArgumentError);
  EXPECT_THROW(ImageDataset(Tensor::zeros({2, 1, 4, 4}), Tensor::arange(2)), InvalidArgumentError);
}

}  // namespace
}  // namespace data
}  // namespace hvd
