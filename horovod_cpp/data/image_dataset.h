#pragma once

#include <cstdint>
#include <string>

#include "horovod_cpp/data/dataset.h"

namespace hvd {
namespace data {

enum class PixelFormat {
  kF32,  // float32, scaled from 0 .. 255 to [0, 1]
  kU8,   // as stored
};

// Labelled images, kept as bytes. Example i is {image [channels, height, width] in the pixel
// format, label: int64 scalar}; a uint8 image and the label are views, not copies.
class ImageDataset : public Dataset {
 public:
  // images: u8 [n, channels, height, width]; labels: int64 [n]. Throws InvalidArgumentError on
  // anything else.
  ImageDataset(Tensor images, Tensor labels, PixelFormat format = PixelFormat::kF32);
  std::int64_t size() const override { return labels_.numel(); }
  Sample get(std::int64_t index) const override;

  const Tensor& images() const { return images_; }  // u8 [n, channels, height, width]
  const Tensor& labels() const { return labels_; }  // int64 [n]

 private:
  Tensor images_;
  Tensor labels_;
  PixelFormat format_;
};

// Grey images and their labels from a pair of IDX files, gzip-compressed or not. Throws
// InvalidArgumentError naming file and fault.
ImageDataset read_idx_images(const std::string& images_path, const std::string& labels_path,
                             PixelFormat format = PixelFormat::kF32);

// MNIST, or another set with its file names, in `folder`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte (t10k-... for the test set), each with or without ".gz". Images
// [1, height, width]. Throws InvalidArgumentError naming file and fault.
class MNIST : public ImageDataset {
 public:
  explicit MNIST(const std::string& folder, bool train = true,
                 PixelFormat format = PixelFormat::kF32);
};

// CIFAR-10 in its binary version: those of data_batch_1.bin ... data_batch_5.bin that are in
// `folder` (test_batch.bin for the test set). Images [3, 32, 32]. Throws InvalidArgumentError
// naming file and fault.
class CIFAR10 : public ImageDataset {
 public:
  explicit CIFAR10(const std::string& folder, bool train = true,
                   PixelFormat format = PixelFormat::kF32);
};

// CIFAR-100 in its binary version: train.bin or test.bin in `folder`. Labels are the 100 fine ones.
// Images [3, 32, 32]. Throws InvalidArgumentError naming file and fault.
class CIFAR100 : public ImageDataset {
 public:
  explicit CIFAR100(const std::string& folder, bool train = true,
                    PixelFormat format = PixelFormat::kF32);
};

}  // namespace data
}  // namespace hvd
