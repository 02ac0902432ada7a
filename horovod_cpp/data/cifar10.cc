#include <cstring>
#include <filesystem>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/data/byte_source.h"
#include "horovod_cpp/data/image_dataset.h"

namespace hvd {
namespace data {
namespace {

constexpr std::int64_t kClasses = 10;
constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kImageBytes;  // the label comes first
constexpr std::size_t kMaxRecords = 1'000'000;         // a file of the real set has 10,000

std::vector<std::string> files_of(const std::string& folder, bool train) {
  const std::filesystem::path at(folder);
  if (!train) return {(at / "test_batch.bin").string()};
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) {
    const std::filesystem::path file = at / ("data_batch_" + std::to_string(i) + ".bin");
    if (std::filesystem::exists(file)) files.push_back(file.string());
  }
  if (files.empty()) {
    throw InvalidArgumentError(folder +
                               ": none of data_batch_1.bin ... data_batch_5.bin is in this folder");
  }
  return files;
}

// The whole records of one file, checked.
std::vector<std::uint8_t> read_records(const std::string& path) {
  ByteSource source(path);
  std::vector<std::uint8_t> records = source.read(kMaxRecords * kRecordBytes + 1);
  if (records.empty()) source.fail("is empty");
  if (records.size() > kMaxRecords * kRecordBytes) {
    source.fail("has more than " + std::to_string(kMaxRecords) + " records");
  }
  if (records.size() % kRecordBytes != 0) {
    source.fail("has " + std::to_string(records.size()) + " bytes, which is no multiple of the " +
                std::to_string(kRecordBytes) + " bytes of a CIFAR-10 record");
  }
  for (std::size_t i = 0; i < records.size(); i += kRecordBytes) {
    if (records[i] < kClasses) continue;
    source.fail("record " + std::to_string(i / kRecordBytes) + " has label " +
                std::to_string(records[i]) + ": expected 0 to 9");
  }
  return records;
}

ImageDataset read_cifar10(const std::string& folder, bool train, PixelFormat format) {
  std::vector<std::vector<std::uint8_t>> files;
  std::size_t count = 0;
  for (const std::string& path : files_of(folder, train)) {
    files.push_back(read_records(path));
    count += files.back().size() / kRecordBytes;
  }
  const auto extent = static_cast<std::int64_t>(count);
  Tensor images = Tensor::empty({extent, 3, 32, 32}, DType::kU8);
  Tensor labels = Tensor::empty({extent}, DType::kI64);
  std::uint8_t* image = images.data<std::uint8_t>();
  std::int64_t* label = labels.data<std::int64_t>();
  for (const std::vector<std::uint8_t>& records : files) {
    for (std::size_t i = 0; i < records.size(); i += kRecordBytes) {
      *label++ = records[i];
      std::memcpy(image, &records[i + 1], kImageBytes);
      image += kImageBytes;
    }
  }
  return ImageDataset(images, labels, format);
}

}  // namespace

CIFAR10::CIFAR10(const std::string& folder, bool train, PixelFormat format)
    : ImageDataset(read_cifar10(folder, train, format)) {}

}  // namespace data
}  // namespace hvd
