#include <pybind11/stl.h>

#include <limits>
#include <utility>
#include <vector>

#include "bindings/native/data/data.h"

namespace hvd::python {
namespace {

using Indices = std::vector<std::int64_t>;

[[noreturn]] void refuse(const char* wanted, const py::handle& object) {
  throw py::type_error(std::string("expected ") + wanted + ", got " +
                       Py_TYPE(object.ptr())->tp_name);
}

class PythonDataset final : public data::Dataset {
 public:
  explicit PythonDataset(const py::handle& object)
      : object_(object),
        size_(static_cast<std::int64_t>(py::len(object))),
        class_name_(Py_TYPE(object.ptr())->tp_name) {}
  std::int64_t size() const override { return size_; }
  std::string class_name() const override { return class_name_; }
  data::Sample get(std::int64_t index) const override {
    data::check_index(index, size_);
    return in_python([&] { return sample_from(object_.get().attr("__getitem__")(index)); });
  }

 private:
  SharedObject object_;
  std::int64_t size_;
  std::string class_name_;
};

class PythonTransform final : public data::transforms::Transform {
 public:
  explicit PythonTransform(const py::handle& function) : function_(function) {}
  Tensor operator()(const Tensor& image) const override {
    return in_python([&] { return example_tensor(function_.get()(image)); });
  }

 private:
  SharedObject function_;
};

// Iterates over an object for every pass, after its set_epoch() if it has one.
class PythonIterable {
 public:
  explicit PythonIterable(const py::handle& object) : object_(object) {}
  std::int64_t size() const {
    return in_python([&] { return static_cast<std::int64_t>(py::len(object_.get())); });
  }
  template <typename Item>
  std::vector<Item> items(std::int64_t epoch) const {
    return in_python([&] {
      const py::object object = object_.get();
      if (py::hasattr(object, "set_epoch")) object.attr("set_epoch")(epoch);
      std::vector<Item> items;
      for (const py::handle item : py::iter(object)) {
        try {
          items.push_back(item.cast<Item>());
        } catch (const py::cast_error&) {
          throw py::type_error("a sampler gives indices, a batch sampler lists of them; got " +
                               py::repr(item).cast<std::string>());
        }
      }
      return items;
    });
  }

 private:
  SharedObject object_;
};

class PythonSampler final : public data::Sampler {
 public:
  PythonSampler(const py::handle& object, std::uint64_t seed)
      : Sampler(seed, Next::kAnotherEpoch), iterable_(object) {}
  std::int64_t size() const override { return iterable_.size(); }
  Indices order(std::int64_t epoch) override { return iterable_.items<std::int64_t>(epoch); }

 private:
  PythonIterable iterable_;
};

// All indices of a Python batch sampler's pass in one row.
class FlatBatches final : public data::Sampler {
 public:
  FlatBatches(const py::handle& object, std::uint64_t seed)
      : Sampler(seed, Next::kAnotherEpoch), iterable_(object) {}
  // Not known before a pass is made: a position may be anywhere.
  std::int64_t size() const override { return std::numeric_limits<std::int64_t>::max(); }
  Indices order(std::int64_t epoch) override {
    batches_ = iterable_.items<Indices>(epoch);
    Indices flat;
    for (const Indices& batch : batches_) flat.insert(flat.end(), batch.begin(), batch.end());
    return flat;
  }
  std::int64_t batches() const { return iterable_.size(); }
  // The batches of the order made last, without those before its last `left` indices.
  std::vector<Indices> last_batches(std::size_t left) const {
    auto first = batches_.end();
    while (first != batches_.begin() && left >= (first - 1)->size()) left -= (--first)->size();
    return {first, batches_.end()};
  }

 private:
  PythonIterable iterable_;
  std::vector<Indices> batches_;
};

class PythonBatchSampler final : public data::BatchSampler {
 public:
  explicit PythonBatchSampler(std::shared_ptr<FlatBatches> flat)
      : BatchSampler(flat, 1), flat_(std::move(flat)) {}
  std::int64_t size() const override { return flat_->batches(); }
  std::vector<Indices> batches() override { return flat_->last_batches(flat_->indices().size()); }

