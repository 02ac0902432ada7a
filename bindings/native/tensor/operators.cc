// Arithmetic, comparison and logic of tensors by operators, how a tensor prints, and indexing.

#include <functional>
#include <string>
#include <vector>

#include "bindings/native/tensor/tensor.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::python {
namespace {

using OfTwo = Tensor (*)(const Tensor&, const Tensor&);
using OfNumber = Tensor (*)(const Tensor&, double);

// An operator of a tensor and an array or a number, also where it is reflected.
template <typename Both, typename WithNumber>
void def_mixed(TensorClass& cls, const std::string& name, Both both, WithNumber number) {
  cls.def(
      name.c_str(),
      [both](const Tensor& self, const py::array& other) {
        const Tensor wrapped = wrap_array(other);
        const WithoutGil nogil;
        return both(self, wrapped);
      },
      py::is_operator());
  cls.def(name.c_str(), number, py::is_operator(), ReleaseGil());
}

// The operator and its reflection. `keeps_integers`: of two integers it makes one.
template <typename Operation>
void def_arithmetic(TensorClass& cls, const std::string& name, OfTwo both, Operation operation,
                    bool keeps_integers = true) {
  const auto swapped = [both](const Tensor& right, const Tensor& left) {
    return both(left, right);
  };
  const auto number = [=](const Tensor& left, const Scalar& right) {
    return keeps_integers && right.exact_in(left.dtype()) ? both(left, right.tensor(left.dtype()))
                                                          : operation(left, right.value);
  };
  const auto reflected = [=](const Tensor& right, const Scalar& left) {
    return keeps_integers && left.exact_in(right.dtype()) ? both(left.tensor(right.dtype()), right)
                                                          : operation(left.value, right);
  };
  cls.def(("__" + name + "__").c_str(), both, py::is_operator(), ReleaseGil());
  def_mixed(cls, "__" + name + "__", both, number);
  def_mixed(cls, "__r" + name + "__", swapped, reflected);
}

void def_compare(TensorClass& cls, const char* name, OfTwo both, OfNumber number) {
  cls.def(name, both, py::is_operator(), ReleaseGil());
  def_mixed(cls, name, both, with_scalar(both, number));
}

void bind_arithmetic(TensorClass& cls) {
  def_arithmetic(cls, "add", &add, std::plus<>());
  def_arithmetic(cls, "sub", &sub, std::minus<>());
  def_arithmetic(cls, "mul", &mul, std::multiplies<>());
  def_arithmetic(cls, "truediv", &hvd::div, std::divides<>(), /*keeps_integers=*/false);
  cls.def("__neg__", &neg, ReleaseGil());
  cls.def("__pow__", OfTwo{&pow}, py::is_operator(), ReleaseGil());
  cls.def("__pow__", OfNumber{&pow}, py::is_operator(), ReleaseGil());
  cls.def(
      "__rpow__",
      [](const Tensor& exponent, Number base) {
        return pow(Tensor::full({}, base, exponent.dtype()), exponent);
      },
      py::is_operator(), ReleaseGil());
  cls.def("__pos__", [](const Typed<"Tensor">& t) { return t; });
  cls.def("__matmul__", &matmul, py::is_operator(), ReleaseGil());
  cls.def(
      "__matmul__", [](const Tensor& a, const py::array& b) { return matmul(a, wrap_array(b)); },
      py::is_operator());
  cls.def(
      "__rmatmul__", [](const Tensor& b, const py::array& a) { return matmul(wrap_array(a), b); },
      py::is_operator());
}

void require_bool(const Tensor& tensor, const char* name) {
  if (tensor.dtype() == DType::kBool) return;
  throw InvalidArgumentError(name, ": takes bool tensors, not ", tensor.dtype());
}

void def_logic(TensorClass& cls, const char* name, OfTwo function) {
  cls.def(
      name,
      [=](const Tensor& a, const Tensor& b) {
        require_bool(a, name);
        require_bool(b, name);
        return function(a, b);
      },
      py::is_operator());
}

constexpr std::int64_t kWhole = 1000;  // elements of a tensor that is shown whole, as in PyTorch
constexpr std::int64_t kEdge = 3;      // of each axis of a larger one, at either end

// What is shown of a large tensor, with one more in the middle of each axis that is cut.
Tensor edges_of(Tensor tensor) {
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
    const std::int64_t extent = tensor.size(axis);
    if (extent <= 2 * kEdge + 1) continue;
    tensor =
        cat({tensor.slice(axis, 0, kEdge + 1), tensor.slice(axis, extent - kEdge, extent)}, axis);
  }
  return tensor;
}

