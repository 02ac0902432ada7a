#include "horovod_cpp/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <bit>

#include "core/base/status.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xffu);
  return bytes;
}

std::string idx(char type, const std::vector<std::uint32_t>& extents, const std::string& elements) {
  std::string bytes = {0, 0, type, static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) bytes += big_endian(extent);
  return bytes + elements;
}

std::string counting(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string error_of(const std::string& path) {
  return message_of<InvalidArgumentError>([&] { read_idx(path); });
}

TEST(ReadIdx, GivesShapeAndBytes) {
  const TemporaryFolder folder;
  const Tensor tensor = read_idx(folder.write("a", idx(0x08, {2, 1, 3}, counting(6))));
  EXPECT_EQ(tensor.dtype(), DType::kU8);
  EXPECT_EQ(tensor.shape(), (Shape{2, 1, 3}));
  EXPECT_THAT(tensor.to_vector(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(ReadIdx, TurnsWiderElementsFromBigEndian) {
  const TemporaryFolder folder;
  const std::string ints = big_endian(1) + big_endian(0xfffffffeu);
  EXPECT_THAT(read_idx(folder.write("i", idx(0x0c, {2}, ints))).to_vector(), ElementsAre(1, -2));
  const std::string floats = big_endian(std::bit_cast<std::uint32_t>(1.5f)) +
                             big_endian(std::bit_cast<std::uint32_t>(-2.f));
  const Tensor tensor = read_idx(folder.write("f", idx(0x0d, {2}, floats)));
  EXPECT_EQ(tensor.dtype(), DType::kF32);
  EXPECT_THAT(tensor.to_vector(), ElementsAre(1.5, -2));
  const std::string doubles = big_endian(0x3ff80000u) + big_endian(0);
  EXPECT_THAT(read_idx(folder.write("d", idx(0x0e, {1}, doubles))).to_vector(), ElementsAre(1.5));
}

TEST(ReadIdx, ReadsNoElementsAsAnEmptyTensor) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_idx(folder.write("a", idx(0x08, {0, 28, 28}, ""))).shape(), (Shape{0, 28, 28}));
}

TEST(ReadIdx, UnpacksGzip) {
  const TemporaryFolder folder;
  const std::string bytes = idx(0x08, {5}, counting(5));
  const gzFile file = gzopen(folder.file("a.gz").c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  EXPECT_THAT(read_idx(folder.file("a.gz")).to_vector(), ElementsAre(0, 1, 2, 3, 4));

  const std::string packed = folder.read("a.gz");
  EXPECT_THAT(error_of(folder.write("short.gz", packed.substr(0, packed.size() - 12))),
              HasSubstr("short.gz: the gzip data is truncated"));
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // the check sum
  EXPECT_THAT(error_of(folder.write("flipped.gz", flipped)), HasSubstr("cannot be read"));
}

TEST(ReadIdx, NamesTheFileAndWhatIsWrongWithIt) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder.file("none")), HasSubstr("none: cannot be opened: No such file"));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("is not a regular file"));
  EXPECT_THAT(error_of(folder.write("empty", "")), HasSubstr("empty: is empty"));
  EXPECT_THAT(error_of(folder.write("m", std::string("\0\0\x08", 3))),
              HasSubstr("truncated within the magic number"));
  EXPECT_THAT(error_of(folder.write("text", "hello, world")),
              HasSubstr("is not an IDX file: its magic number is 0x68656c6c"));
  EXPECT_THAT(error_of(folder.write("type", idx(0x0b, {1}, "ab"))), HasSubstr("element type 0x0b"));
  EXPECT_THAT(error_of(folder.write("header", idx(0x08, {1, 2}, "").substr(0, 10))),
              HasSubstr("truncated within the header"));
}

TEST(ReadIdx, RefusesSizesThatLieWithoutAllocatingThem) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder.write("short", idx(0x08, {2, 3}, counting(5)))),
              HasSubstr("[2, 3] of uint8 needs 6 bytes after the header, 5 are there"));
  EXPECT_THAT(error_of(folder.write("long", idx(0x08, {2, 3}, counting(7)))),
              HasSubstr("bytes left over"));
  // 2^62 bytes promised.
  EXPECT_THAT(error_of(folder.write("huge", idx(0x08, {0x80000000u, 0x80000000u}, counting(5)))),
              HasSubstr("needs 4611686018427387904 bytes"));
  EXPECT_THAT(error_of(folder.write(
                  "overflow", idx(0x0e, {0x80000000u, 0x80000000u, 0x80000000u}, counting(5)))),
              HasSubstr("promises more than 2^63 bytes"));
  // Nothing is in it, but its strides would overflow.
  EXPECT_THAT(
      error_of(folder.write("empty", idx(0x0e, {0, 0x80000000u, 0x80000000u, 0x80000000u}, ""))),
      HasSubstr("promises more than 2^63 bytes"));
}

TEST(ReadIdx, RefusesEveryTruncationOfAFile) {
  const TemporaryFolder folder;
  const std::string whole = idx(0x08, {2, 2, 2}, counting(8));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string path = folder.write("a", whole.substr(0, length));
    EXPECT_THAT(error_of(path), StartsWith(path + ": ")) << length << " bytes";
  }
}

TEST(ReadIdxImages, PairsImagesWithLabels) {
  const TemporaryFolder folder;
  const ImageDataset dataset = read_idx_images(folder.write("i", idx(0x08, {2, 1, 2}, counting(4))),
                                               folder.write("l", idx(0x08, {2}, "\x09\x01")));
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.get(1)[0].shape(), (Shape{1, 1, 2}));
  EXPECT_EQ(dataset.get(0)[1].item(), 9);
}

TEST(ReadIdxImages, RefusesFilesThatDoNotPair) {
  const TemporaryFolder folder;
  const std::string images = folder.write("i", idx(0x08, {2, 1, 2}, counting(4)));
  const std::string labels = folder.write("l", idx(0x08, {3}, counting(3)));
  const auto error = [](const std::string& a, const std::string& b) {
    return message_of<InvalidArgumentError>([&] { read_idx_images(a, b); });
  };
  EXPECT_EQ(error(images, labels), images + " holds 2 images, but " + labels + " holds 3 labels");
  EXPECT_THAT(error(labels, labels), HasSubstr("l: holds uint8 [3]: expected uint8 with 3"));
  EXPECT_THAT(error(images, images), HasSubstr("i: holds uint8 [2, 1, 2]: expected uint8 with 1"));
}

TEST(MNIST, FindsItsFilesPackedOrNot) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", idx(0x08, {1, 2, 2}, counting(4)));
  folder.write("train-labels-idx1-ubyte.gz", idx(0x08, {1}, "\x03"));  // zlib reads plain, too
  folder.write("t10k-images-idx3-ubyte", idx(0x08, {2, 2, 2}, counting(8)));
  folder.write("t10k-labels-idx1-ubyte", idx(0x08, {2}, "\x04\x05"));
  EXPECT_EQ(MNIST(folder.path()).get(0)[1].item(), 3);
  EXPECT_EQ(MNIST(folder.path(), /*train=*/false).get(1)[1].item(), 5);
  EXPECT_EQ(MNIST(folder.path(), true, PixelFormat::kU8).get(0)[0].dtype(), DType::kU8);
}

TEST(MNIST, NamesAFileThatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { MNIST mnist(folder.path()); }),
              HasSubstr("train-images-idx3-ubyte: no such file, nor with .gz"));
}

}  // namespace
}  // namespace data
}  // namespace hvd
