#include "horovod_cpp/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/data/collate.h"
#include "horovod_cpp/data/image_dataset.h"

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
