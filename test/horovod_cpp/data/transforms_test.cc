#include "horovod_cpp/data/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/base/status.h"
#include "horovod_cpp/data/image_ops.h"
#include "horovod_cpp/tensor/random.h"
#include "test/support/message_of.h"

namespace hvd {
namespace data {
namespace transforms {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor counting(std::int64_t height, std::int64_t width) {
  return Tensor::arange(height * width, DType::kU8).reshape({1, height, width});
}

TEST(Compose, AppliesOneTransformAfterTheOther) {
  const Compose both(CenterCrop(1), Lambda([](const Tensor& image) {
                       Tensor result = image.clone();
                       return result.add_(Tensor::full({1}, 100, DType::kU8));
                     }));
  EXPECT_THAT(both(counting(3, 3)).to_vector(), ElementsAre(104));
  EXPECT_THROW(Compose({nullptr}), InvalidArgumentError);
  EXPECT_THROW(Lambda(nullptr), InvalidArgumentError);
}

TEST(ResizeTransform, FitsTheShorterSideAndKeepsTheProportion) {
  EXPECT_EQ(Resize(10)(Tensor::zeros({3, 20, 33}, DType::kU8)).shape(), (Shape{3, 10, 16}));
  EXPECT_EQ(Resize(10)(Tensor::zeros({3, 33, 20}, DType::kU8)).shape(), (Shape{3, 16, 10}));
  EXPECT_EQ(Resize({4, 7})(Tensor::zeros({3, 33, 20}, DType::kU8)).shape(), (Shape{3, 4, 7}));
  EXPECT_THROW(Resize(0), InvalidArgumentError);
  EXPECT_THROW(Resize({3, -1}), InvalidArgumentError);
}

TEST(CenterCrop, RoundsHalvesToTheEvenSideAndPadsSmallImages) {
  EXPECT_THAT(CenterCrop(2)(counting(3, 3)).to_vector(), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(CenterCrop({1, 2})(counting(1, 5)).to_vector(), ElementsAre(2, 3));
  EXPECT_THAT(CenterCrop({2, 4})(counting(1, 1).clone().fill_(9)).to_vector(),
              ElementsAre(0, 9, 0, 0, 0, 0, 0, 0));
}

TEST(RandomCrop, ChoosesEveryPlaceEquallyOften) {
  manual_seed(1);
  const RandomCrop crop(ImageSize(1, 2));
  std::map<double, int> firsts;
  for (int i = 0; i < 4000; ++i) ++firsts[crop(counting(1, 5)).to_vector().front()];
  ASSERT_EQ(firsts.size(), 4u);
  for (const auto& [first, count] : firsts) EXPECT_NEAR(count, 1000, 150) << first;
}

TEST(RandomCrop, ReachesAllOfThePaddingAndNoFurther) {
  manual_seed(1);
  const RandomCrop crop(2, 1);
  const Tensor image = counting(2, 2);  // 0 1 / 2 3
  std::map<std::vector<double>, int> crops;
  for (int i = 0; i < 1800; ++i) ++crops[crop(image).to_vector()];
  ASSERT_EQ(crops.size(), 9u);
  for (const auto& [pixels, count] : crops) EXPECT_NEAR(count, 200, 60);
  EXPECT_TRUE(crops.contains({0, 0, 0, 0}));  // 0 in the lower right corner, the rest is padding
  EXPECT_TRUE(crops.contains({3, 0, 0, 0}));
  EXPECT_TRUE(crops.contains({2, 3, 0, 0}));
  EXPECT_TRUE(crops.contains({0, 0, 0, 1}));
}

TEST(RandomCrop, RefusesACropLargerThanTheImage) {
  EXPECT_THAT(message_of<InvalidArgumentError>([] { RandomCrop(7, 1)(counting(4, 9)); }),
              HasSubstr("a crop of 7 x 7 from an image [1, 4, 9] padded by 1"));
  EXPECT_THROW(RandomCrop(0), InvalidArgumentError);
  EXPECT_THROW(RandomCrop(2, -1), InvalidArgumentError);
}

TEST(RandomHorizontalFlip, FlipsWithItsProbability) {
  manual_seed(1);
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) {
    flipped += RandomHorizontalFlip(0.25)(counting(1, 2)).to_vector()[0] == 1 ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 250, 60);
  EXPECT_THAT(RandomHorizontalFlip(1)(counting(1, 2)).to_vector(), ElementsAre(1, 0));
  EXPECT_THAT(RandomHorizontalFlip(0)(counting(1, 2)).to_vector(), ElementsAre(0, 1));
  EXPECT_THROW(RandomHorizontalFlip(1.5), InvalidArgumentError);
}

// A ramp tells by its values which piece of the image was taken.
TEST(RandomResizedCrop, TakesAreasAndAspectsOfTheirRanges) {
  manual_seed(1);
  Tensor image = Tensor::empty({2, 100, 100});
  for (std::int64_t y = 0; y < 100; ++y) {
    image.select(0, 0).select(0, y).fill_(static_cast<double>(y));
    image.select(0, 1).select(1, y).fill_(static_cast<double>(y));
  }
  const RandomResizedCrop crop(8, {0.2, 0.5}, {0.5, 2});
  double smallest = 1;
  double largest = 0;
  int wide = 0;
  for (int i = 0; i < 500; ++i) {
    const Tensor piece = crop(image);
    ASSERT_EQ(piece.shape(), (Shape{2, 8, 8}));
    // The ramps' steps from one pixel in the middle to the next.
    const std::vector<double> rows = piece.select(0, 0).select(1, 4).to_vector();
    const std::vector<double> columns = piece.select(0, 1).select(0, 4).to_vector();
    const double height = 8 * (rows[5] - rows[4]);
    const double width = 8 * (columns[5] - columns[4]);
    const double area = height * width / 1e4;
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    EXPECT_GT(width / height, 0.45);
    EXPECT_LT(width / height, 2.2);
    wide += width > height ? 1 : 0;
  }
  EXPECT_NEAR(smallest, 0.2, 0.03);
  EXPECT_NEAR(largest, 0.5, 0.03);
  EXPECT_NEAR(wide, 250, 60);
}

TEST(RandomResizedCrop, TakesTheMiddleWhenNothingFits) {
  const RandomResizedCrop square({1, 1}, {1, 1}, {1, 1});
  const Tensor wide = counting(1, 5);  // a square of its whole area does not fit
  EXPECT_THAT(square(wide).to_vector(), ElementsAre(2));
  EXPECT_THROW(RandomResizedCrop(8, {0, 1}), InvalidArgumentError);
  EXPECT_THROW(RandomResizedCrop(8, {0.5, 1.5}), InvalidArgumentError);
  EXPECT_THROW(RandomResizedCrop(8, {0.5, 1}, {2, 1}), InvalidArgumentError);
}

TEST(ToTensor, ScalesBytesToTheUnitInterval) {
  Tensor image = Tensor::zeros({1, 1, 3}, DType::kU8);
  image.select(2, 1).fill_(51);
  image.select(2, 2).fill_(255);
  const Tensor scaled = ToTensor()(image);
  EXPECT_EQ(scaled.dtype(), DType::kF32);
  EXPECT_THAT(scaled.to_vector(), ElementsAre(0.0, static_cast<double>(0.2F), 1.0));
  EXPECT_TRUE(ToTensor()(scaled).is(scaled));
  EXPECT_THROW(ToTensor()(Tensor::zeros({1, 2, 2}, DType::kI64)), InvalidArgumentError);
}

TEST(Normalize, HasAMeanAndADeviationForEachChannelOrForAll) {
  const Tensor image = Tensor::ones({2, 1, 2});
  EXPECT_THAT(Normalize({0.5, 2}, {0.25, 4})(image).to_vector(), ElementsAre(2, 2, -0.25, -0.25));
  EXPECT_THAT(Normalize({0.5}, {0.5})(image).to_vector(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] {
                Normalize({1, 2, 3}, {1, 1, 1})(image);
              }),
              HasSubstr("with 3 channels, got float32 [2, 1, 2]"));
  EXPECT_THROW(Normalize({0}, {1})(counting(2, 2)), InvalidArgumentError);
  EXPECT_THROW(Normalize({0, 1}, {1}), InvalidArgumentError);
  EXPECT_THROW(Normalize({0}, {0}), InvalidArgumentError);
}

TEST(ColorJitter, DrawsFactorsOfItsRanges) {
  manual_seed(1);
  const Tensor image = Tensor::full({3, 1, 1}, 100, DType::kU8);
  const ColorJitter jitter(0.5);
  std::set<double> values;
  for (int i = 0; i < 2000; ++i) values.insert(jitter(image).to_vector()[0]);
  EXPECT_LE(50, *values.begin());
  EXPECT_GE(51, *values.begin());
  EXPECT_LE(148, *values.rbegin());
  EXPECT_GE(150, *values.rbegin());
  EXPECT_THAT(ColorJitter()(image).to_vector(), ElementsAre(100, 100, 100));
}

TEST(ColorJitter, ChangesContrastBeforeAndAfterBrightness) {
  manual_seed(1);
  Tensor image = Tensor::zeros({1, 1, 2}, DType::kU8);
  image.select(2, 1).fill_(200);
  const ColorJitter jitter({2, 2}, {0.5, 0.5}, {1, 1}, {0, 0});
  std::set<std::vector<double>> results;
  for (int i = 0; i < 100; ++i) results.insert(jitter(image).to_vector());
  // 0, 400 is clamped to 255 first, or 50, 150 is doubled
  EXPECT_THAT(results, ElementsAre(ElementsAre(63, 191), ElementsAre(100, 255)));
}

TEST(ColorJitter, RefusesRangesThatMakeNoSense) {
  EXPECT_THROW(ColorJitter(-0.1), InvalidArgumentError);
  EXPECT_THROW(ColorJitter(0, 0, 0, 0.6), InvalidArgumentError);
  EXPECT_THROW(ColorJitter({2, 1}, {1, 1}, {1, 1}, {0, 0}), InvalidArgumentError);
  EXPECT_THROW(ColorJitter({1, 1}, {-1, 1}, {1, 1}, {0, 0}), InvalidArgumentError);
}

TEST(Transforms, NameThemselvesBesideAnImageTheyCannotTake) {
  const Tensor flat = Tensor::zeros({4, 4});
  const std::vector<std::pair<std::string, std::shared_ptr<Transform>>> all = {
      {"Resize", std::make_shared<Resize>(2)},
      {"CenterCrop", std::make_shared<CenterCrop>(2)},
      {"RandomCrop", std::make_shared<RandomCrop>(2)},
      {"RandomResizedCrop", std::make_shared<RandomResizedCrop>(2)},
      {"RandomHorizontalFlip", std::make_shared<RandomHorizontalFlip>()},
      {"ToTensor", std::make_shared<ToTensor>()},
      {"Normalize", std::make_shared<Normalize>(std::vector{0.0}, std::vector{1.0})},
      {"ColorJitter", std::make_shared<ColorJitter>()}};
  for (const auto& [name, transform] : all) {
    const auto apply = [&transform = *transform, &flat] { transform(flat); };
    EXPECT_THAT(message_of<InvalidArgumentError>(apply),
                HasSubstr(name + ": expected an image [channels, height, width], got float32"));
  }
}

}  // namespace
}  // namespace transforms
}  // namespace data
}  // namespace hvd
