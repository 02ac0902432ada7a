#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd::data {

// The generator of example `index` in pass `epoch`: a function of the three numbers alone, whatever
// thread or rank loads the example.
Generator example_generator(std::uint64_t seed, std::int64_t epoch, std::int64_t index);

namespace transforms {

// A function from an image [channels, height, width] to a tensor. Several threads may call one
// transform. What it draws at random comes from the thread's default_generator(), which a
// DataLoader seeds for every example. The argument stays as it was.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Tensor operator()(const Tensor& image) const = 0;
};

// torchvision's transforms of images [channels, height, width], with its names, defaults and
// distributions (the numbers drawn are our own). Images are best kept uint8 until ToTensor. A
// transform that cannot take an image throws InvalidArgumentError with its own name and the image's
// dtype and shape; constructors throw on arguments out of range.

struct ImageSize {
  ImageSize(std::int64_t side) : height(side), width(side) {}  // NOLINT: a square, as in PyTorch
  ImageSize(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  std::int64_t height;
  std::int64_t width;
};

struct Range {
  double low;
  double high;
};

// One transform after the other: Compose(RandomCrop(32, 4), RandomHorizontalFlip(), ToTensor()).
class Compose : public Transform {
 public:
  explicit Compose(std::vector<std::shared_ptr<const Transform>> steps);
  template <std::derived_from<Transform>... Steps>
  explicit Compose(Steps... steps)
      : Compose(std::vector<std::shared_ptr<const Transform>>{
            std::make_shared<Steps>(std::move(steps))...}) {}
  Tensor operator()(const Tensor& image) const override;

 private:
  std::vector<std::shared_ptr<const Transform>> steps_;
};

// A function of the user's, which several threads may call.
class Lambda : public Transform {
 public:
  explicit Lambda(std::function<Tensor(const Tensor&)> function);
  Tensor operator()(const Tensor& image) const override { return function_(image); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

// Bilinear with a filter as wide as the reduction (antialias), uint8 or float32. uint8 as Pillow
// 9 does it, bit for bit: weights of 22 bits, and a rounding after the rows, which come
// first, and after the columns.
class Resize : public Transform {
 public:
  explicit Resize(std::int64_t shorter_side);  // the other side in proportion, rounded down
  explicit Resize(ImageSize size);
  Tensor operator()(const Tensor& image) const override;

 private:
  ImageSize size_;
  bool keeps_proportion_;
};

// The middle; zeros around an image that is smaller.
class CenterCrop : public Transform {
 public:
  explicit CenterCrop(ImageSize size);
  Tensor operator()(const Tensor& image) const override;

 private:
  ImageSize size_;
};

// Somewhere in the image with `padding` zeros around it, every place equally likely. Throws
// InvalidArgumentError on an image that is smaller than the crop, padding included.
class RandomCrop : public Transform {
 public:
  explicit RandomCrop(ImageSize size, std::int64_t padding = 0);
  Tensor operator()(const Tensor& image) const override;

 private:
  ImageSize size_;
  std::int64_t padding_;
};

// A piece of the image, whose area (as a part of the image's) and aspect (width by height) are
// drawn from the ranges, the aspect log-uniformly, resized as Resize does. After ten draws that do
// not fit: the middle, with the nearest allowed aspect (Szegedy et al., "Going deeper with
// convolutions", 2015).
class RandomResizedCrop : public Transform {
 public:
  explicit RandomResizedCrop(ImageSize size, Range scale = {0.08, 1.0},
                             Range ratio = {3.0 / 4.0, 4.0 / 3.0});
  Tensor operator()(const Tensor& image) const override;

 private:
  ImageSize size_;
  Range scale_;
  Range ratio_;
};

// Left and right exchanged with probability p.
class RandomHorizontalFlip : public Transform {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  Tensor operator()(const Tensor& image) const override;

 private:
  double p_;
};

// uint8 in 0 .. 255 to float32 in [0, 1]; a float32 image as it is.
class ToTensor : public Transform {
 public:
  Tensor operator()(const Tensor& image) const override;
};

// (image - mean) / deviation, one of each per channel (or one for all): float32 only.
class Normalize : public Transform {
 public:
  Normalize(std::vector<double> mean, std::vector<double> deviation);
  Tensor operator()(const Tensor& image) const override;

 private:
  std::vector<double> mean_;
  std::vector<double> deviation_;
};

// Changes brightness, contrast, saturation and hue in random order, each by a factor (hue: an
// offset in turns) drawn uniformly from its range. uint8, or float32 in [0, 1]; one or three
// channels, of which one has no saturation and no hue.
class ColorJitter : public Transform {
 public:
  // x stands for the factors [max(0, 1 - x), 1 + x], in hue for the offsets [-x, x].
  explicit ColorJitter(double brightness = 0, double contrast = 0, double saturation = 0,
                       double hue = 0);
  // Factors at least 0, hue offsets within [-0.5, 0.5].
  ColorJitter(Range brightness, Range contrast, Range saturation, Range hue);
  Tensor operator()(const Tensor& image) const override;

 private:
  std::array<Range, 4> ranges_;  // in the order of the arguments
};

}  // namespace transforms
}  // namespace hvd::data
