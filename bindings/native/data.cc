#include <pybind11/stl.h>

#include <memory>
#include <optional>

#include "bindings/native/bindings.h"
#include "core/base/status.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/idx.h"
#include "horovod_cpp/data/image_dataset.h"
#include "horovod_cpp/data/sampler.h"

namespace hvd::python {
namespace {

py::tuple to_tuple(const data::Sample& sample) {
  py::tuple tuple(sample.size());
  for (std::size_t i = 0; i < sample.size(); ++i) tuple[i] = py::cast(sample[i]);
  return tuple;
}

// One pass over a loader, as Python wants it: advance first, then read.
class Pass {
 public:
  explicit Pass(std::shared_ptr<data::DataLoader> loader) : loader_(std::move(loader)) {}

  // Empty at the end.
  std::optional<data::Sample> next() {
    if (!iterator_) {
      iterator_.emplace(loader_->begin());
    } else if (!done_) {
      ++*iterator_;
    }
    done_ = done_ || *iterator_ == loader_->end();
    if (done_) return std::nullopt;
    return **iterator_;
  }

 private:
  std::shared_ptr<data::DataLoader> loader_;
  std::optional<data::DataLoader::Iterator> iterator_;
  bool done_ = false;
};

void bind_datasets(py::module_& m) {
  py::classh<data::Dataset>(m, "Dataset",
                            "A finite, indexable set of examples, each a tuple of tensors.")
      .def("__len__", &data::Dataset::size)
      .def(
          "__getitem__",
          [](const data::Dataset& dataset, std::int64_t index) {
            const std::int64_t size = dataset.size();
            if (index < -size || index >= size) {
              throw py::index_error("example " + std::to_string(index) + " of " +
                                    std::to_string(size));
            }
            return to_tuple(dataset.get(index < 0 ? index + size : index));
          },
          py::arg("index"));
  py::classh<data::TensorDataset, data::Dataset>(
      m, "TensorDataset",
      R"(Example i is ``(arrays[0][i], arrays[1][i], ...)``.

Args:
    *arrays: Tensors or NumPy arrays of one first extent; they are not copied.

Raises:
    InvalidArgumentError: no array, a scalar, or first extents that differ.)")
      .def(py::init([](const py::args& arrays) {
        std::vector<Tensor> tensors;
        for (const py::handle& array : arrays) tensors.push_back(tensor_from(array));
        return std::make_shared<data::TensorDataset>(std::move(tensors));
      }));
  py::classh<data::Subset, data::Dataset>(m, "Subset",
                                          "The examples of ``dataset`` at ``indices``.")
      .def(py::init([](const std::shared_ptr<data::Dataset>& dataset,
                       std::vector<std::int64_t> indices) {
             return std::make_shared<data::Subset>(dataset, std::move(indices));
           }),
           py::arg("dataset"), py::arg("indices"));
}

data::PixelFormat pixel_format(const py::handle& dtype) {
  const DType parsed = dtype_from(dtype);
  if (parsed == DType::kF32) return data::PixelFormat::kF32;
  if (parsed == DType::kU8) return data::PixelFormat::kU8;
  throw InvalidArgumentError("images are given as float32 or uint8, not " +
                             std::string(name_of(parsed)));
}

void bind_images(py::module_& m) {
  py::classh<data::ImageDataset, data::Dataset>(
      m, "ImageDataset",
      R"(Labelled images: example i is (image [channels, height, width], label).

Args:
    images: uint8 [n, channels, height, width], a Tensor or NumPy array.
    labels: int64 [n].
    dtype: in which images are given: "float32" (scaled to [0, 1]) or "uint8" (as stored).

Raises:
    InvalidArgumentError: other dtypes or shapes.)")
      .def(
          py::init([](const py::handle& images, const py::handle& labels, const py::handle& dtype) {
            return std::make_shared<data::ImageDataset>(tensor_from(images), tensor_from(labels),
                                                        pixel_format(dtype));
          }),
          py::arg("images"), py::arg("labels"), py::arg("dtype") = "float32")
      .def_property_readonly("images", &data::ImageDataset::images,
                             "uint8 [n, channels, height, width].")
      .def_property_readonly("labels", &data::ImageDataset::labels, "int64 [n].");
  py::classh<data::MNIST, data::ImageDataset>(
      m, "MNIST",
      R"(MNIST, or another set with its file names, from IDX files in ``folder``, gzipped or not.

Args:
    folder: where train-images-idx3-ubyte and so on are.
    train: the training set, else the test set.
    dtype: "float32" (scaled to [0, 1]) or "uint8" (as stored).

Raises:
    InvalidArgumentError: a file is missing or corrupt; the message names it and says how.)")
      .def(py::init([](const std::string& folder, bool train, const py::handle& dtype) {
             return std::make_shared<data::MNIST>(folder, train, pixel_format(dtype));
           }),
           py::arg("folder"), py::arg("train") = true, py::arg("dtype") = "float32");
  py::classh<data::CIFAR10, data::ImageDataset>(
      m, "CIFAR10",
      R"(CIFAR-10 in its binary version (data_batch_*.bin, test_batch.bin) from ``folder``.

Arguments and errors are those of MNIST.)")
      .def(py::init([](const std::string& folder, bool train, const py::handle& dtype) {
             return std::make_shared<data::CIFAR10>(folder, train, pixel_format(dtype));
           }),
           py::arg("folder"), py::arg("train") = true, py::arg("dtype") = "float32");
  m.def("read_idx", &data::read_idx, py::arg("path"), ReleaseGil(),
        "Read an IDX file, gzipped or not, as a Tensor.");
}

void bind_samplers(py::module_& m) {
  py::classh<data::Sampler>(m, "Sampler", "The order in which a DataLoader visits a dataset.")
      .def("__len__", &data::Sampler::size)
      .def("__iter__", [](data::Sampler& s) { return py::iter(py::cast(s.indices())); })
      .def("indices", &data::Sampler::indices, "Start a pass: the indices in order.")
      .def("set_epoch", &data::Sampler::set_epoch, py::arg("epoch"),
           "Choose the order of the next pass; samplers with one order ignore it.");
  py::classh<data::SequentialSampler, data::Sampler>(m, "SequentialSampler", "0, 1, ..., size-1.")
      .def(py::init<std::int64_t>(), py::arg("size"));
  py::classh<data::RandomSampler, data::Sampler>(m, "RandomSampler",
                                                 "A new permutation every pass.")
      .def(py::init<std::int64_t, std::uint64_t>(), py::arg("size"), py::arg("seed") = 0);
  py::classh<data::DistributedSampler, data::Sampler>(
      m, "DistributedSampler",
      R"(One rank's share of a dataset, with PyTorch's partition.

The (shuffled) order is padded from its beginning to a multiple of ``num_replicas``, or cut to one
with ``drop_last``; rank r takes positions r, r + num_replicas, ... Call ``set_epoch(n)`` before
every pass, else each pass has the same order.

Args:
    dataset_size: number of examples.
    num_replicas, rank: usually ``hvd.size()`` and ``hvd.rank()``.
    shuffle: permute first; all ranks must pass the same ``seed``.

Raises:
    InvalidArgumentError: not 0 <= rank < num_replicas.)")
      .def(py::init<std::int64_t, int, int, bool, std::uint64_t, bool>(), py::arg("dataset_size"),
           py::arg("num_replicas"), py::arg("rank"), py::arg("shuffle") = true, py::arg("seed") = 0,
           py::arg("drop_last") = false);
}

void bind_loader(py::module_& m) {
  py::classh<Pass>(m, "_Pass")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", [](Pass& pass) {
        std::optional<data::Sample> batch;
        {
          const py::gil_scoped_release nogil;
          batch = pass.next();
        }
        if (!batch) throw py::stop_iteration();
        return to_tuple(*batch);
      });
  py::classh<data::DataLoader>(
      m, "DataLoader",
      R"(Gives a dataset in batches: tuples of tensors with the batch as first axis.

Args:
    dataset: a Dataset.
    batch_size: examples a batch (here: on this rank).
    shuffle: a new random order every pass; excludes ``sampler``.
    sampler: decides the order, e.g. a DistributedSampler.
    drop_last: leave out a last batch that is not full.
    num_workers: threads that load ahead; 0 loads in the thread that iterates.
    prefetch_factor: batches a worker that may wait to be consumed.
    seed: of ``shuffle``.

Raises:
    InvalidArgumentError: an option is out of range, or shuffle together with a sampler.)")
      .def(py::init([](const std::shared_ptr<data::Dataset>& dataset, std::int64_t batch_size,
                       bool shuffle, std::shared_ptr<data::Sampler> sampler, bool drop_last,
                       int num_workers, int prefetch_factor, std::uint64_t seed) {
             return std::make_shared<data::DataLoader>(
                 dataset, data::DataLoaderOptions{batch_size, shuffle, std::move(sampler),
                                                  drop_last, num_workers, prefetch_factor, seed});
           }),
           py::arg("dataset"), py::arg("batch_size") = 1, py::arg("shuffle") = false,
           py::arg("sampler") = py::none(), py::arg("drop_last") = false,
           py::arg("num_workers") = 0, py::arg("prefetch_factor") = 2, py::arg("seed") = 0)
      .def("__len__", &data::DataLoader::size, "Batches in one pass.")
      .def_property_readonly("sampler", &data::DataLoader::sampler,
                             "What decides the order, a Sampler.")
      .def("__iter__", [](const std::shared_ptr<data::DataLoader>& loader) {
        return std::make_unique<Pass>(loader);
      });
}

}  // namespace

void bind_data(py::module_& m) {
  bind_datasets(m);
  bind_images(m);
  bind_samplers(m);
  bind_loader(m);
}

}  // namespace hvd::python
