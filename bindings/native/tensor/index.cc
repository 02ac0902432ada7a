
#include <string>
#include <vector>

#include "bindings/native/tensor/tensor.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::python {
namespace {

std::int64_t checked_index(std::int64_t index, std::int64_t extent, std::int64_t axis) {
  if (index < -extent || index >= extent) {
    throw py::index_error("index " + std::to_string(index) + " is out of range for axis " +
                          std::to_string(axis) + " of extent " + std::to_string(extent));
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
    throw py::type_error("a tensor is indexed by arrays of integers or bools, not of " +
                         std::string(name_of(given.dtype())));
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
    throw py::index_error(std::to_string(used) + " indices for a tensor with " +
                          std::to_string(tensor.dim()) + " axes");
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
          std::string("a tensor is indexed by integers, slices, None, Ellipsis and "
                      "arrays of integers or bools, not ") +
          Py_TYPE(item.ptr())->tp_name);
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

}  // namespace

Tensor index_tensor(const Tensor& tensor, const IndexLike& index) {
  const Selection selection = select_by(tensor, index);
  const Tensor view =
      selection.reversed.empty() ? selection.view : flip(selection.view, selection.reversed);
  return selection.picking ? hvd::index(view, selection.picks) : view;
}

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

}  // namespace hvd::python
