#include "bindings/native/tensor_index.h"

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_mode.h"

namespace hvd::python {
namespace {

std::int64_t checked_index(std::int64_t index, std::int64_t extent, std::int64_t axis) {
  if (index < -extent || index >= extent) {
    throw py::index_error("index " + std::to_string(index) + " is out of range for axis " +
                          std::to_string(axis) + " of extent " + std::to_string(extent));
  }
  return index < 0 ? index + extent : index;
}

Tensor apply_slice(const Tensor& tensor, std::int64_t axis, const py::slice& slice) {
  py::ssize_t begin = 0;
  py::ssize_t end = 0;
  py::ssize_t step = 0;
  py::ssize_t count = 0;
  if (!slice.compute(tensor.size(axis), &begin, &end, &step, &count)) {
    throw py::error_already_set();
  }
  if (step != 1) {
    throw InvalidArgumentError("a tensor is sliced in steps of 1, not " + std::to_string(step));
  }
  return tensor.slice(axis, begin, begin + count);
}

// How many axes an index consumes: all but None and Ellipsis.
std::int64_t axes_of(const py::tuple& index) {
  std::int64_t axes = 0;
  for (const py::handle& item : index) {
    if (!item.is_none() && !py::isinstance<py::ellipsis>(item)) ++axes;
  }
  return axes;
}

}  // namespace

Tensor index_tensor(const Tensor& tensor, const py::handle& index) {
  const py::tuple items = py::isinstance<py::tuple>(index)
                              ? py::reinterpret_borrow<py::tuple>(index)
                              : py::make_tuple(index);
  const std::int64_t used = axes_of(items);
  if (used > tensor.dim()) {
    throw py::index_error(std::to_string(used) + " indices for a tensor with " +
                          std::to_string(tensor.dim()) + " axes");
  }
  Tensor result = tensor;
  std::int64_t axis = 0;    // of the result
  std::int64_t source = 0;  // of `tensor`, for messages
  bool ellipsis_seen = false;
  for (const py::handle& item : items) {
    if (item.is_none()) {
      result = result.unsqueeze(axis++);
    } else if (py::isinstance<py::ellipsis>(item)) {
      if (ellipsis_seen) throw py::index_error("an index may have one Ellipsis only");
      ellipsis_seen = true;
      axis += tensor.dim() - used;
      source += tensor.dim() - used;
    } else if (py::isinstance<py::slice>(item)) {
      result = apply_slice(result, axis++, py::reinterpret_borrow<py::slice>(item));
      ++source;
    } else if (PyIndex_Check(item.ptr()) != 0 && !PyBool_Check(item.ptr())) {
      const auto position = item.attr("__index__")().cast<std::int64_t>();
      result = result.select(axis, checked_index(position, result.size(axis), source++));
    } else {
      throw py::type_error(
          std::string("a tensor is indexed by integers, slices, None and Ellipsis, not ") +
          Py_TYPE(item.ptr())->tp_name);
    }
  }
  return result;
}

void assign_index(Tensor& tensor, const py::handle& index, const py::handle& value) {
  if (tensor.is_leaf() && tensor.requires_grad() && grad_enabled()) {
    throw InvalidArgumentError(
        "a leaf that requires grad is changed in place; do so within no_grad()");
  }
  const NoGradGuard guard;
  Tensor target = index_tensor(tensor.detach(), index);
  if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) {
    target.fill_(value.cast<double>());
  } else {
    target.copy_(tensor_from(value));
  }
}

}  // namespace hvd::python
