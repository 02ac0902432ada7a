#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/transforms.h"

namespace hvd::data {

// Files sorted into one folder a class, as torchvision's: class k is the k-th folder of `root` by
// name, and its examples are the files below it (at any depth, in the order of their paths) whose
// name ends with one of the extensions, in lower or upper case; other files are left out. Example i
// is {the loaded tensor, label: int64 scalar}.
class DatasetFolder : public Dataset {
 public:
  // Turns a path into the first field of an example; several threads call it.
  using Loader = std::function<Tensor(const std::string& path)>;

  // Throws InvalidArgumentError naming the folder if `root` is no folder or has no folders, or if a
  // class has no file with one of the extensions (such as ".png").
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

}  // namespace hvd::data
