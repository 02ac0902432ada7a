#include "horovod_cpp/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/data/transforms.h"
#include "test/horovod_cpp/data/data_reference.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Folders : public TemporaryFolder {
 public:
  void file(const std::string& folder, const std::string& name, const std::string& bytes = "") {
    std::filesystem::create_directories(path() + "/" + folder);
    write(folder + "/" + name, bytes);
  }
  std::string error() const {
    return message_of<InvalidArgumentError>([&] { ImageFolder images(path()); });
  }
};

std::string image(const std::string& name) {
  const Tensor bytes = reference(name + "/file");
  return {static_cast<const char*>(bytes.data()), static_cast<std::size_t>(bytes.numel())};
}

TEST(ImageFolder, SortsClassesAndFilesAndTakesImagesOnly) {
  Folders folders;
  folders.file("dog", "2.png");
  folders.file("dog", "10.JPEG");
  folders.file("dog", "notes.txt");
  folders.file("cat", "b.jpg");
  folders.file("cat/deep", "a.jpg");
  folders.write("readme.png", "");
  const ImageFolder images(folders.path());
  EXPECT_THAT(images.classes(), ElementsAre("cat", "dog"));
  std::vector<std::string> found;
  for (const auto& [path, label] : images.samples()) {
    found.push_back(path.substr(folders.path().size() + 1) + " " + std::to_string(label));
  }
  EXPECT_THAT(found,
              ElementsAre("cat/b.jpg 0", "cat/deep/a.jpg 0", "dog/10.JPEG 1", "dog/2.png 1"));
}

TEST(ImageFolder, GivesColorImagesWithTheirLabels) {
  Folders folders;
  folders.file("a", "1.png", image("png_gray"));
  folders.file("b", "1.jpg", image("png_rgba"));  // the content counts, not the name
  const ImageFolder images(folders.path());
  ASSERT_EQ(images.size(), 2);
  EXPECT_TRUE(bitwise_equal(images.get(0)[0], reference("png_gray/rgb")));
  EXPECT_TRUE(bitwise_equal(images.get(1)[0], reference("png_rgba/rgb")));
  EXPECT_EQ(images.get(1)[1].dtype(), DType::kI64);
  EXPECT_EQ(images.get(1)[1].item(), 1);
  EXPECT_THROW(images.get(2), InvalidArgumentError);
}

TEST(ImageFolder, TransformsImagesAndNamesTheFileOfOneItCannot) {
  Folders folders;
  folders.file("a", "1.png", image("png_rgb"));
  const ImageFolder small(folders.path(), std::make_shared<transforms::Resize>(4));
  EXPECT_EQ(small.get(0)[0].shape(), (Shape{3, 4, 5}));
  const ImageFolder broken(folders.path(), std::make_shared<transforms::RandomCrop>(99));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { broken.get(0); }),
              AllOf(HasSubstr("a/1.png: "), HasSubstr("a crop of 99 x 99")));
}

TEST(ImageFolder, NamesABrokenFile) {
  Folders folders;
  folders.file("a", "1.png", image("png_rgb").substr(0, 100));
  const ImageFolder images(folders.path());
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { images.get(0); }),
              HasSubstr("a/1.png: is a broken PNG file"));
}

TEST(ImageFolder, NamesAnEmptyFolderAndAClassWithoutImages) {
  Folders folders;
  EXPECT_THAT(folders.error(), HasSubstr(folders.path() + ": has no folders"));
  folders.file("a", "1.png");
  folders.file("b", "notes.txt");
  EXPECT_THAT(folders.error(),
              HasSubstr("/b: a class without files (looked for .jpg, .jpeg, .png)"));
  EXPECT_THAT(message_of<InvalidArgumentError>([] { ImageFolder images("/nowhere/at/all"); }),
              HasSubstr("/nowhere/at/all: is not a folder"));
}

TEST(DatasetFolder, LoadsFilesOfAnyKind) {
  Folders folders;
  folders.file("a", "1.text", "abc");
  folders.file("b", "2.TEXT", "de");
  const DatasetFolder dataset(
      folders.path(),
      [](const std::string& path) {
        return Tensor::scalar(static_cast<double>(std::filesystem::file_size(path)));
      },
      {".text"});
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.get(0)[0].item(), 3);
  EXPECT_EQ(dataset.get(1)[0].item(), 2);
  EXPECT_THROW(DatasetFolder(folders.path(), nullptr, {".text"}), InvalidArgumentError);
}

}  // namespace
}  // namespace data
}  // namespace hvd
