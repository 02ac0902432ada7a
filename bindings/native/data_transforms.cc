#include <pybind11/stl.h>

#include <utility>

#include "bindings/native/data.h"
#include "horovod_cpp/data/transforms.h"

namespace hvd::python {
namespace {

namespace transforms = data::transforms;
using transforms::ImageSize;
using transforms::Range;
using transforms::Transform;

// A side of a square, or (height, width).
ImageSize size_from(const py::handle& object) {
  if (PyLong_Check(object.ptr())) return object.cast<std::int64_t>();
  const auto [height, width] = object.cast<std::pair<std::int64_t, std::int64_t>>();
  return {height, width};
}

Range range_from(const py::handle& object) {
  const auto [low, high] = object.cast<std::pair<double, double>>();
  return {low, high};
}

// (low, high), or the range that a number stands for in ColorJitter.
Range jitter_from(const py::handle& object, double neutral) {
  if (!PyFloat_Check(object.ptr()) && !PyLong_Check(object.ptr())) return range_from(object);
  const double x = object.cast<double>();
  return {neutral > 0 && x <= neutral ? neutral - x : (neutral > 0 ? 0.0 : -x), neutral + x};
}

std::shared_ptr<transforms::Resize> make_resize(const py::handle& size) {
  if (PyLong_Check(size.ptr())) {
    return std::make_shared<transforms::Resize>(size.cast<std::int64_t>());
  }
  return std::make_shared<transforms::Resize>(size_from(size));
}

void bind_composition(py::module_& m) {
  py::classh<Transform>(m, "Transform",
                        R"(A function from an image [channels, height, width] to a tensor.

What it draws at random comes from the thread's generator (``hvd.manual_seed``), which a DataLoader
seeds anew for every example.)")
      .def(
          "__call__",
          [](const Transform& transform, const py::handle& image) {
            const Tensor tensor = example_tensor(image);
            const py::gil_scoped_release nogil;
            return transform(tensor);
          },
          py::arg("image"));
  py::classh<transforms::Compose, Transform>(
      m, "Compose", "One transform after the other: native ones and other callables.")
      .def(py::init([](const py::iterable& steps) {
             std::vector<std::shared_ptr<const Transform>> made;
             for (const py::handle step : steps) made.push_back(transform_from(step));
             return std::make_shared<transforms::Compose>(std::move(made));
           }),
           py::arg("transforms"));
  py::classh<transforms::Lambda, Transform>(
      m, "Lambda", "A callable, which several threads may call, as a transform.")
      .def(py::init([](const py::object& function) {
             if (function.is_none()) throw py::type_error("Lambda: no function");
             return std::make_shared<transforms::Lambda>(
                 [transform = transform_from(function)](const Tensor& image) {
                   return (*transform)(image);
                 });
           }),
           py::arg("function"));
}

void bind_geometry(py::module_& m) {
  py::classh<transforms::Resize, Transform>(
      m, "Resize",
      R"(Bilinear with a filter as wide as the reduction (antialias); uint8 or float32.

Args:
    size: of the shorter side, the other in proportion; or (height, width).)")
      .def(py::init([](const py::handle& size) { return make_resize(size); }), py::arg("size"));
  py::classh<transforms::CenterCrop, Transform>(
      m, "CenterCrop", "The middle; zeros around an image that is smaller than ``size``.")
      .def(py::init([](const py::handle& size) {
             return std::make_shared<transforms::CenterCrop>(size_from(size));
           }),
           py::arg("size"));
  py::classh<transforms::RandomCrop, Transform>(
      m, "RandomCrop", "Somewhere in the image with ``padding`` zeros around it.")
      .def(py::init([](const py::handle& size, std::int64_t padding) {
             return std::make_shared<transforms::RandomCrop>(size_from(size), padding);
           }),
           py::arg("size"), py::arg("padding") = 0);
  py::classh<transforms::RandomResizedCrop, Transform>(
      m, "RandomResizedCrop",
      R"(A piece of random area and aspect, resized to ``size``.

Args:
    size: a side, or (height, width).
    scale: range of the area as a part of the image's.
    ratio: range of width by height, drawn log-uniformly.)")
      .def(py::init([](const py::handle& size, const py::handle& scale, const py::handle& ratio) {
             return std::make_shared<transforms::RandomResizedCrop>(
                 size_from(size), range_from(scale), range_from(ratio));
           }),
           py::arg("size"), py::arg("scale") = py::make_tuple(0.08, 1.0),
           py::arg("ratio") = py::make_tuple(3.0 / 4.0, 4.0 / 3.0));
  py::classh<transforms::RandomHorizontalFlip, Transform>(
      m, "RandomHorizontalFlip", "Left and right exchanged with probability ``p``.")
      .def(py::init<double>(), py::arg("p") = 0.5);
}

void bind_values(py::module_& m) {
  py::classh<transforms::ToTensor, Transform>(
      m, "ToTensor", "uint8 in 0 .. 255 to float32 in [0, 1]; float32 as it is.")
      .def(py::init<>());
  py::classh<transforms::Normalize, Transform>(
      m, "Normalize", "``(image - mean) / std``, one of each a channel or one for all; float32.")
      .def(py::init<std::vector<double>, std::vector<double>>(), py::arg("mean"), py::arg("std"));
  py::classh<transforms::ColorJitter, Transform>(
      m, "ColorJitter",
      R"(Changes brightness, contrast, saturation and hue in random order.

Args:
    brightness, contrast, saturation: a range of factors (low, high), or x for
        (max(0, 1 - x), 1 + x).
    hue: a range of turns within [-0.5, 0.5], or x for (-x, x).)")
      .def(py::init([](const py::handle& brightness, const py::handle& contrast,
                       const py::handle& saturation, const py::handle& hue) {
             return std::make_shared<transforms::ColorJitter>(
                 jitter_from(brightness, 1), jitter_from(contrast, 1), jitter_from(saturation, 1),
                 jitter_from(hue, 0));
           }),
           py::arg("brightness") = 0, py::arg("contrast") = 0, py::arg("saturation") = 0,
           py::arg("hue") = 0);
}

}  // namespace

void bind_transforms(py::module_& m) {
  bind_composition(m);
  bind_geometry(m);
  bind_values(m);
}

}  // namespace hvd::python
