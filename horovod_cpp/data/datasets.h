#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/system/process.h"
#include "horovod_cpp/data/transforms.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd::data {

// One example, or one batch of them: the tensors a dataset returns, e.g. {image, label}.
using Sample = std::vector<Tensor>;

// A finite, indexable set of examples. get() may be called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // Throws InvalidArgumentError when index is outside [0, size()).
  virtual Sample get(std::int64_t index) const = 0;
  // Its name in messages.
  virtual std::string class_name() const { return engine::class_name_of(typeid(*this)); }
};

// Throws InvalidArgumentError unless 0 <= index < size.
void check_index(std::int64_t index, std::int64_t size);

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

// Example i is {tensors[0][i], tensors[1][i], ...}: recorded views, not copies. Throws
// InvalidArgumentError when there is no tensor, one is a scalar, or their first extents differ.
class TensorDataset : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  std::int64_t size() const override { return tensors_.front().size(0); }
  Sample get(std::int64_t index) const override;

 private:
  std::vector<Tensor> tensors_;
};

// Files sorted into one folder per class, as torchvision's: class k is the k-th folder of `root` by
// name, and its examples are the files below it (at any depth, in the order of their paths) whose
// name ends with one of the extensions, in lower or upper case; other files are left out. Example i
// is {the loaded tensor, label: int64 scalar}.
class DatasetFolder : public Dataset {
 public:
  // Turns a path into the first field of an example; several threads call it.
  using Loader = std::function<Tensor(const std::string& path)>;

  // Throws InvalidArgumentError naming the folder if `root` is not a folder or has no folders, or
  // if a class has no file with one of the extensions (such as ".png").
  DatasetFolder(const std::string& root, Loader loader, std::vector<std::string> extensions,
                std::shared_ptr<const transforms::Transform> transform = nullptr);
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  // Throws what the loader and the transform throw; a transform's error gets the path in front.
  Sample get(std::int64_t index) const override;

  const std::vector<std::string>& classes() const { return classes_; }
  // Path and label of every example.
  const std::vector<std::pair<std::string, std::int64_t>>& samples() const { return samples_; }

 private:
  Loader loader_;
  std::shared_ptr<const transforms::Transform> transform_;  // may be none
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, std::int64_t>> samples_;
};

// JPEG and PNG files (.jpg, .jpeg, .png) as uint8 [3, height, width]; see read_image().
class ImageFolder : public DatasetFolder {
 public:
  explicit ImageFolder(const std::string& root,
                       std::shared_ptr<const transforms::Transform> transform = nullptr);
};

// The examples of `dataset` at `indices`, in that order. Throws InvalidArgumentError naming the
// first index that is outside it.
class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Sample get(std::int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

// The examples of several datasets, one after the other. Throws InvalidArgumentError without any.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);
  std::int64_t size() const override { return ends_.back(); }
  Sample get(std::int64_t index) const override;

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;  // of each dataset, in examples from the first one's beginning
};

// Examples of `dataset` whose first field, the image, went through `transform`. Throws
// InvalidArgumentError without the one or the other, and in get() on an example without fields.
class TransformDataset : public Dataset {
 public:
  TransformDataset(std::shared_ptr<const Dataset> dataset,
                   std::shared_ptr<const transforms::Transform> transform);
  std::int64_t size() const override { return dataset_->size(); }
  Sample get(std::int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const transforms::Transform> transform_;
};

// Splits a dataset at random into parts of the given lengths that do not overlap. Throws
// InvalidArgumentError unless the lengths are at least 0 and add up to the dataset's size.
std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<std::int64_t>& lengths,
                                                  Generator& generator = default_generator());
// Lengths as fractions of the size, rounded down; what is left goes one each to the parts from the
// first on. Throws InvalidArgumentError unless they are at least 0 and add up to 1.
std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<double>& fractions,
                                                  Generator& generator = default_generator());

// Reads an IDX file (the format of MNIST: Y. LeCun, C. Cortes, C. Burges, "The MNIST database"),
// gzip-compressed or not: uint8, int32, float32 or float64 elements in any number of dimensions.
// Throws InvalidArgumentError naming the file and what is wrong with it: not an IDX file, an
// element type we do not have, fewer or more bytes than the header promises.
Tensor read_idx(const std::string& path);

}  // namespace hvd::data
