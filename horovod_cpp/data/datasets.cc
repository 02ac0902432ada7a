#include "horovod_cpp/data/datasets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <tuple>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "horovod_cpp/data/image_file.h"
#include "horovod_cpp/data/image_ops.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::data {

namespace fs = std::filesystem;

ImageDataset::ImageDataset(Tensor images, Tensor labels, PixelFormat format)
    : images_(kernels::contiguous(images)), labels_(kernels::contiguous(labels)), format_(format) {
  if (images_.dtype() != DType::kU8 || images_.dim() != 4) {
    throw InvalidArgumentError("ImageDataset: images are ", describe(images_),
                               ": expected uint8 [n, channels, height, width]");
  }
  if (labels_.dtype() != DType::kI64 || labels_.dim() != 1 || labels_.size(0) != images_.size(0)) {
    throw InvalidArgumentError("ImageDataset: labels are ", describe(labels_), ": expected int64 [",
                               images_.size(0), "], one for each image");
  }
}

Sample ImageDataset::get(std::int64_t index) const {
  check_index(index, size());
  const Tensor stored = kernels::select(images_, 0, index);
  const Tensor label = kernels::select(labels_, 0, index);
  if (format_ == PixelFormat::kU8) return {stored, label};
  return {unit_floats(stored), label};
}

void check_index(std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw InvalidArgumentError("example ", index, " of a dataset of ", size);
}

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) throw InvalidArgumentError("TensorDataset: no tensors");
  for (const Tensor& tensor : tensors_) {
    if (!tensor.defined() || tensor.dim() == 0) {
      throw InvalidArgumentError("TensorDataset: a tensor without a first axis");
    }
    if (tensor.size(0) != tensors_.front().size(0)) {
      throw InvalidArgumentError("TensorDataset: first extents differ: ", tensors_.front().shape(),
                                 " and ", tensor.shape());
    }
  }
}

Sample TensorDataset::get(std::int64_t index) const {
  check_index(index, size());
  Sample sample;
  sample.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) sample.push_back(tensor.select(0, index));
  return sample;
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  if (dataset_ == nullptr) throw InvalidArgumentError("Subset: no dataset");
  for (const std::int64_t index : indices_) check_index(index, dataset_->size());
}

Sample Subset::get(std::int64_t index) const {
  check_index(index, size());
  return dataset_->get(indices_[static_cast<std::size_t>(index)]);
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  if (datasets_.empty()) throw InvalidArgumentError("ConcatDataset: no datasets");
  std::int64_t end = 0;
  for (const auto& dataset : datasets_) {
    if (dataset == nullptr) throw InvalidArgumentError("ConcatDataset: a dataset is missing");
    end += dataset->size();
    ends_.push_back(end);
  }
}

Sample ConcatDataset::get(std::int64_t index) const {
  check_index(index, size());
  const auto end = std::ranges::upper_bound(ends_, index);
  const std::int64_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return datasets_[static_cast<std::size_t>(end - ends_.begin())]->get(index - begin);
}

TransformDataset::TransformDataset(std::shared_ptr<const Dataset> dataset,
                                   std::shared_ptr<const transforms::Transform> transform)
    : dataset_(std::move(dataset)), transform_(std::move(transform)) {
  if (dataset_ == nullptr) throw InvalidArgumentError("TransformDataset: no dataset");
  if (transform_ == nullptr) throw InvalidArgumentError("TransformDataset: no transform");
}

Sample TransformDataset::get(std::int64_t index) const {
  Sample sample = dataset_->get(index);
  if (sample.empty()) throw InvalidArgumentError("TransformDataset: an example without fields");
  sample.front() = (*transform_)(sample.front());
  return sample;
}

