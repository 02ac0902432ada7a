// Files and folders that nobody means, and samplers told nonsense: an error that names them, soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <random>

#include "core/base/status.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/image_file.h"
#include "horovod_cpp/data/transforms.h"
#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/tensor/memory.h"
#include "test/horovod_cpp/data/data_reference.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

template <typename Action>
std::string error_of(Action action) {
  return message_of<InvalidArgumentError>(action);
}

// A folder with one class of one (empty) picture.
class Pictures : public TemporaryFolder {
 public:
  Pictures() {
    fs::create_directory(file("a"));
    write("a/1.png", "");
  }
};

TEST(BadFiles, AProgressiveImageIsMeasuredBeforeMemoryForItIsTaken) {
  const Tensor bytes = reference("jpeg_progressive/file");
  std::string jpeg(static_cast<const char*>(bytes.data()), static_cast<std::size_t>(bytes.numel()));
  jpeg.replace(jpeg.find("\xFF\xC2") + 5, 4, "\xFF\x00\xFF\x00", 4);
  const std::span file(reinterpret_cast<const std::uint8_t*>(jpeg.data()), jpeg.size());
  EXPECT_THAT(error_of([&] { decode_image(file, "cat"); }),
              HasSubstr("cat: has 65280 x 65280 pixels, which is more than 2^28"));
}

TEST(BadFiles, AFileLargerThanAnyImageIsNotReadIntoMemory) {
  const TemporaryFolder folder;
  const std::string path = folder.write("huge.jpg", "");
  fs::resize_file(path, std::uintmax_t{1} << 40);  // sparse
  EXPECT_THAT(error_of([&] { read_image(path); }),
              HasSubstr("huge.jpg: has 1099511627776 bytes, too many for an image"));
}

TEST(BadFiles, ALinkToAFolderAboveItIsNotFollowedForEver) {
  const Pictures pictures;
  fs::create_directory_symlink("../a", pictures.file("a/again"));
  const auto error = [&] { return error_of([&] { ImageFolder images(pictures.path()); }); };
  EXPECT_THAT(error(), AllOf(HasSubstr("/a/again: is a link to "), HasSubstr("/a, a folder")));
  fs::remove(pictures.file("a/again"));
  fs::create_directory(pictures.file("b"));
  fs::create_directory_symlink("../b", pictures.file("a/there"));
  fs::create_directory_symlink("../a", pictures.file("b/back"));
  EXPECT_THAT(error(), HasSubstr("/a/there/back: is a link to "));
  fs::remove(pictures.file("b/back"));  // a link to a folder elsewhere is like any folder
  pictures.write("b/2.png", "");
  EXPECT_EQ(ImageFolder(pictures.path()).size(), 3);
}

TEST(BadFiles, ALinkToNowhereIsNotLeftOutInSilence) {
  const Pictures pictures;
  fs::create_symlink("gone.png", pictures.file("a/2.png"));
  const ImageFolder images(pictures.path());
  ASSERT_EQ(images.size(), 2);
  EXPECT_THAT(error_of([&] { images.get(1); }), HasSubstr("a/2.png: cannot be opened"));
}

TEST(BadFiles, AFolderThatCannotBeAskedAboutIsNamed) {
  const std::string folder(5000, 'x');
  EXPECT_THAT(error_of([&] { CIFAR10 images(folder); }), HasSubstr("xxx/data_batch_1.bin: cannot"));
  EXPECT_THAT(error_of([&] { MNIST images(folder); }), HasSubstr("xxx/train-images-idx3-ubyte: "));
}

