// Other shapes, dtypes and copies of a tensor, under the names of PyTorch and NumPy.
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/tensor/dlpack.h"
#include "bindings/native/tensor/tensor.h"
#include "core/base/status.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd::python {
namespace {

constexpr const char* kDevices = "\"cpu\", \"cuda\" and \"cuda:0\", \"cuda:1\" and so on";

// The device that an object names; none if it names none. Throws UnsupportedError for kinds of
// devices that there are not, and InvalidArgumentError for "cuda:x".
std::optional<Device> device_from(const py::handle& object) {
  if (!py::isinstance<py::str>(object)) return std::nullopt;
  const auto name = object.cast<std::string>();
  const auto is_a = [&name](const std::string& kind) {
    return name == kind || name.starts_with(kind + ":");
  };
  if (is_a("cpu") || is_a("cuda")) return parse_device(name);
  for (const char* kind : {"mps", "xpu", "hip", "meta"}) {
    if (!is_a(kind)) continue;
    throw UnsupportedError("tensors live in the memory of the CPU or of CUDA devices, not on '",
                           name, "'");
  }
  return std::nullopt;
}

}  // namespace

Device device_or_cpu(const py::object& device) {
  if (device.is_none()) return {};
  if (const auto place = device_from(device)) return *place;
  throw InvalidArgumentError("no device: ", py::repr(device).cast<std::string>(), "; expected ",
                             kDevices);
}

DType dtype_beside_devices(const py::handle& object) {
  try {
    return dtype_from(object);
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(error.what(), "; devices are ", kDevices);
  }
}

bool is_cpu(const py::handle& object) {
  const auto place = device_from(object);
  if (!place || place->kind == DeviceKind::kCpu) return place.has_value();
  throw UnsupportedError("'", to_string(*place),
                         "': modules and regions are on the CPU; only tensors can be on GPUs "
                         "(layers on the GPU come later)");
}

namespace {

Tensor view_as(const Tensor& tensor, Shape shape) {
  Tensor view = tensor.reshape(std::move(shape));
  if (view.address() == tensor.address() || tensor.numel() == 0) return view;
  throw InvalidArgumentError("view: memory of shape ", tensor.shape(), " cannot be seen as ",
                             view.shape(), " without a copy; use reshape()");
}

Tensor reversed_axes(const Tensor& tensor) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(tensor.dim()));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return tensor.permute(std::move(axes));
}

Tensor matrix_transpose(const Tensor& tensor) {
  if (tensor.dim() >= 2) return tensor.transpose(-2, -1);
  throw InvalidArgumentError("mT: a matrix or a stack of them has two axes at least, not ",
                             tensor.shape());
}

Tensor t(const Tensor& tensor) {
  if (tensor.dim() < 2) return tensor;
  if (tensor.dim() == 2) return tensor.t();
  throw InvalidArgumentError("t: transposes a matrix, not a tensor of shape ", tensor.shape(),
                             "; use mT, transpose(a, b) or permute()");
}

Tensor squeeze_all(const Tensor& tensor) {
  Tensor result = tensor;
  for (std::int64_t axis = tensor.dim() - 1; axis >= 0; --axis) {
    if (tensor.size(axis) == 1) result = result.squeeze(axis);
  }
  return result;
}

void bind_shapes(TensorClass& cls) {
  cls.def(
      "reshape",
      [](const Tensor& a, const py::Args<ShapeLike>& shape) {
        return a.reshape(shape_from(shape));
      },
      "A view of another shape (one extent may be -1); a copy where no view is possible.");
  cls.def(
      "view",
      [](const Tensor& a, const py::Args<ShapeLike>& shape) {
        return view_as(a, shape_from(shape));
      },
      "A view of another shape (one extent may be -1); InvalidArgumentError where it needs a "
      "copy.");
  cls.def(
      "view_as", [](const Tensor& a, const Tensor& other) { return view_as(a, other.shape()); },
      py::arg("other"),
      "view() of the shape of ``other``; InvalidArgumentError where it needs a copy.");
  cls.def("flatten", given(&Tensor::flatten), py::arg("start_dim") = 0, py::arg("end_dim") = -1,
          "Merges the axes from ``start_dim`` to ``end_dim`` into one.");
  cls.def(
      "ravel", [](const Tensor& a) { return a.reshape({-1}); },
      "All elements in one axis; a view where possible.");
  def_axis(cls, "unsqueeze", given(&Tensor::unsqueeze), "A view with an axis of extent 1 more.",
           py::arg("axis"));
  cls.def("squeeze", &squeeze_all, "A view without axes of extent 1, or without one of them.");
  def_axis(cls, "squeeze", given(&Tensor::squeeze), "", py::arg("axis"));
  cls.def(
      "expand",
      [](const Tensor& a, const py::Args<ShapeLike>& shape) { return a.expand(shape_from(shape)); },
      "A view that repeats axes of extent 1; -1 keeps an extent.");
  cls.def(
      "expand_as", [](const Tensor& a, const Tensor& other) { return a.expand(other.shape()); },
      py::arg("other"),
      "expand() to the shape of ``other``; InvalidArgumentError where it does not broadcast.");
}