std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<std::int64_t>& lengths,
                                                  Generator& generator) {
  if (dataset == nullptr) throw InvalidArgumentError("random_split: no dataset");
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0) {
      throw InvalidArgumentError("random_split: a length of ", length);
    }
    total += length;
  }
  if (total != dataset->size()) {
    throw InvalidArgumentError("random_split: the lengths add up to ", total, ", the dataset has ",
                               dataset->size());
  }
  const std::vector<std::int64_t> order = generator.permutation(total);
  std::vector<std::shared_ptr<Subset>> parts;
  auto at = order.begin();
  for (const std::int64_t length : lengths) {
    parts.push_back(std::make_shared<Subset>(dataset, std::vector<std::int64_t>(at, at + length)));
    at += length;
  }
  return parts;
}

std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<double>& fractions,
                                                  Generator& generator) {
  if (dataset == nullptr) throw InvalidArgumentError("random_split: no dataset");
  const std::int64_t size = dataset->size();
  double total = 0;
  std::int64_t left = size;
  std::vector<std::int64_t> lengths;
  for (const double fraction : fractions) {
    if (!(fraction >= 0 && fraction <= 1)) {
      throw InvalidArgumentError("random_split: a fraction of ", fraction);
    }
    total += fraction;
    lengths.push_back(static_cast<std::int64_t>(static_cast<double>(size) * fraction));
    left -= lengths.back();
  }
  if (std::abs(total - 1) > 1e-9) {
    throw InvalidArgumentError("random_split: the fractions add up to ", total);
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return random_split(std::move(dataset), lengths, generator);
}

namespace {

// By the third byte of the magic number.
constexpr std::array<std::pair<std::uint8_t, DType>, 4> kElementTypes = {
    {{0x08, DType::kU8}, {0x0c, DType::kI32}, {0x0d, DType::kF32}, {0x0e, DType::kF64}}};

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

struct Header {
  DType dtype = DType::kU8;
  Shape shape;
};

Header read_header(ByteSource& source) {
  const std::vector<std::uint8_t> magic = source.read(4);
  if (magic.empty()) source.fail("is empty");
  if (magic.size() < 4) source.fail("is truncated within the magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    source.fail("is not an IDX file: its magic number is ", hex(magic));
  }
  const auto* type =
      std::ranges::find(kElementTypes, magic[2], &std::pair<std::uint8_t, DType>::first);
  if (type == kElementTypes.end()) {
    source.fail("has IDX element type ", hex(std::span(magic).subspan(2, 1)),
                "; known: 0x08 (uint8), 0x0c (int32), 0x0d (float32), 0x0e (float64)");
  }
  const std::vector<std::uint8_t> extents = source.read(std::size_t{4} * magic[3]);
  if (extents.size() < std::size_t{4} * magic[3]) source.fail("is truncated within the header");
  Header header{type->second, {}};
  for (std::size_t i = 0; i < extents.size(); i += 4) {
    std::uint32_t extent = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) extent = extent << 8 | extents[i + byte];
    header.shape.push_back(extent);
  }
  return header;
}

// Bytes that the header promises.
std::size_t promised_bytes(const Header& header, const ByteSource& source) {
  const auto bytes = checked_bytes(header.shape, header.dtype);
  if (!bytes) source.fail("promises more than 2^63 bytes: shape ", header.shape);
  return static_cast<std::size_t>(*bytes);
}

// The tensor uses the bytes where they are.
Tensor adopt(std::vector<std::uint8_t> bytes, const Header& header) {
  const std::size_t element = size_of(header.dtype);
  for (std::size_t i = 0; element > 1 && i < bytes.size(); i += element) {  // from big-endian
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(i);
    std::reverse(first, first + static_cast<std::ptrdiff_t>(element));
  }
  const auto owner = std::make_shared<std::vector<std::uint8_t>>(std::move(bytes));
  return Tensor::wrap(owner->data(), header.shape, header.dtype, owner);
}

Tensor read_dimensions(const std::string& path, std::size_t dimensions) {
  Tensor tensor = read_idx(path);
  if (tensor.dtype() == DType::kU8 && tensor.shape().size() == dimensions) return tensor;
  throw InvalidArgumentError(path, ": holds ", describe(tensor), ": expected uint8 with ",
                             dimensions, " dimensions");
}

}  // namespace

