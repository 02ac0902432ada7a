#include <pybind11/complex.h>
#include <pybind11/stl.h>

#include <complex>
#include <cstring>

#include "bindings/native/tensor/tensor.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd::python {
namespace {

py::typing::Tuple<int, py::ellipsis> to_tuple(const Shape& shape) {
  py::typing::Tuple<int, py::ellipsis> tuple(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) tuple[i] = py::int_(shape[i]);
  return tuple;
}

Typed<"int | float | complex | bool"> item(const Tensor& tensor) {
  if (is_floating(tensor.dtype()) || tensor.numel() != 1) return py::float_(tensor.item());
  if (is_complex(tensor.dtype())) {
    return py::cast(*tensor.to(DType::kC128).cpu().data<std::complex<double>>());
  }
  if (tensor.dtype() == DType::kBool) return py::bool_(tensor.item() != 0.0);
  // Through double, an int64 would lose bits.
  return py::int_(*tensor.to(DType::kI64).contiguous().cpu().data<std::int64_t>());
}

// NumPy's protocol; `copy` is NumPy 2's.
Typed<"numpy.ndarray"> to_array(const Tensor& tensor, const MaybeDType& dtype,
                                const Typed<"bool | None">& copy) {
  py::object array = tensor_to_numpy(tensor);
  const py::object present = array.attr("dtype");
  const bool convert = !dtype.is_none() && !present.equal(dtype);
  if (convert && !copy.is_none() && !copy.cast<bool>()) {
    throw py::value_error("the tensor cannot become an array of that dtype without a copy");
  }
  if (convert) return array.attr("astype")(dtype);
  if (!copy.is_none() && copy.cast<bool>()) return array.attr("copy")();
  return array;
}

Typed<"tuple[typing.Any, ...]"> reduce_tensor(const py::object& tensor) {
  return py::module_::import("horovod_cpp.tensor_state").attr("reduce_tensor")(tensor);
}

Typed<"tuple[str, tuple[int, ...], bytes, bool]"> tensor_state(const Tensor& tensor) {
  require_cpu("pickle and deepcopy", {&tensor});
  const Tensor dense = tensor.detach().contiguous();
  return py::make_tuple(std::string(name_of(dense.dtype())), to_tuple(dense.shape()),
                        py::bytes(static_cast<const char*>(dense.data()), bytes_of(dense)),
                        tensor.requires_grad());
}

Tensor tensor_from_state(const std::string& dtype, const Shape& shape, const py::bytes& data,
                         Flag<"requires_grad"> requires_grad) {
  Tensor tensor = Tensor::empty(shape, parse_dtype(dtype));
  const std::string_view bytes = data;
  if (bytes.size() != bytes_of(tensor)) {
    throw InvalidArgumentError("a pickled tensor has ", bytes.size(), " bytes for shape ",
                               tensor.shape());
  }
  std::memcpy(tensor.data(), bytes.data(), bytes.size());
  if (requires_grad) tensor.requires_grad_();
  return tensor;
}

// As in PyTorch: another tensor over the same memory.
Tensor shallow_copy(const Tensor& tensor) {
  Tensor copy = tensor.detach();
  if (tensor.is_leaf() && tensor.requires_grad()) copy.requires_grad_();
  return copy;
}

[[noreturn]] py::object no_new(const py::args&, const py::kwargs&) {
  throw py::type_error("a Tensor is made by hvd.tensor(data), hvd.zeros(shape) and so on");
}

void bind_one_element(TensorClass& cls) {
  cls.def(
      "__format__",
      [](const Tensor& t, const std::string& format) -> py::str {
        if (format.empty()) return py::str(py::cast(t));
        if (t.numel() == 1) return py::module_::import("builtins").attr("format")(item(t), format);
        throw py::type_error(
            str_cat("'", format, "' formats one number, the tensor has shape ", t.shape()));
      },
      py::arg("format"));
  cls.def("__float__", [](const Tensor& t) { return t.item(); });
  cls.def("__int__", [](const Tensor& t) { return py::int_(item(t)); });
  cls.def(
      "__complex__", [](const Tensor& t) -> Typed<"complex"> {
        return py::module_::import("builtins").attr("complex")(item(t));
      });
  cls.def("__index__", [](const Tensor& t) {
    if (t.numel() != 1 || is_floating(t.dtype()) || is_complex(t.dtype())) {
      throw py::type_error(str_cat("only a tensor of one integer is an index, not one of shape ",
                                   t.shape(), " and dtype ", t.dtype()));
    }
    return py::reinterpret_steal<py::int_>(PyNumber_Long(item(t).ptr()));  // True: 1
  });
  cls.def("__bool__", [](const Tensor& t) {
    if (t.numel() != 1) {
      throw InvalidArgumentError("a tensor of shape ", t.shape(),
                                 " is neither true nor false; use any() or all()");
    }
    return py::bool_(item(t));
  });
}

void bind_container(TensorClass& cls) {
  cls.def("__len__", [](const Tensor& t) {
    if (t.dim() == 0) throw py::type_error("a scalar tensor has no length");
    return t.size(0);
  });
  cls.def("__iter__", [](const Tensor& t) -> py::typing::Iterator<Tensor> {
    if (t.dim() == 0) throw py::type_error("a scalar tensor cannot be iterated");
    py::list rows;
    for (std::int64_t i = 0; i < t.size(0); ++i) rows.append(t.select(0, i));
    return py::iter(rows);
  });
  cls.def("__contains__", [](const Tensor& t, const Anything& value) {
    const py::object equal = py::cast(t).attr("__eq__")(value);
    if (equal.is(py::reinterpret_borrow<py::object>(Py_NotImplemented))) return false;
    return equal.cast<Tensor>().numel() != 0 && any(equal.cast<Tensor>()).item() != 0.0;
  });
  // Makes array + tensor a tensor, so that the graph is not lost on the way.
  cls.attr("__array_priority__") = 1000;
}

void bind_facts(TensorClass& cls) {
  cls.def_property_readonly(
      "shape",
      [](const Tensor& t) -> py::typing::Tuple<int, py::ellipsis> { return to_tuple(t.shape()); },
      "Extents, a tuple of ints.");
  cls.def_property_readonly(
      "dtype", [](const Tensor& t) { return std::string(name_of(t.dtype())); },
      "Name of the element type: \"float32\", \"bfloat16\", ...");
  cls.def_property_readonly("ndim", &Tensor::dim, "Number of axes.");
  cls.def("dim", &Tensor::dim, "Number of axes.");
  cls.def(
      "size", [](const Tensor& t) { return to_tuple(t.shape()); }, "Extents, a tuple of ints.");
  def_axis(
      cls, "size", given(&Tensor::size),
      "Extent of ``axis``; a negative one counts from the end; InvalidArgumentError without it.",
      py::arg("axis"));
  cls.def(
      "stride", [](const Tensor& t) { return to_tuple(t.strides()); },
      "Distances in elements between neighbours along each axis, a tuple of ints.");
  cls.def_property_readonly(
      "device", [](const Tensor& t) { return to_string(t.device()); },
      "Where the memory is: \"cpu\", \"cuda:0\".");
  cls.def_property_readonly(
      "is_cuda", [](const Tensor& t) { return t.device().kind == DeviceKind::kCuda; },
      "Whether the memory is that of a CUDA device.");
  cls.def_property_readonly(
      "itemsize", [](const Tensor& t) { return size_of(t.dtype()); }, "Bytes of an element.");
  cls.def(
      "element_size", [](const Tensor& t) { return size_of(t.dtype()); }, "Bytes of an element.");
  cls.def_property_readonly(
      "nbytes", [](const Tensor& t) { return bytes_of(t); }, "Bytes of all elements.");
  cls.def(
      "is_floating_point", [](const Tensor& t) { return is_floating(t.dtype()); },
      "Whether the dtype is a floating one.");
  cls.def("numel", &Tensor::numel, "Number of elements.");
  cls.def("is_contiguous", &Tensor::is_contiguous, "Whether memory is dense and row-major.");
  cls.def("is_same", &Tensor::is, py::arg("other"),
          R"(Whether this and ``other`` are handles on one tensor, not only on equal
elements (``is`` compares the handles); never raises.)");
  cls.def("item", &item, "The one element as a Python number. ValueError unless ``numel() == 1``.");
  cls.def(
      "tolist",
      [](const Tensor& t) -> Anything {
        const Tensor values = t.detach().cpu();
        return tensor_to_numpy(t.dtype() == DType::kBF16 ? values.to(DType::kF32) : values)
            .attr("tolist")();
      },
      "Nested lists of Python numbers, or one number for a scalar.");
  cls.def("numpy", py::overload_cast<const Tensor&>(&tensor_to_numpy),
          R"(The tensor's memory as a writable NumPy array; nothing is copied.

Writes are seen by the tensor and are not recorded by autograd.

Raises:
    TypeError: the dtype is bfloat16, which NumPy does not have; use ``.to("float32")``.
    UnsupportedError: the memory is that of a GPU; use ``.cpu()``.)");
  cls.def("__array__", &to_array, py::arg("dtype") = py::none(), py::arg("copy") = py::none());
  cls.def_buffer([](const Tensor& t) { return tensor_to_numpy(t).request(/*writable=*/true); });
  cls.def("__reduce__", &reduce_tensor, "What pickle and copy.deepcopy need.");
  cls.def("__copy__", &shallow_copy, "Another Tensor over the same memory.");
  cls.def_static("__new__", &no_new);
}

void bind_in_place(TensorClass& cls) {
  constexpr auto kSelf = py::return_value_policy::reference_internal;
  cls.def(
      "copy_",
      [](Tensor& t, const ArrayLike& source) -> Tensor& {
        const Tensor from = tensor_from(source);
        const WithoutGil nogil;
        return t.copy_(from);
      },
      kSelf, py::arg("source"),
      R"(Overwrites with a tensor or array ``source``, which is broadcast and converted. InvalidArgumentError if shapes do not fit.)");
  cls.def(
      "fill_",
      [](Tensor& t, const Tensor& value) -> Tensor& {
        if (value.numel() != 1) {
          throw InvalidArgumentError("fill_: takes a value of one element, not of shape ",
                                     value.shape());
        }
        return t.copy_(value.reshape({}));
      },
      kSelf, py::arg("value"),
      "Sets all elements to ``value``, a number or a Tensor of one element, which gets the sum of "
      "the gradients. InvalidArgumentError if a Tensor has another shape.");
  cls.def(
      "fill_",
      [](Tensor& t, const Scalar& value) -> Tensor& {
        return value.exact_in(t.dtype()) ? t.copy_(value.tensor(t.dtype())) : t.fill_(value);
      },
      kSelf, py::arg("value"));
  cls.def("zero_", &Tensor::zero_, kSelf, "Sets all elements to 0.");
  const auto scaled = [&](const char* name, Tensor& (Tensor::*change)(const Tensor&, double),
                          const std::string& what) {
    cls.def(
        name,
        [change](Tensor& t, const Tensor& other, Number alpha) -> Tensor& {
          return (t.*change)(other, alpha);
        },
        kSelf, py::arg("other"), py::arg("alpha") = 1.0,
        (what + " ``alpha * other`` in place; shapes broadcast. InvalidArgumentError if shapes or "
                "dtypes do not fit, or ``alpha`` is not whole for integers.")
            .c_str());
  };
  scaled("add_", &Tensor::add_, "Adds");
  scaled("sub_", &Tensor::sub_, "Subtracts");
  cls.def(
      "mul_", py::overload_cast<const Tensor&>(&Tensor::mul_), kSelf, py::arg("other"),
      R"(Multiplies by a number (``factor``) or a tensor (``other``) in place; shapes broadcast. InvalidArgumentError if shapes or dtypes do not fit, or the number is not whole for integers.)");
  cls.def(
      "mul_",
      [](Tensor& t, const Scalar& factor) -> Tensor& {
        return factor.exact_in(t.dtype()) ? t.mul_(factor.tensor(t.dtype())) : t.mul_(factor);
      },
      kSelf, py::arg("factor"));
  cls.def(
      "div_", &Tensor::div_, kSelf, py::arg("other"),
      R"(Divides by ``other`` in place; shapes broadcast. InvalidArgumentError if shapes or dtypes do not fit.)");
}

// What stands on the right of += and its like, in the dtype of the left.
Tensor operand(const Tensor& left, const py::handle& value) {
  const bool is_array = py::isinstance<Tensor>(value) || py::isinstance<py::array>(value);
  if (is_array) return tensor_from(value);
  return beside(value.cast<Scalar>(), left);
}

// += and its like write into the tensor, as in NumPy and PyTorch.
void bind_augmented(TensorClass& cls) {
  const auto def = [&cls](const char* name, auto change) {
    cls.def(
        name,
        [change](const Typed<"Tensor">& self, const Typed<"ArrayLike | int | float">& value) {
          auto& left = self.cast<Tensor&>();
          const Tensor right = operand(left, value);
          without_gil([&] { change(left, right); });
          return self;
        },
        py::is_operator());
  };
  def("__iadd__", [](Tensor& a, const Tensor& b) { a.add_(b); });
  def("__isub__", [](Tensor& a, const Tensor& b) { a.sub_(b); });
  def("__imul__", [](Tensor& a, const Tensor& b) { a.mul_(b); });
  def("__itruediv__", [](Tensor& a, const Tensor& b) { a.div_(b); });
}

}  // namespace