void bind_axes(TensorClass& cls) {
  cls.def(
      "permute",
      [](const Tensor& a, const py::Args<ShapeLike>& axes) { return a.permute(shape_from(axes)); },
      "A view with the axes in another order: a tuple, or several numbers.");
  cls.def("transpose", given(&Tensor::transpose), py::arg("dim0"), py::arg("dim1"),
          "A view with the axes ``dim0`` and ``dim1`` swapped; without arguments with all axes in "
          "reverse.");
  cls.def("transpose", &reversed_axes);
  cls.def("swapaxes", given(&Tensor::transpose), py::arg("axis1"), py::arg("axis2"),
          "A view with ``axis1`` and ``axis2`` swapped.");
  cls.def("t", &t, "The transpose of a matrix, a view; a vector or scalar itself.");
  cls.def_property_readonly("T", &reversed_axes, "A view with all axes in reverse.");
  cls.def_property_readonly("mT", &matrix_transpose, "A view with the last two axes swapped.");
  def_axis(cls, "slice", given(&Tensor::slice),
           "A view of every step-th of the elements begin to end-1 of ``axis``.", py::arg("axis"),
           py::arg("begin"), py::arg("end"), py::arg("step") = 1);
  def_axis(cls, "select", given(&Tensor::select),
           "A view of position ``index`` of ``axis``, which disappears.", py::arg("axis"),
           py::arg("index"));
}

// (dtype), (device), (device, dtype), (other), with the names that PyTorch has.
Tensor convert(const Tensor& tensor, const Typed<"DTypeLike | Tensor | None">& target,
               MaybeDType dtype, const MaybeDevice& device) {
  std::optional<Device> place;
  if (!device.is_none()) place = device_or_cpu(device);
  if (py::isinstance<Tensor>(target)) {
    const auto& other = target.cast<const Tensor&>();
    const WithoutGil nogil;
    return tensor.to(other.dtype()).to(place.value_or(other.device()));
  }
  if (const auto named = device_from(target)) {
    if (place) throw py::type_error("to: two devices");
    place = named;
  } else if (!target.is_none()) {
    if (!dtype.is_none()) throw py::type_error("to: two dtypes");
    dtype = target;
  }
  if (dtype.is_none() && !place) throw py::type_error("to: takes a dtype, a device or a Tensor");
  const DType wanted = dtype.is_none() ? tensor.dtype() : dtype_beside_devices(dtype);
  const WithoutGil nogil;
  return tensor.to(wanted).to(place.value_or(tensor.device()));
}

// Itself, the same object, where it is there.
Typed<"Tensor"> on_device(const Typed<"Tensor">& self, const Device& device) {
  const auto& tensor = self.cast<const Tensor&>();
  if (tensor.device() == device) return self;
  return py::cast(without_gil([&] { return tensor.to(device); }));
}

Device cuda_device(const Typed<"int | str | None">& device) {
  if (device.is_none()) return {DeviceKind::kCuda, 0};
  if (py::isinstance<py::int_>(device)) return parse_device("cuda:" + std::string(py::str(device)));
  const Device place = device_or_cpu(device);
  if (place.kind == DeviceKind::kCuda) return place;
  throw InvalidArgumentError("cuda: '", to_string(place), "' is not a CUDA device");
}

void bind_copies(TensorClass& cls) {
  cls.def("detach", &Tensor::detach, "The same memory, outside the graph.");
  cls.def_property_readonly("data", &Tensor::detach, "The same memory, outside the graph.");
  cls.def("contiguous", &Tensor::contiguous, ReleaseGil(), "Itself, or a dense copy.");
  cls.def("clone", &Tensor::clone, ReleaseGil(), "A copy with memory of its own.");
  cls.def(
      "cpu", [](const Typed<"Tensor">& self) { return on_device(self, {}); },
      "Itself, or a copy in the memory of the CPU, which waits for the device.");
  cls.def(
      "cuda",
      [](const Typed<"Tensor">& self, const Typed<"int | str | None">& device) {
        return on_device(self, cuda_device(device));
      },
      py::arg("device") = py::none(),
      "Itself, or a copy in the memory of a CUDA ``device``: a number or name, None: 0. "
      "UnsupportedError, saying why, where there is none; MemoryError where it is full.");
  define(
      cls, "to", &convert, "Itself, or a copy converted to a dtype, in the memory of a device.",
      Arg("target",
          "a dtype, a device (\"cpu\", \"cuda\", \"cuda:1\"), or a Tensor: its dtype and device.") =
          py::none(),
      Arg("dtype", "a dtype beside a device.") = py::none(), py::kw_only(),
      Arg("device", "a device.") = py::none(), Returns{"A Tensor of the same shape."},
      Raises{"UnsupportedError: the device cannot be used here; says why."},
      Raises{"MemoryError: it has no memory left; names it and the bytes."});
  cls.def(
      "astype",
      [](const Tensor& a, const DTypeLike& dtype, Flag<"copy"> copy) {
        const Tensor result = a.to(dtype_from(dtype));
        return copy && result.is(a) ? a.clone() : result;
      },
      py::arg("dtype"), py::arg("copy") = true,
      "A copy converted to ``dtype``; with ``copy=False`` itself if it has that dtype.");
  const auto converter = [&cls](const char* name, DType dtype) {
    const std::string doc = "to(\"" + std::string(name_of(dtype)) + "\")";
    cls.def(
        name, [dtype](const Tensor& a) { return a.to(dtype); }, ReleaseGil(), doc.c_str());
  };
  converter("half", DType::kF16);
  converter("bfloat16", DType::kBF16);
  converter("float", DType::kF32);
  converter("double", DType::kF64);
  converter("int", DType::kI32);
  converter("long", DType::kI64);
  converter("bool", DType::kBool);
}

}  // namespace

void bind_tensor_views(TensorClass& cls) {
  cls.def_static("_is_cpu",
                 [](const Anything& name) { return is_cpu(name); });  // for the Python package
  bind_shapes(cls);
  bind_axes(cls);
  bind_copies(cls);
}

}  // namespace hvd::python
