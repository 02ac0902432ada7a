#include <filesystem>

#include "core/base/status.h"
#include "horovod_cpp/data/byte_source.h"
#include "horovod_cpp/data/image_dataset.h"

namespace hvd {
namespace data {
namespace {

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string plain = (std::filesystem::path(folder) / name).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (may_exist(path)) return path;
  }
  throw InvalidArgumentError(plain + ": no such file, nor with .gz");
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