std::string repr(const Tensor& tensor) {
  const bool whole = tensor.numel() <= kWhole;
  Tensor shown = whole ? tensor.detach() : edges_of(tensor.detach());
  shown = shown.cpu();
  if (shown.dtype() == DType::kBF16) shown = shown.to(DType::kF32);
  const auto elements =
      py::module_::import("numpy")
          .attr("array2string")(tensor_to_numpy(shown), py::arg("separator") = ", ",
                                py::arg("prefix") = "tensor(", py::arg("precision") = 4,
                                py::arg("threshold") = whole ? kWhole : 0,
                                py::arg("edgeitems") = kEdge)
          .cast<std::string>();
  std::string text = "tensor(" + elements;
  if (!whole || tensor.numel() == 0) {
    text += ", shape=" + py::str(py::cast(tensor).attr("shape")).cast<std::string>();
  }
  text += ", dtype=" + std::string(name_of(tensor.dtype()));
  if (!is_on_cpu(tensor)) text += ", device='" + to_string(tensor.device()) + "'";
  if (tensor.requires_grad()) text += ", requires_grad=True";
  return text + ")";
}

std::int64_t checked_index(std::int64_t index, std::int64_t extent, std::int64_t axis) {
  if (index < -extent || index >= extent) {
    throw py::index_error(
        str_cat("index ", index, " is out of range for axis ", axis, " of extent ", extent));
  }
  return index < 0 ? index + extent : index;
}

// A mask is one pick for several axes.
std::size_t skipped_by_masks(const std::vector<Tensor>& picks) {
  std::int64_t skipped = 0;
  for (const Tensor& pick : picks) {
    if (pick.defined() && pick.dtype() == DType::kBool) skipped += pick.dim() - 1;
  }
  return static_cast<std::size_t>(skipped);
}

// What an index means: a view, axes of it to be reversed, and arrays that pick from it.
struct Selection {
  Tensor view;
  std::vector<std::int64_t> reversed;
  std::vector<Tensor> picks;  // one an axis of the view, or one mask for several; undefined = all
  bool picking = false;
};

void apply_slice(Selection& selection, std::int64_t axis, const py::slice& slice) {
  py::ssize_t begin = 0;
  py::ssize_t end = 0;
  py::ssize_t step = 0;
  py::ssize_t count = 0;
  if (!slice.compute(selection.view.size(axis), &begin, &end, &step, &count)) {
    throw py::error_already_set();
  }
  if (count == 0) {
    selection.view = selection.view.slice(axis, 0, 0);
  } else if (step > 0) {
    selection.view = selection.view.slice(axis, begin, begin + (count - 1) * step + 1, step);
  } else {  // the same elements forwards, to be reversed
    selection.view = selection.view.slice(axis, begin + (count - 1) * step, begin + 1, -step);
    selection.reversed.push_back(axis);
  }
}

bool is_array(const py::handle& item) {
  return py::isinstance<Tensor>(item) || py::isinstance<py::array>(item) ||
         py::isinstance<py::list>(item);
}

// int64 positions or a bool mask.
Tensor pick_from(const py::handle& item) {
  const Tensor given = py::isinstance<py::list>(item) && py::len(item) == 0
                           ? Tensor::empty({0}, DType::kI64)
                       : py::isinstance<py::list>(item) ? copy_to_tensor(item)
                                                        : tensor_from(item).detach();
  if (given.dtype() == DType::kBool || given.dtype() == DType::kI64) return given;
  if (is_floating(given.dtype()) || is_complex(given.dtype())) {
    throw py::type_error(
        str_cat("a tensor is indexed by arrays of integers or bools, not of ", given.dtype()));
  }
  return given.to(DType::kI64);
}

// A mask of 0 axes: all of it or nothing.
bool is_single(const Tensor& pick) {
  return pick.dtype() == DType::kBool && pick.dim() == 0;
}

bool is_mask(const py::handle& item) {
  return is_array(item) && pick_from(item).dtype() == DType::kBool;
}

// How many axes an index consumes: none for None and Ellipsis, as many as it has for a mask.
std::int64_t axes_of(const py::tuple& index) {
  std::int64_t axes = 0;
  for (const py::handle& item : index) {
    if (item.is_none() || py::isinstance<py::ellipsis>(item)) continue;
    axes += is_mask(item) ? pick_from(item).dim() : 1;
  }
  return axes;
}

