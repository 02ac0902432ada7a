#include "horovod_cpp/data/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/horovod_cpp/data/data_reference.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string file_of(const std::string& name) {
  const Tensor bytes = reference(name + "/file");
  return {static_cast<const char*>(bytes.data()), static_cast<std::size_t>(bytes.numel())};
}

std::span<const std::uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
}

std::string error_of(const std::string& file) {
  return message_of<InvalidArgumentError>([&] { decode_image(bytes_of(file), "cat"); });
}

TEST(ReadImage, DecodesEveryKindOfPngAsPillowDoes) {
  const TemporaryFolder folder;
  for (const std::string kind :
       {"rgb", "rgba", "gray", "gray_alpha", "palette", "bits", "16", "interlaced"}) {
    const std::string path = folder.write("picture", file_of("png_" + kind));
    EXPECT_TRUE(bitwise_equal(read_image(path), reference("png_" + kind + "/rgb"))) << kind;
  }
}

// Releases of libjpeg round differently.
TEST(ReadImage, DecodesEveryKindOfJpegAsPillowDoes) {
  const TemporaryFolder folder;
  for (const std::string kind : {"rgb", "progressive", "gray", "cmyk"}) {
    const std::string path = folder.write("picture", file_of("jpeg_" + kind));
    EXPECT_LE(largest_difference(read_image(path), reference("jpeg_" + kind + "/rgb")), 2) << kind;
  }
}

TEST(ReadImage, GivesGrayOrWhatIsStoredOnRequest) {
  const auto decode = [](const std::string& name, ImageMode mode) {
    const std::string file = file_of(name);
    return decode_image(bytes_of(file), name, mode);
  };
  EXPECT_TRUE(bitwise_equal(decode("png_rgb", ImageMode::kGray), reference("png_rgb/gray")));
  EXPECT_TRUE(bitwise_equal(decode("png_gray", ImageMode::kGray),
                            reference("png_gray/rgb").slice(0, 0, 1)));
  for (const std::string name : {"png_rgba", "png_gray_alpha"}) {
    EXPECT_TRUE(bitwise_equal(decode(name, ImageMode::kUnchanged), reference(name + "/unchanged")));
  }
  EXPECT_EQ(decode("jpeg_gray", ImageMode::kUnchanged).shape(), (Shape{1, 19, 27}));
}

TEST(ReadImage, NamesATruncatedFileWhereverItEnds) {
  for (const std::string name : {"jpeg_rgb", "jpeg_progressive", "png_rgb", "png_interlaced"}) {
    const std::string whole = file_of(name);
    for (std::size_t length = 8; length < whole.size() - 2; length += 7) {
      EXPECT_THAT(error_of(whole.substr(0, length)), AllOf(HasSubstr("cat: "), HasSubstr("broken")))
          << name << " of " << length << " bytes";
    }
  }
}

TEST(ReadImage, NamesACorruptFile) {
  std::string png = file_of("png_rgb");
  png[png.size() / 2] ^= 1;
  EXPECT_THAT(error_of(png), HasSubstr("cat: is a broken PNG file: "));
  std::string jpeg = file_of("jpeg_rgb");
  const std::size_t scan = jpeg.find("\xFF\xDA");
  jpeg.replace(scan + 40, 2, "\xFF\xD9");  // the end of an image in the middle of it
  EXPECT_THAT(error_of(jpeg), HasSubstr("cat: is a broken JPEG file: "));
}

TEST(ReadImage, ReadsAGoodFileAfterABrokenOne) {
  const std::string whole = file_of("jpeg_rgb");
  error_of(whole.substr(0, whole.size() / 2));
  EXPECT_EQ(decode_image(bytes_of(whole), "cat").shape(), (Shape{3, 19, 27}));
}

TEST(ReadImage, RefusesMorePixelsThanAnyoneMeans) {
  std::string jpeg = file_of("jpeg_rgb");
  const std::size_t frame = jpeg.find("\xFF\xC0");
  jpeg.replace(frame + 5, 4, "\xFF\x00\xFF\x00", 4);
  EXPECT_THAT(error_of(jpeg), HasSubstr("65280 x 65280 pixels, which is more than 2^28"));
}

TEST(ReadImage, NamesWhatIsNoImage) {
  const TemporaryFolder folder;
  const auto message = [](const std::string& path) {
    return message_of<InvalidArgumentError>([&] { read_image(path); });
  };
  EXPECT_THAT(message(folder.write("a.jpg", "GIF89a")),
              HasSubstr("a.jpg: is neither JPEG nor PNG"));
  EXPECT_THAT(message(folder.write("b.png", "")), HasSubstr("b.png: is empty"));
  EXPECT_THAT(message(folder.file("c.png")), HasSubstr("c.png: cannot be opened: No such file"));
  EXPECT_THAT(message(folder.path()), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace data
}  // namespace hvd
