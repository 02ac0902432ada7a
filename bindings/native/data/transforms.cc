#include <pybind11/stl.h>

#include <utility>

#include "bindings/native/data/data.h"
#include "horovod_cpp/data/transforms.h"

namespace hvd::python {
namespace {

namespace transforms = data::transforms;
using transforms::ImageSize;
using transforms::Range;
using transforms::Transform;
using RangeLike = Typed<"tuple[float, float]">;
using JitterLike = Typed<"float | tuple[float, float]">;

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
          [](const Transform& transform, const ArrayLike& image) {
            const Tensor tensor = example_tensor(image);
            const WithoutGil nogil;
            return transform(tensor);
          },
          py::arg("image"),
          R"(Transform ``image``, [channels, height, width], uint8 or floating.

Raises:
    InvalidArgumentError: a shape or dtype that this transform does not take.)");
  py::classh<transforms::Compose, Transform>(m, "Compose", R"(One transform after the other.

Args:
    transforms: native ones and other callables.)")
      .def(py::init([](const Typed<"collections.abc.Iterable[TransformLike]">& steps) {
             std::vector<std::shared_ptr<const Transform>> made;
             for (const py::handle step : steps) made.push_back(transform_from(step));
             return std::make_shared<transforms::Compose>(std::move(made));
           }),
           py::arg("transforms"));
  py::classh<transforms::Lambda, Transform>(m, "Lambda", R"(A callable as a transform.

Args:
    function: takes a Tensor, gives a Tensor or array; several threads may call it.)")
      .def(py::init([](const TransformLike& function) {
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
      .def(py::init([](const PairLike& size) { return make_resize(size); }), py::arg("size"));
  py::classh<transforms::CenterCrop, Transform>(
      m, "CenterCrop", R"(The middle; zeros around an image that is smaller.

Args:
    size: a side in pixels, or (height, width).)")
      .def(py::init([](const PairLike& size) {
             return std::make_shared<transforms::CenterCrop>(size_from(size));
           }),
           py::arg("size"));
  py::classh<transforms::RandomCrop, Transform>(m, "RandomCrop", R"(A random place in the image.

Args:
    size: a side in pixels, or (height, width).
    padding: zeros around the image, in pixels.

Calls raise InvalidArgumentError when the padded image is smaller.)")
      .def(py::init([](const PairLike& size, Integer padding) {
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
      .def(py::init([](const PairLike& size, const RangeLike& scale, const RangeLike& ratio) {
             return std::make_shared<transforms::RandomResizedCrop>(
                 size_from(size), range_from(scale), range_from(ratio));
           }),
           py::arg("size"), py::arg("scale") = py::make_tuple(0.08, 1.0),
           py::arg("ratio") = py::make_tuple(3.0 / 4.0, 4.0 / 3.0));
  py::classh<transforms::RandomHorizontalFlip, Transform>(m, "RandomHorizontalFlip",
                                                          R"(Left and right exchanged at random.

Args:
    p: the probability, within [0, 1].)")
      .def(py::init<double>(), py::arg("p") = 0.5);
}

void bind_values(py::module_& m) {
  py::classh<transforms::ToTensor, Transform>(
      m, "ToTensor", "uint8 in 0 .. 255 to float32 in [0, 1]; float32 as it is.")
      .def(py::init<>());
  py::classh<transforms::Normalize, Transform>(m, "Normalize", R"((image - mean) / std; float32.

Args:
    mean: one a channel, or one for all.
    std: likewise, above 0.

Raises:
    InvalidArgumentError: no numbers, or a deviation of 0; called, another number of channels.)")
      .def(py::init<std::vector<double>, std::vector<double>>(), py::arg("mean"), py::arg("std"));
  py::classh<transforms::ColorJitter, Transform>(
      m, "ColorJitter",
      R"(Changes brightness, contrast, saturation and hue in random order.

Args:
    brightness, contrast, saturation: a range of factors (low, high), or x for
        (max(0, 1 - x), 1 + x).
    hue: a range of turns within [-0.5, 0.5], or x for (-x, x).)")
      .def(py::init([](const JitterLike& brightness, const JitterLike& contrast,
                       const JitterLike& saturation, const JitterLike& hue) {
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