// Integers are applied first, arrays to what is left, as PyTorch does.
Selection select_by(const Tensor& tensor, const py::handle& index) {
  const py::tuple items = py::isinstance<py::tuple>(index)
                              ? py::reinterpret_borrow<py::tuple>(index)
                              : py::make_tuple(index);
  const std::int64_t used = axes_of(items);
  if (used > tensor.dim()) {
    throw py::index_error(str_cat(used, " indices for a tensor with ", tensor.dim(), " axes"));
  }
  Selection selection{tensor, {}, {}, false};
  Tensor& result = selection.view;
  std::int64_t axis = 0;    // of the result
  std::int64_t source = 0;  // of `tensor`, for messages
  bool ellipsis_seen = false;
  const auto pick = [&](const Tensor& chosen) {
    selection.picks.resize(static_cast<std::size_t>(axis) - skipped_by_masks(selection.picks));
    selection.picks.push_back(chosen);
    selection.picking = true;
    const std::int64_t consumed = chosen.dtype() == DType::kBool ? chosen.dim() : 1;
    axis += consumed;
    source += consumed;
  };
  for (const py::handle& item : items) {
    if (item.is_none()) {
      result = result.unsqueeze(axis++);
    } else if (py::isinstance<py::ellipsis>(item)) {
      if (ellipsis_seen) throw py::index_error("an index may have one Ellipsis only");
      ellipsis_seen = true;
      axis += tensor.dim() - used;
      source += tensor.dim() - used;
    } else if (py::isinstance<py::slice>(item)) {
      apply_slice(selection, axis++, py::reinterpret_borrow<py::slice>(item));
      ++source;
    } else if (is_array(item)) {
      const Tensor chosen = pick_from(item);
      if (is_single(chosen)) {  // picks from an axis of its own, of extent 1
        result = result.unsqueeze(axis);
        --source;
      }
      pick(is_single(chosen) ? chosen.reshape({1}) : chosen);
    } else if (PyIndex_Check(item.ptr()) != 0 && !PyBool_Check(item.ptr())) {
      const Py_ssize_t position = PyNumber_AsSsize_t(item.ptr(), PyExc_IndexError);
      if (position == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      result = result.select(axis, checked_index(position, result.size(axis), source++));
    } else {
      throw py::type_error(
          str_cat("a tensor is indexed by integers, slices, None, Ellipsis and "
                  "arrays of integers or bools, not ",
                  Py_TYPE(item.ptr())->tp_name));
    }
  }
  return selection;
}

// What is written, a number of Python or NumPy in the tensor's dtype.
Tensor assigned(const py::handle& value, DType dtype) {
  if (PyFloat_Check(value.ptr()) != 0 || PyLong_Check(value.ptr()) != 0) {
    return value.cast<Scalar>().tensor(dtype);
  }
  if (py::isinstance<Tensor>(value) || py::isinstance<py::array>(value)) return tensor_from(value);
  const py::module_ numpy = py::module_::import("numpy");
  const bool number = py::isinstance(value, numpy.attr("generic"));
  return tensor_from(number ? numpy.attr("asarray")(value) : value);
}

// NumPy's indexing: of integers, slices, None, Ellipsis and tuples of them the result is a view.
// Throws IndexError out of range, TypeError on other kinds of index.
Tensor index_tensor(const Tensor& tensor, const IndexLike& index) {
  const Selection selection = select_by(tensor, index);
  const Tensor view =
      selection.reversed.empty() ? selection.view : flip(selection.view, selection.reversed);
  return selection.picking ? hvd::index(view, selection.picks) : view;
}

// tensor[index] = value: a number, or a Tensor or array that broadcasts.
void assign_index(Tensor& tensor, const IndexLike& index,
                  const Typed<"ArrayLike | int | float | bool">& value) {
  const Tensor source = assigned(value, tensor.dtype());
  if (grad_enabled() && (tensor.requires_grad() || source.requires_grad())) {
    throw InvalidArgumentError(
        tensor.is_leaf() && tensor.requires_grad()
            ? "a leaf that requires grad is changed in place; do so within no_grad()"
            : "assigning to a part is not recorded, and a tensor here requires grad; use where(), "
              "scatter() or index_add(), or no_grad()");
  }
  refuse_expanded(tensor, "assigning to a part");
  const NoGradGuard guard;
  Selection selection = select_by(tensor.detach(), index);
  if (!selection.reversed.empty()) {
    throw InvalidArgumentError("a slice with a negative step is read only; reverse the value");
  }
  if (selection.picking) {
    index_put_(selection.view, selection.picks, source.to(tensor.dtype()));
  } else {
    selection.view.copy_(source);
  }
}

}  // namespace

void bind_tensor_operators(py::module_& m) {
  auto cls = py::reinterpret_borrow<TensorClass>(m.attr("Tensor"));
  cls.def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::intptr_t>(t.id()); });
  bind_arithmetic(cls);
  def_compare(cls, "__eq__", &eq, &eq);
  def_compare(cls, "__ne__", &ne, &ne);
  def_compare(cls, "__lt__", &lt, &lt);
  def_compare(cls, "__le__", &le, &le);
  def_compare(cls, "__gt__", &gt, &gt);
  def_compare(cls, "__ge__", &ge, &ge);
  def_logic(cls, "__and__", &logical_and);
  def_logic(cls, "__or__", &logical_or);
  def_logic(cls, "__xor__", &logical_xor);
  cls.def("__invert__", [](const Tensor& t) {
    require_bool(t, "__invert__");
    return logical_not(t);
  });
  cls.def("__abs__", &hvd::abs, ReleaseGil());
  cls.def("__repr__", &repr);
  cls.def("__getitem__", &index_tensor, py::arg("index"));
  cls.def("__setitem__", &assign_index, py::arg("index"), py::arg("value"));
}

}  // namespace hvd::python
