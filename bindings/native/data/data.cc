#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <optional>

#include "bindings/native/data/data.h"
#include "core/base/status.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/image_file.h"

namespace hvd::python {
namespace {

using Path = std::filesystem::path;

void bind_plain_datasets(py::module_& m) {
  py::classh<data::Dataset>(m, "Dataset",
                            "A finite, indexable set of examples, each a tuple of tensors.")
      .def("__len__", &data::Dataset::size, "Number of examples.")
      .def(
          "__getitem__",
          [](const data::Dataset& dataset, Integer index) {
            const std::int64_t size = dataset.size();
            if (index < -size || index >= size) {
              throw py::index_error("example " + std::to_string(index) + " of " +
                                    std::to_string(size));
            }
            return to_tuple(
                without_gil([&] { return dataset.get(index < 0 ? index + size : index); }));
          },
          py::arg("index"),
          "An example, a tuple of Tensors; a negative index counts from the end.");
  define_class<data::TensorDataset, data::Dataset>(
      m, "TensorDataset", "Example i is ``(arrays[0][i], arrays[1][i], ...)``.",
      py::init([](const py::Args<ArrayLike>& arrays) {
        std::vector<Tensor> tensors;
        for (const py::handle& array : arrays) tensors.push_back(tensor_from(array));
        return std::make_shared<data::TensorDataset>(std::move(tensors));
      }),
      ArgText{"*arrays: Tensors or NumPy arrays of one first extent; they are not copied."},
      Invalid{"no array, a scalar, or first extents that differ."});
}

std::vector<std::shared_ptr<data::Subset>> split_at_random(
    const DatasetLike& dataset,
    const Typed<"collections.abc.Sequence[int] | collections.abc.Sequence[float]">& lengths,
    std::optional<Given<std::uint64_t>> seed) {
  Generator seeded(seed ? seed->value : 0);
  Generator& generator = seed ? seeded : default_generator();
  bool whole = true;
  for (const py::handle length : lengths) whole = whole && PyFloat_Check(length.ptr()) == 0;
  if (whole) {
    return data::random_split(dataset_from(dataset), list_of(lengths.cast<Integers>()), generator);
  }
  return data::random_split(dataset_from(dataset), lengths.cast<std::vector<double>>(), generator);
}

void bind_derived_datasets(py::module_& m) {
  define_class<data::Subset, data::Dataset>(
      m, "Subset", "The examples of ``dataset`` at ``indices``.",
      py::init([](const DatasetLike& dataset, const Integers& indices) {
        return std::make_shared<data::Subset>(dataset_from(dataset), list_of(indices));
      }),
      Arg("dataset", "a Dataset, or anything with ``__len__`` and ``__getitem__``."),
      Arg("indices", "ints; an example may come several times."),
      Invalid{"an index is out of range."});
  define_class<data::ConcatDataset, data::Dataset>(
      m, "ConcatDataset", "The examples of several datasets, one after the other.",
      py::init([](const Typed<"collections.abc.Iterable[DatasetLike]">& datasets) {
        std::vector<std::shared_ptr<const data::Dataset>> parts;
        for (const py::handle dataset : datasets) parts.push_back(dataset_from(dataset));
        return std::make_shared<data::ConcatDataset>(std::move(parts));
      }),
      Arg("datasets", "Datasets, or their like."), Invalid{"there is none."});
  define_class<data::TransformDataset, data::Dataset>(
      m, "TransformDataset",
      "Examples of ``dataset`` whose first field, the image, went through ``transform``.",
      py::init([](const DatasetLike& dataset, const TransformLike& transform) {
        return std::make_shared<data::TransformDataset>(dataset_from(dataset),
                                                        transform_from(transform));
      }),
      Arg("dataset", "a Dataset, or its like."),
      Arg("transform", "a transform or another callable; several threads call it."));
  define(m, "random_split", &split_at_random,
         "Split a dataset at random into Subsets that do not overlap.",
         Arg("dataset", "a Dataset."),
         Arg("lengths",
             "numbers of examples that add up to ``len(dataset)``, or floats that add up to 1."),
         Arg("seed",
             "of the order; by default this thread's generator (``hvd.manual_seed``) is used.") =
             py::none(),
         Returns{"A list of Subsets."}, Invalid{"the lengths do not add up."});
}

data::PixelFormat pixel_format(const py::handle& dtype) {
  const DType parsed = dtype_from(dtype);
  if (parsed == DType::kF32) return data::PixelFormat::kF32;
  if (parsed == DType::kU8) return data::PixelFormat::kU8;
  throw InvalidArgumentError("images are given as float32 or uint8, not ", parsed);
}

// A set that is read from files in a folder.
template <typename Set>
void bind_image_set(py::module_& m, const char* name, const char* what, const char* folder_text) {
  define_class<Set, data::ImageDataset>(
      m, name, what, py::init([](const Path& folder, Flag<"train"> train, const DTypeLike& dtype) {
        return std::make_shared<Set>(folder.string(), train, pixel_format(dtype));
      }),
      Arg("folder", folder_text), Arg("train", "the training set, else the test set.") = true,
      Arg("dtype", "\"float32\" (scaled to [0, 1]) or \"uint8\" (as stored).") = "float32",
      Invalid{"a file is missing or corrupt; the message names it and says how."});
}

void bind_images(py::module_& m) {
  define_class<data::ImageDataset, data::Dataset>(
      m, "ImageDataset", "Labelled images: example i is (image [channels, height, width], label).",
      py::init([](const ArrayLike& images, const ArrayLike& labels, const DTypeLike& dtype) {
        return std::make_shared<data::ImageDataset>(tensor_from(images), tensor_from(labels),
                                                    pixel_format(dtype));
      }),
      Arg("images", "uint8 [n, channels, height, width], a Tensor or NumPy array."),
      Arg("labels", "int64 [n]."),
      Arg("dtype",
          "in which images are given: \"float32\" (scaled to [0, 1]) or \"uint8\" (as stored).") =
          "float32",
      Invalid{"other dtypes or shapes."})
      .def_property_readonly("images", &data::ImageDataset::images,
                             "uint8 [n, channels, height, width].")
      .def_property_readonly("labels", &data::ImageDataset::labels, "int64 [n].");
  bind_image_set<data::MNIST>(
      m, "MNIST",
      "MNIST, or another set with its file names, from IDX files in ``folder``, gzipped or not.",
      "where train-images-idx3-ubyte and so on are.");
  bind_image_set<data::CIFAR10>(
      m, "CIFAR10",
      "CIFAR-10 in its binary version (data_batch_*.bin, test_batch.bin) from ``folder``.",
      "where they are.");
  bind_image_set<data::CIFAR100>(
      m, "CIFAR100",
      "CIFAR-100 in its binary version (train.bin, test.bin) from ``folder``; the fine labels.",
      "where they are.");
  define(
      m, "read_idx", [](const Path& path) { return data::read_idx(path.string()); },
      "Read an IDX file, gzipped or not.", Arg("path", "of the file."), ReleaseGil(),
      Returns{"A Tensor with the file's extents and dtype."},
      Invalid{"the file is missing, truncated or corrupt."});
}

data::ImageMode image_mode(const std::string& name) {
  return named_value<data::ImageMode>("read_image: mode", name,
                                      {{"rgb", data::ImageMode::kRgb},
                                       {"gray", data::ImageMode::kGray},
                                       {"unchanged", data::ImageMode::kUnchanged}});
}

// A file's name, which need not be UTF-8, as os.listdir() gives it.
py::str text_of(const std::string& path) {
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

py::typing::List<py::str> classes(const data::DatasetFolder& folder) {
  py::typing::List<py::str> names;
  for (const std::string& name : folder.classes()) names.append(text_of(name));
  return names;
}

py::typing::Dict<py::str, py::int_> class_to_idx(const data::DatasetFolder& folder) {
  py::typing::Dict<py::str, py::int_> indices;
  for (const py::handle name : classes(folder)) indices[name] = py::len(indices);
  return indices;
}

py::typing::List<py::typing::Tuple<py::str, py::int_>> samples(const data::DatasetFolder& folder) {
  py::typing::List<py::typing::Tuple<py::str, py::int_>> pairs;
  for (const auto& [path, label] : folder.samples()) {
    pairs.append(py::make_tuple(text_of(path), label));
  }
  return pairs;
}

void bind_folders(py::module_& m) {
  define(
      m, "read_image",
      [](const Path& path, const std::string& mode) {
        return data::read_image(path.string(), image_mode(mode));
      },
      "Decode a JPEG or PNG file to uint8 [channels, height, width].", Arg("path", "of the file."),
      Arg("mode", "\"rgb\", \"gray\", or \"unchanged\" (1 to 4 channels, as stored).") = "rgb",
      ReleaseGil(), Returns{"A uint8 Tensor."},
      Invalid{"no image, or truncated or corrupt; the message names the file."});
  constexpr Arg kRoot{"root",
                      "has a folder for each class; classes are numbered in the order of their "
                      "names."};
  define_class<data::DatasetFolder, data::Dataset>(
      m, "DatasetFolder", "Files in one folder per class: example i is (loader(path), label).",
      py::init([](const Path& root,
                  const Typed<"collections.abc.Callable[[str], typing.Any]">& loader,
                  const std::vector<std::string>& extensions, const MaybeTransform& transform) {
        auto load = [function = SharedObject(loader)](const std::string& path) {
          return in_python([&] { return example_tensor(function.get()(text_of(path))); });
        };
        return std::make_shared<data::DatasetFolder>(root.string(), std::move(load), extensions,
                                                     transform_from(transform));
      }),
      kRoot,
      Arg("loader", "a callable that makes a tensor or array of a path; several threads call it."),
      Arg("extensions", "endings of the names of the files to take, such as \".npy\"."),
      Arg("transform", "what the loaded tensor goes through, native or another callable.") =
          py::none(),
      Invalid{"no folder, or a class without files; the message names it."})
      .def_property_readonly("classes", &classes, "Names of the classes.")
      .def_property_readonly("class_to_idx", &class_to_idx, "The label of each class.")
      .def_property_readonly("samples", &samples, "Pairs of path and label, one per example.");
  define_class<data::ImageFolder, data::DatasetFolder>(
      m, "ImageFolder",
      "JPEG and PNG files in one folder per class: (uint8 [3, height, width], label).",
      py::init([](const Path& root, const MaybeTransform& transform) {
        return std::make_shared<data::ImageFolder>(root.string(), transform_from(transform));
      }),
      kRoot, Arg("transform", "what images go through, native or another callable.") = py::none(),
      Invalid{"no folder, or a class without files; the message names it. A broken file\n"
              "        is an error when it is read."});
}

}  // namespace

void bind_datasets(py::module_& m) {
  bind_plain_datasets(m);
  bind_derived_datasets(m);
  bind_images(m);
  bind_folders(m);
}

void bind_data(py::module_& m) {
  bind_transforms(m);
  bind_datasets(m);
  bind_samplers(m);
  bind_loader(m);
}

}  // namespace hvd::python
