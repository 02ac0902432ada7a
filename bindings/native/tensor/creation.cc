// Tensors of data, and of one number everywhere.
#include "horovod_cpp/tensor/creation.h"

#include <pybind11/stl.h>

#include "bindings/native/bindings.h"
#include "bindings/native/numbers.h"
#include "bindings/native/scalar.h"
#include "bindings/native/tensor/docs.h"
#include "bindings/native/words.h"
#include "horovod_cpp/autograd/functions/functions.h"

namespace hvd::python {
namespace {

constexpr const char* kNegativeExtent = "InvalidArgumentError: a negative extent.";

void bind_constructors(py::module_& m) {
  m.def(
      "tensor",
      [](const TensorData& data, const MaybeDType& dtype, Flag<"requires_grad"> requires_grad,
         const MaybeDevice& device) {
        Tensor result = copy_to_tensor(data);
        if (!dtype.is_none()) result = result.to(dtype_from(dtype));
        // Without a device that of a Tensor stays.
        if (!device.is_none()) result = result.to(device_or_cpu(device));
        if (requires_grad) result.requires_grad_();
        return result;
      },
      py::arg("data"), py::arg("dtype") = py::none(), py::arg("requires_grad") = false,
      py::kw_only(), py::arg("device") = py::none(),
      R"(Make a tensor with a copy of ``data``.

Args:
    data: a Tensor, a NumPy array, a number, or nested lists of numbers. Python's floats become
        float32, its complex numbers complex64, its ints int64, its bools bool.
    dtype: element type, as a name ("bfloat16") or a NumPy dtype; None keeps that of ``data``.
    requires_grad: whether backward() leaves a gradient here.
    device: "cpu", "cuda:0", ...; None: that of a Tensor, else "cpu".

Returns:
    A new Tensor of the shape of ``data``.

Raises:
    InvalidArgumentError: ``dtype`` is unknown, or ``device`` names none.
    UnsupportedError: the device cannot be used here; says why.
    TypeError: ``data`` holds something else than numbers of a supported dtype.)");
  m.def("from_numpy", &tensor_from_numpy, py::arg("array"),
        R"(Wrap a NumPy array as a tensor; nothing is copied, both see each other's writes.

Raises:
    InvalidArgumentError: the array is read-only, or has negative or odd strides.
    TypeError: not an array, or of a dtype without counterpart.)");
}

void bind_fillers(py::module_& m) {
  const auto filler = [&m](const char* name, Tensor (*make)(Shape, DType, Device),
                           const char* what) {
    const std::string doc =
        tensor_doc(what,
                   {"shape: a tuple (also called size), or several numbers.", kDtype,
                    "requires_grad: whether backward() leaves a gradient there.", kDevice},
                   kNew, kNegativeExtent);
    def_sized(m, name, make, doc.c_str());
  };
  filler("empty", &Tensor::empty, "A tensor with unset elements.");
  filler("zeros", &Tensor::zeros, "A tensor with zeros everywhere.");
  filler("ones", &Tensor::ones, "A tensor with ones everywhere.");
  def_also(
      m, "full", {{"shape", "size"}, {"value", "fill_value"}},
      [](const ShapeLike& shape, const Scalar& value, const MaybeDType& dtype,
         const MaybeDevice& device) {
        const DType type = dtype_or(dtype, DType::kF32);
        const Device place = device_or_cpu(device);
        if (!value.exact_in(type)) return Tensor::full(shape_from(shape), value, type, place);
        return Tensor::empty(shape_from(shape), type).copy_(value.tensor(type)).to(place);
      },
      py::arg("shape"), py::arg("value"), py::arg("dtype") = py::none(), py::kw_only(),
      py::arg("device") = py::none(),
      tensor_doc("A tensor with one number everywhere.",
                 {"shape: of the result (also called size).",
                  "value: the number (also called fill_value).", kDtype, kDevice},
                 kNew, kNegativeExtent)
          .c_str());
  m.def("bitwise_equal", &bitwise_equal, py::arg("a"), py::arg("b"), ReleaseGil(),
        R"(Whether the Tensors ``a`` and ``b`` have one dtype and shape and the same bits;
never raises.)");
}

}  // namespace

void bind_tensor_creation(py::module_& m) {
  bind_constructors(m);
  bind_fillers(m);
}

}  // namespace hvd::python
