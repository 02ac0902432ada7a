#include <cstring>
#include <filesystem>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/image_file.h"

namespace hvd {
namespace data {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;
constexpr std::size_t kMaxRecords = 1'000'000;  // a file of the real sets has 10,000 or 50,000

// A record is label_bytes bytes of labels, the last of which counts, and an image.
struct Format {
  const char* name;
  std::size_t label_bytes;
  std::uint8_t classes;

  std::size_t record_bytes() const { return label_bytes + kImageBytes; }
  std::uint8_t label(const std::uint8_t* record) const { return record[label_bytes - 1]; }
};

constexpr Format kCifar10 = {"CIFAR-10", 1, 10};
constexpr Format kCifar100 = {"CIFAR-100", 2, 100};  // the coarse label comes first

std::vector<std::string> cifar10_files(const std::string& folder, bool train) {
  const std::filesystem::path at(folder);
  if (!train) return {(at / "test_batch.bin").string()};
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) {
    const std::filesystem::path file = at / ("data_batch_" + std::to_string(i) + ".bin");
    if (may_exist(file.string())) files.push_back(file.string());
  }
  if (files.empty()) {
    throw InvalidArgumentError(folder +
                               ": none of data_batch_1.bin ... data_batch_5.bin is in this folder");
  }
  return files;
}

std::vector<std::string> cifar100_files(const std::string& folder, bool train) {
  return {(std::filesystem::path(folder) / (train ? "train.bin" : "test.bin")).string()};
}

// The whole records of one file, checked.
std::vector<std::uint8_t> read_records(const std::string& path, const Format& format) {
  ByteSource source(path);
  const std::size_t record = format.record_bytes();
  std::vector<std::uint8_t> records = source.read(kMaxRecords * record + 1);
  if (records.empty()) source.fail("is empty");
  if (records.size() > kMaxRecords * record) {
    source.fail("has more than " + std::to_string(kMaxRecords) + " records");
  }
  if (records.size() % record != 0) {
    source.fail("has " + std::to_string(records.size()) +
                " bytes, which is not a multiple of the " + std::to_string(record) +
                " bytes of a " + format.name + " record");
  }
  for (std::size_t i = 0; i < records.size(); i += record) {
    const std::uint8_t label = format.label(&records[i]);
    if (label < format.classes) continue;
    source.fail("record " + std::to_string(i / record) + " has label " + std::to_string(label) +
                ": expected 0 to " + std::to_string(format.classes - 1));
  }
  return records;
}

ImageDataset read_cifar(const std::vector<std::string>& paths, const Format& format,
                        PixelFormat pixels) {
  std::vector<std::vector<std::uint8_t>> files;
  std::size_t count = 0;
  for (const std::string& path : paths) {
    files.push_back(read_records(path, format));
    count += files.back().size() / format.record_bytes();
  }
  const auto extent = static_cast<std::int64_t>(count);
  Tensor images = Tensor::empty({extent, 3, 32, 32}, DType::kU8);
  Tensor labels = Tensor::empty({extent}, DType::kI64);
  std::uint8_t* image = images.data<std::uint8_t>();
  std::int64_t* label = labels.data<std::int64_t>();
  for (const std::vector<std::uint8_t>& records : files) {
    for (std::size_t i = 0; i < records.size(); i += format.record_bytes()) {
      *label++ = format.label(&records[i]);
      std::memcpy(image, &records[i + format.label_bytes], kImageBytes);
      image += kImageBytes;
    }
  }
  return ImageDataset(images, labels, pixels);
}

}  // namespace

CIFAR10::CIFAR10(const std::string& folder, bool train, PixelFormat format)
    : ImageDataset(read_cifar(cifar10_files(folder, train), kCifar10, format)) {}

CIFAR100::CIFAR100(const std::string& folder, bool train, PixelFormat format)
    : ImageDataset(read_cifar(cifar100_files(folder, train), kCifar100, format)) {}

}  // namespace data
}  // namespace hvd
