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

void bind_composition(py::module_& m) {
  py::classh<Transform>(m, "Transform",
                        R"(A function from an image [channels, height, width] to a tensor.

What it draws at random comes from the thread's generator (``hvd.manual_seed``), which a DataLoader
seeds for every example.)")
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
  define_class<transforms::Compose, Transform>(
      m, "Compose", "One transform after the other.",
      py::init([](const Typed<"collections.abc.Iterable[TransformLike]">& steps) {
        std::vector<std::shared_ptr<const Transform>> made;
        for (const py::handle step : steps) made.push_back(transform_from(step));
        return std::make_shared<transforms::Compose>(std::move(made));
      }),
      Arg("transforms", "native ones and other callables."));
  define_class<transforms::Lambda, Transform>(
      m, "Lambda", "A callable as a transform.", py::init([](const TransformLike& function) {
        if (function.is_none()) throw py::type_error("Lambda: no function");
        return std::make_shared<transforms::Lambda>(
            [transform = transform_from(function)](const Tensor& image) {
              return (*transform)(image);
            });
      }),
      Arg("function", "takes a Tensor, returns a Tensor or array; several threads may call it."));
}

constexpr Arg kSize{"size", "a side in pixels, or (height, width)."};

void bind_geometry(py::module_& m) {
  define_class<transforms::Resize, Transform>(
      m, "Resize", "Bilinear with a filter as wide as the reduction (antialias); uint8 or float32.",
      py::init([](const PairLike& size) {
        using transforms::Resize;
        return PyLong_Check(size.ptr()) ? std::make_shared<Resize>(size.cast<std::int64_t>())
                                        : std::make_shared<Resize>(size_from(size));
      }),
      Arg("size", "of the shorter side, the other in proportion; or (height, width)."));
  define_class<transforms::CenterCrop, Transform>(
      m, "CenterCrop", "The middle; zeros around an image that is smaller.",
      py::init([](const PairLike& size) {
        return std::make_shared<transforms::CenterCrop>(size_from(size));
      }),
      kSize);
  define_class<transforms::RandomCrop, Transform>(
      m, "RandomCrop", "A random place in the image.",
      py::init([](const PairLike& size, Integer padding) {
        return std::make_shared<transforms::RandomCrop>(size_from(size), padding);
      }),
      kSize, Arg("padding", "zeros around the image, in pixels.") = 0,
      Remark{"Calls raise InvalidArgumentError when the padded image is smaller."});
  define_class<transforms::RandomResizedCrop, Transform>(
      m, "RandomResizedCrop", "A piece of random area and aspect, resized to ``size``.",
      py::init([](const PairLike& size, const RangeLike& scale, const RangeLike& ratio) {
        return std::make_shared<transforms::RandomResizedCrop>(size_from(size), range_from(scale),
                                                               range_from(ratio));
      }),
      Arg("size", "a side, or (height, width)."),
      Arg("scale", "range of the area as a part of the image's.") = py::make_tuple(0.08, 1.0),
      Arg("ratio", "range of width by height, drawn log-uniformly.") =
          py::make_tuple(3.0 / 4.0, 4.0 / 3.0));
  define_class<transforms::RandomHorizontalFlip, Transform>(
      m, "RandomHorizontalFlip", "Left and right exchanged at random.", py::init<double>(),
      Arg("p", "the probability, within [0, 1].") = 0.5);
}

void bind_values(py::module_& m) {
  define_class<transforms::ToTensor, Transform>(
      m, "ToTensor", "uint8 in 0 .. 255 to float32 in [0, 1]; float32 as it is.", py::init<>());
  define_class<transforms::Normalize, Transform>(
      m, "Normalize", "(image - mean) / std; float32.",
      py::init<std::vector<double>, std::vector<double>>(),
      Arg("mean", "one per channel, or one for all."), Arg("std", "likewise, above 0."),
      Invalid{"no numbers, or a deviation of 0; called, another number of channels."});
  define_class<transforms::ColorJitter, Transform>(
      m, "ColorJitter", "Changes brightness, contrast, saturation and hue in random order.",
      py::init([](const JitterLike& brightness, const JitterLike& contrast,
                  const JitterLike& saturation, const JitterLike& hue) {
        return std::make_shared<transforms::ColorJitter>(
            jitter_from(brightness, 1), jitter_from(contrast, 1), jitter_from(saturation, 1),
            jitter_from(hue, 0));
      }),
      ArgText{"brightness, contrast, saturation: a range of factors (low, high), or x for\n"
              "        (max(0, 1 - x), 1 + x)."},
      py::arg("brightness") = 0, py::arg("contrast") = 0, py::arg("saturation") = 0,
      Arg("hue", "a range of turns within [-0.5, 0.5], or x for (-x, x).") = 0);
}

}  // namespace

void bind_transforms(py::module_& m) {
  bind_composition(m);
  bind_geometry(m);
  bind_values(m);
}

}  // namespace hvd::python
