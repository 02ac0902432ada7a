#include "horovod_cpp/data/image_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/horovod_cpp/data/data_reference.h"
#include "test/support/message_of.h"

namespace hvd {
namespace data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 0, 1, 2, ... as an image of one channel.
Tensor counting(std::int64_t height, std::int64_t width, DType dtype = DType::kU8) {
  return Tensor::arange(height * width, dtype).reshape({1, height, width});
}

TEST(Resize, IsPillowsToTheBit) {
  const Tensor image = reference("resize/image");
  for (const auto& [height, width] :
       {std::pair(8, 8), {5, 40}, {34, 23}, {17, 9}, {1, 1}, {40, 50}}) {
    const std::string name = std::to_string(height) + "x" + std::to_string(width);
    EXPECT_TRUE(bitwise_equal(resize(image, height, width, "test"), reference("resize/" + name)))
        << name;
  }
}

TEST(Resize, OfFloatsDoesNotRoundToSteps) {
  const Tensor image = reference("resize/image_f32");
  for (const std::string size : {"8x8", "5x40", "34x23", "17x9", "1x1", "40x50"}) {
    const Tensor expected = reference("resize/" + size + "_f32");
    const Tensor resized = resize(image, expected.size(1), expected.size(2), "test");
    EXPECT_LT(largest_difference(resized, expected), 1e-6) << size;
  }
}

TEST(Resize, KeepsAConstantImage) {
  const Tensor white = Tensor::full({3, 301, 7}, 255, DType::kU8);
  EXPECT_THAT(resize(white, 2, 90, "test").to_vector(), ::testing::Each(255));
}

TEST(Resize, TakesViews) {
  const Tensor image = reference("resize/image");
  const Tensor view = image.transpose(1, 2);
  EXPECT_TRUE(bitwise_equal(resize(view, 5, 6, "test"), resize(view.clone(), 5, 6, "test")));
}

TEST(Crop, HasZerosWhereTheWindowLeavesTheImage) {
  const Tensor image = counting(2, 3);  // 0 1 2 / 3 4 5
  EXPECT_THAT(crop(image, 0, 1, 2, 2, "test").to_vector(), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(crop(image, -1, -1, 2, 3, "test").to_vector(), ElementsAre(0, 0, 0, 0, 0, 1));
  EXPECT_THAT(crop(image, 1, 2, 2, 3, "test").to_vector(), ElementsAre(5, 0, 0, 0, 0, 0));
  EXPECT_THAT(crop(image, 0, 5, 1, 2, "test").to_vector(), ElementsAre(0, 0));
  EXPECT_THAT(crop(image, 0, -9, 1, 2, "test").to_vector(), ElementsAre(0, 0));
}

TEST(Crop, TakesEveryChannelOfEveryDtype) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kF64}) {
    const Tensor image = Tensor::arange(12, dtype).reshape({3, 2, 2});
    EXPECT_THAT(crop(image, 1, 0, 1, 2, "test").to_vector(), ElementsAre(2, 3, 6, 7, 10, 11));
  }
}

TEST(FlipHorizontal, TurnsEveryRowOfEveryDtype) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kF64}) {
    const Tensor image = Tensor::arange(12, dtype).reshape({2, 2, 3});
    EXPECT_THAT(flip_horizontal(image, "test").to_vector(),
                ElementsAre(2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9));
  }
}

void check_colors(const std::string& color, double tolerance) {
  const Tensor image = reference(color + "/image");
  const auto check = [&](const Tensor& result, const std::string& name) {
    EXPECT_LE(largest_difference(result, reference(color + "/" + name)), tolerance) << name;
  };
  for (const std::string text : {"0.5", "1.7"}) {
    const double factor = std::stod(text);
    check(adjust_brightness(image, factor, "test"), "brightness_" + text);
    check(adjust_contrast(image, factor, "test"), "contrast_" + text);
    check(adjust_saturation(image, factor, "test"), "saturation_" + text);
  }
  for (const std::string text : {"-0.4", "0.1"}) {
    check(adjust_hue(image, std::stod(text), "test"), "hue_" + text);
  }
}

// Truncation makes two bytes of one real number that lies near a step; so one step is allowed.
TEST(Colors, ChangeAsTheFormulasSay) {
  check_colors("color_u8", 1);
  check_colors("color_f32", 2e-6);
}

TEST(Colors, LeaveTheSaturationAndHueOfOneChannel) {
  const Tensor gray = counting(3, 4);
  EXPECT_TRUE(bitwise_equal(adjust_saturation(gray, 0.2, "test"), gray));
  EXPECT_TRUE(bitwise_equal(adjust_hue(gray, 0.2, "test"), gray));
  EXPECT_THAT(adjust_contrast(gray, 0, "test").to_vector(), ::testing::Each(5));
}

TEST(ImageOps, NameTheCallerAndWhatTheyCannotTake) {
  const auto message = [](const Tensor& image) {
    return message_of<InvalidArgumentError>([&] { resize(image, 2, 2, "Resize"); });
  };
  EXPECT_THAT(message(Tensor::zeros({4, 4})), HasSubstr("Resize: expected an image"));
  EXPECT_THAT(message(Tensor::zeros({3, 0, 4})), HasSubstr("float32 [3, 0, 4]"));
  EXPECT_THAT(message(Tensor()), HasSubstr("undefined"));
  EXPECT_THAT(message(Tensor::zeros({1, 4, 4}, DType::kI32)), HasSubstr("int32 [1, 4, 4]"));
  EXPECT_THROW(adjust_hue(Tensor::zeros({2, 4, 4}), 0.1, "test"), InvalidArgumentError);
  EXPECT_THROW(adjust_hue(Tensor::zeros({3, 4, 4}, DType::kF64), 0.1, "test"),
               InvalidArgumentError);
}

}  // namespace
}  // namespace data
}  // namespace hvd