void bind_tensor(py::module_& m) {
  TensorClass cls(m, "Tensor", py::buffer_protocol(),
                  R"(An n-dimensional array with a dtype, a shape and a place in the graph.

A handle: assigning or passing a Tensor shares its memory. dtypes: bool, uint8, int32, int64,
float16, bfloat16, float32, float64, and int8, uint16, int16, complex64, complex128, which are
stored, compared, converted and communicated only: arithmetic on them raises InvalidArgumentError.
Operators broadcast as in NumPy; both sides must have one dtype. NumPy arrays may stand on either
side. Reductions and element-wise functions are methods and functions of the module: ``t.sum()``,
``hvd.exp(t)``. ``==`` compares element by element; a Tensor's hash is that of its identity.

On a CUDA device (``t.cuda()``, ``device="cuda:0"``) there are creation, copies, conversions, views,
arithmetic, most element-wise functions, sum and mean, their gradients, SGD, Adam and AdamW, and
collectives; everything else raises UnsupportedError that names it. Calls return before the device is
done, in one order for all threads; printing, ``item()``, ``tolist()`` and ``cpu()`` wait for it.)");
  bind_facts(cls);
  bind_in_place(cls);
  bind_container(cls);
  bind_one_element(cls);
  bind_augmented(cls);
  bind_tensor_views(cls);
  m.def("_tensor_state", &tensor_state);
  m.def("_tensor_from_state", &tensor_from_state);
  bind_tensor_creation(m);
}

}  // namespace hvd::python