Tensor read_idx(const std::string& path) {
  ByteSource source(path);
  const Header header = read_header(source);
  const std::size_t promised = promised_bytes(header, source);
  std::vector<std::uint8_t> bytes = source.read(promised);
  if (bytes.size() < promised) {
    source.fail("is truncated: shape ", header.shape, " of ", header.dtype, " needs ", promised,
                " bytes after the header, ", bytes.size(), " are there");
  }
  source.expect_end();
  if (bytes.empty()) return Tensor::empty(header.shape, header.dtype);
  return adopt(std::move(bytes), header);
}

ImageDataset read_idx_images(const std::string& images_path, const std::string& labels_path,
                             PixelFormat format) {
  const Tensor images = read_dimensions(images_path, 3);
  const Tensor labels = read_dimensions(labels_path, 1);
  if (images.size(0) != labels.size(0)) {
    throw InvalidArgumentError(images_path, " holds ", images.size(0), " images, but ", labels_path,
                               " holds ", labels.size(0), " labels");
  }
  Shape shape = images.shape();
  shape.insert(shape.begin() + 1, 1);
  return ImageDataset(kernels::reshape(images, shape), kernels::to(labels, DType::kI64), format);
}

namespace {

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string plain = (fs::path(folder) / name).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (may_exist(path)) return path;
  }
  throw InvalidArgumentError(plain, ": no such file, nor with .gz");
}

ImageDataset read_mnist(const std::string& folder, const std::string& set, PixelFormat format) {
  const std::string images = find_file(folder, set + "-images-idx3-ubyte");
  const std::string labels = find_file(folder, set + "-labels-idx1-ubyte");
  return read_idx_images(images, labels, format);
}

}  // namespace

MNIST::MNIST(const std::string& folder, bool train, PixelFormat format)
    : ImageDataset(read_mnist(folder, train ? "train" : "t10k", format)) {}

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
  const fs::path at(folder);
  if (!train) return {(at / "test_batch.bin").string()};
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) {
    const fs::path file = at / ("data_batch_" + std::to_string(i) + ".bin");
    if (may_exist(file.string())) files.push_back(file.string());
  }
  if (files.empty()) {
    throw InvalidArgumentError(folder,
                               ": none of data_batch_1.bin ... data_batch_5.bin is in this folder");
  }
  return files;
}

std::vector<std::string> cifar100_files(const std::string& folder, bool train) {
  return {(fs::path(folder) / (train ? "train.bin" : "test.bin")).string()};
}

// The whole records of one file, checked.
std::vector<std::uint8_t> read_records(const std::string& path, const Format& format) {
  ByteSource source(path);
  const std::size_t record = format.record_bytes();
  std::vector<std::uint8_t> records = source.read(kMaxRecords * record + 1);
  if (records.empty()) source.fail("is empty");
  if (records.size() > kMaxRecords * record) {
    source.fail("has more than ", kMaxRecords, " records");
  }
  if (records.size() % record != 0) {
    source.fail("has ", records.size(), " bytes, which is not a multiple of the ", record,
                " bytes of a ", format.name, " record");
  }
  for (std::size_t i = 0; i < records.size(); i += record) {
    const std::uint8_t label = format.label(&records[i]);
    if (label < format.classes) continue;
    source.fail("record ", i / record, " has label ", label, ": expected 0 to ",
                format.classes - 1);
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

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<std::string> class_folders(const std::string& root) {
  std::vector<std::string> names;
  if (!fs::is_directory(root)) throw InvalidArgumentError(root, ": is not a folder");
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  if (names.empty()) {
    throw InvalidArgumentError(root, ": has no folders: expected one for each class");
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
    throw InvalidArgumentError(entry.path().string(), ": is a link to ", above.string(),
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
        throw InvalidArgumentError(folder.string(), ": a class without files (looked for ",
                                   joined(extensions), ")");
      }
      const auto label = static_cast<std::int64_t>(&name - classes_.data());
      for (const fs::path& file : files) samples_.emplace_back(file.string(), label);
    }
  } catch (const fs::filesystem_error& error) {
    throw InvalidArgumentError(error.path1().string(), ": ", error.code().message());
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
