#include "horovod_cpp/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "core/base/status.h"
#include "horovod_cpp/data/image_file.h"

namespace hvd::data {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::string> class_folders(const std::string& root) {
  std::vector<std::string> names;
  if (!fs::is_directory(root)) throw InvalidArgumentError(root + ": is not a folder");
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  if (names.empty()) {
    throw InvalidArgumentError(root + ": has no folders: expected one for each class");
  }
  std::ranges::sort(names);
  return names;
}

bool has_extension(const fs::path& file, const std::vector<std::string>& extensions) {
  const std::string name = lower(file.filename().string());
  return std::ranges::any_of(extensions, [&](const std::string& e) { return name.ends_with(e); });
}

// A link to a folder that it lies in would be followed again and again.
void refuse_loop(const fs::directory_entry& entry, const fs::path& folder) {
  if (!entry.is_symlink() || !entry.is_directory()) return;
  fs::path above = entry.path();
  while (above != folder) {
    above = above.parent_path();
    if (!fs::equivalent(above, entry.path())) continue;
    throw InvalidArgumentError(entry.path().string() + ": is a link to " + above.string() +
                               ", a folder that it lies in");
  }
}

// By folder, then by name.
std::vector<fs::path> files_below(const fs::path& folder,
                                  const std::vector<std::string>& extensions) {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
    refuse_loop(entry, folder);
    // Whatever else has such a name, a link to nowhere too, is an error when it is loaded.
    if (has_extension(entry.path(), extensions) && !entry.is_directory()) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files, [](const fs::path& a, const fs::path& b) {
    return std::make_tuple(a.parent_path().string(), a.filename().string()) <
           std::make_tuple(b.parent_path().string(), b.filename().string());
  });
  return files;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

DatasetFolder::DatasetFolder(const std::string& root, Loader loader,
                             std::vector<std::string> extensions,
                             std::shared_ptr<const transforms::Transform> transform)
    : loader_(std::move(loader)), transform_(std::move(transform)) {
  if (loader_ == nullptr) throw InvalidArgumentError("DatasetFolder: no loader");
  for (std::string& extension : extensions) extension = lower(extension);
  try {
    classes_ = class_folders(root);
    for (const std::string& name : classes_) {
      const fs::path folder = fs::path(root) / name;
      const std::vector<fs::path> files = files_below(folder, extensions);
      if (files.empty()) {
        throw InvalidArgumentError(folder.string() + ": a class without files (looked for " +
                                   joined(extensions) + ")");
      }
      const auto label = static_cast<std::int64_t>(&name - classes_.data());
      for (const fs::path& file : files) samples_.emplace_back(file.string(), label);
    }
  } catch (const fs::filesystem_error& error) {
    throw InvalidArgumentError(error.path1().string() + ": " + error.code().message());
  }
}

Sample DatasetFolder::get(std::int64_t index) const {
  check_index(index, size());
  const auto& [path, label] = samples_[static_cast<std::size_t>(index)];
  Tensor loaded = loader_(path);
  if (transform_ != nullptr) {
    try {
      loaded = (*transform_)(loaded);
    } catch (const Error& error) {
      Status(error.code(), path + ": " + error.what()).throw_if_error();
    }
  }
  return {loaded, Tensor::scalar(static_cast<double>(label), DType::kI64)};
}

ImageFolder::ImageFolder(const std::string& root,
                         std::shared_ptr<const transforms::Transform> transform)
    : DatasetFolder(
          root, [](const std::string& path) { return read_image(path); }, {".jpg", ".jpeg", ".png"},
          std::move(transform)) {}

}  // namespace hvd::data