// `bytes` with some of them flipped, replaced, repeated, or left out.
std::string damaged(std::string bytes, std::mt19937& random) {
  for (auto i = random() % 5 + 1; i > 0 && !bytes.empty(); --i) {
    // Headers are short, and worth more than what follows.
    const std::size_t last =
        random() % 2 == 0 ? std::min<std::size_t>(bytes.size(), 64) : bytes.size();
    const std::size_t at = random() % last;
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes.replace(at, 4, "\xFF\xFF\xFF\x7F", random() % 4 + 1);
        break;
      case 2:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
        break;
      case 3:
        bytes.erase(at, random() % 40);
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

TEST(BadFiles, DamageOfAnyKindIsAnErrorOrAnotherContent) {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  io::save(folder.file("whole"), {{"w", Tensor::ones({2, 3})}, {"e", Tensor::ones({0})}},
           {{"k", "v"}});
  std::vector<std::string> files = {
      folder.read("whole"), std::string("\0\0\x0D\2\0\0\0\2\0\0\0\3", 12) + std::string(24, 'x'),
      std::string(2 * 3073, '\3')};
  for (const char* name : {"jpeg_rgb", "jpeg_progressive", "jpeg_cmyk", "png_palette", "png_16"}) {
    const Tensor bytes = reference(std::string(name) + "/file");
    files.emplace_back(static_cast<const char*>(bytes.data()),
                       static_cast<std::size_t>(bytes.numel()));
  }
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string& whole = files[random() % files.size()];
    const std::string path = folder.write("data_batch_1.bin", damaged(whole, random));
    try {
      if (&whole == &files[0]) {
        io::load(path);
      } else if (&whole == &files[1]) {
        read_idx(path);
      } else if (&whole == &files[2]) {
        CIFAR10 images(folder.path());
      } else {
        read_image(path);
      }
    } catch (const InvalidArgumentError& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(BadSettings, ALoaderLooksNoFurtherAheadThanItsBatches) {
  const auto dataset = std::make_shared<TensorDataset>(std::vector<Tensor>{Tensor::arange(6)});
  DataLoaderOptions options;
  options.num_workers = 2;
  options.prefetch_factor = std::numeric_limits<int>::max();
  DataLoader loader(dataset, options);
  std::int64_t batches = 0;
  for (const Sample& batch : loader) batches += batch[0].numel();
  EXPECT_EQ(batches, 6);
}

TEST(BadSettings, ASamplerTakesNoNegativeEpochOrCount) {
  SequentialSampler sampler(4);
  EXPECT_THAT(error_of([&] { sampler.set_epoch(-1); }), HasSubstr("set_epoch: epoch -1"));
  EXPECT_THAT(error_of([&] { sampler.advance(-2); }), HasSubstr("advance: count -2"));
  EXPECT_EQ(sampler.state(), SamplerState{});
}

// Only a user without privileges has a limit, and it counts all that the user runs.
void begin_without_threads(DataLoader& loader) {
  constexpr rlimit kNone{0, 0};
  constexpr uid_t kNobody = 65534;
  if (getuid() == 0 && setuid(kNobody) != 0) _exit(2);
  if (setrlimit(RLIMIT_NPROC, &kNone) != 0) _exit(3);
  try {
    loader.begin();
  } catch (const InvalidArgumentError& error) {
    std::fprintf(stderr, "%s", error.what());
    _exit(0);
  }
  _exit(1);
}

TEST(BadSettings, MoreWorkersThanTheSystemStartsAreAnErrorThatSaysSo) {
  const auto dataset = std::make_shared<TensorDataset>(std::vector<Tensor>{Tensor::arange(10)});
  DataLoaderOptions options;
  options.num_workers = 2;
  DataLoader loader(dataset, options);
  EXPECT_EXIT(begin_without_threads(loader), testing::ExitedWithCode(0),
              "DataLoader: num_workers=2: the system starts only 0 threads more");
}

TEST(BadSettings, ASamplerTooLargeForMemoryIsNamed) {
  for (const std::int64_t size : {std::int64_t{1} << 43, std::int64_t{1} << 62}) {
    const std::string words = "a sampler of " + std::to_string(size) + " examples: no memory";
    EXPECT_THAT(message_of<OutOfMemoryError>([&] { SequentialSampler(size).indices(); }),
                HasSubstr(words));
    EXPECT_THAT(message_of<OutOfMemoryError>([&] { RandomSampler(size).indices(); }),
                HasSubstr(words));
  }
}

TEST(BadSettings, NormalizeTakesNoDeviationThatIsNoNumber) {
  using transforms::Normalize;
  EXPECT_THAT(error_of([] { Normalize({0}, {std::nan("")}); }), HasSubstr("a deviation of nan"));
  EXPECT_THAT(error_of([] { Normalize({0}, {0}); }), HasSubstr("a deviation of 0"));
}

}  // namespace
}  // namespace data
}  // namespace hvd