 private:
  std::shared_ptr<FlatBatches> flat_;
};

}  // namespace

Tensor example_tensor(const py::handle& object) {
  if (py::isinstance<Tensor>(object)) return object.cast<Tensor>();
  const bool named = py::isinstance<py::dict>(object) || py::isinstance<py::str>(object);
  if (named || object.is_none()) refuse("a Tensor, array or number, or a tuple of them", object);
  if (!py::isinstance<py::array>(object)) return copy_to_tensor(object);
  return wrap_array(py::module_::import("numpy").attr("asarray")(object, py::arg("order") = "C"));
}

data::Sample sample_from(const py::handle& object) {
  if (!py::isinstance<py::tuple>(object) && !py::isinstance<py::list>(object)) {
    return {example_tensor(object)};
  }
  data::Sample sample;
  for (const py::handle field : object) sample.push_back(example_tensor(field));
  return sample;
}

TensorTuple to_tuple(const data::Sample& sample) {
  py::tuple tuple(sample.size());
  for (std::size_t i = 0; i < sample.size(); ++i) tuple[i] = py::cast(sample[i]);
  return TensorTuple(tuple);
}

std::shared_ptr<const data::Dataset> dataset_from(const py::handle& object) {
  if (py::isinstance<data::Dataset>(object)) {
    return object.cast<std::shared_ptr<const data::Dataset>>();
  }
  if (!py::hasattr(object, "__len__") || !py::hasattr(object, "__getitem__")) {
    if (py::hasattr(object, "__iter__")) {
      refuse(
          "a dataset with __len__ and __getitem__ (ranks and workers share the indices of one; "
          "of an iterable, pass list(...))",
          object);
    }
    refuse("a dataset (with __len__ and __getitem__)", object);
  }
  return std::make_shared<PythonDataset>(object);
}

std::shared_ptr<const data::transforms::Transform> transform_from(const py::handle& object) {
  using data::transforms::Transform;
  if (object.is_none()) return nullptr;
  if (py::isinstance<Transform>(object)) return object.cast<std::shared_ptr<const Transform>>();
  if (PyCallable_Check(object.ptr()) == 0) refuse("a transform or another callable", object);
  return std::make_shared<PythonTransform>(object);
}

std::shared_ptr<data::Sampler> sampler_from(const py::handle& object, std::uint64_t seed) {
  if (object.is_none()) return nullptr;
  if (py::isinstance<data::Sampler>(object)) return object.cast<std::shared_ptr<data::Sampler>>();
  if (!py::hasattr(object, "__len__") || !py::hasattr(object, "__iter__")) {
    refuse("a sampler (an iterable with __len__)", object);
  }
  return std::make_shared<PythonSampler>(object, seed);
}

std::shared_ptr<data::BatchSampler> batch_sampler_from(const py::handle& object,
                                                       std::uint64_t seed) {
  if (object.is_none()) return nullptr;
  if (py::isinstance<data::BatchSampler>(object)) {
    return object.cast<std::shared_ptr<data::BatchSampler>>();
  }
  if (!py::hasattr(object, "__len__") || !py::hasattr(object, "__iter__")) {
    refuse("a batch sampler (an iterable of lists, with __len__)", object);
  }
  return std::make_shared<PythonBatchSampler>(std::make_shared<FlatBatches>(object, seed));
}

data::CollateFn collate_fn_from(const py::handle& object) {
  if (object.is_none()) return nullptr;
  if (PyCallable_Check(object.ptr()) == 0) refuse("a callable as collate_fn", object);
  return [function = SharedObject(object)](const std::vector<data::Sample>& samples) {
    return in_python([&] {
      py::list examples;
      for (const data::Sample& sample : samples) examples.append(to_tuple(sample));
      return sample_from(function.get()(examples));
    });
  };
}

}  // namespace hvd::python
