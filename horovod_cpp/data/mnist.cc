#include <filesystem>

#include "core/base/status.h"
#include "horovod_cpp/data/image_dataset.h"

namespace hvd {
namespace data {
namespace {

std::string find_file(const std::string& folder, const std::string& name) {
  const std::filesystem::path plain = std::filesystem::path(folder) / name;
  const std::string packed = plain.string() + ".gz";
  if (std::filesystem::exists(plain)) return plain.string();
  if (std::filesystem::exists(packed)) return packed;
  throw InvalidArgumentError(plain.string() + ": no such file, nor with .gz");
}

ImageDataset read_mnist(const std::string& folder, const std::string& set, PixelFormat format) {
  const std::string images = find_file(folder, set + "-images-idx3-ubyte");
  const std::string labels = find_file(folder, set + "-labels-idx1-ubyte");
  return read_idx_images(images, labels, format);
}

}  // namespace

MNIST::MNIST(const std::string& folder, bool train, PixelFormat format)
    : ImageDataset(read_mnist(folder, train ? "train" : "t10k", format)) {}

}  // namespace data
}  // namespace hvd
