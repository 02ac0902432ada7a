#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "bindings/native/types.h"
#include "core/system/interruptible_waits.h"
#include "horovod_cpp/tensor/tensor.h"

// One bind_* function for each folder of horovod_cpp, in the file of that name.
namespace hvd::python {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_tensor(py::module_& m);
void bind_tensor_creation(py::module_& m);
void bind_tensor_operators(py::module_& m);
void bind_dlpack(py::module_& m);
void bind_random(py::module_& m);
void bind_autograd(py::module_& m);
void bind_functions(py::module_& m);
void bind_nn(py::module_& m);
void bind_optim(py::module_& m);
void bind_data(py::module_& m);
void bind_io(py::module_& m);
void bind_dist(py::module_& m);

// Runs Python's signal handlers, if this is the main thread; throws what one of them raised, such
// as KeyboardInterrupt.
void run_signal_handlers();

// What a call that computes or waits runs under: other Python threads run meanwhile, and waits for
// other ranks end with Ctrl-C. Everything Python is converted before and after.
class WithoutGil {
  py::gil_scoped_release nogil_;
  engine::InterruptibleWaits waits_{&run_signal_handlers};
};
using ReleaseGil = py::call_guard<WithoutGil>;
template <typename Work>
decltype(auto) without_gil(Work&& work) {
  const WithoutGil nogil;
  return work();
}

// Keeps a Python object alive from C++. Any thread may drop the last copy: with the GIL at hand the
// object goes at once, else as soon as the main thread runs Python again.
std::shared_ptr<const void> keep_alive(py::object object);

// "float32", numpy.float32, numpy.dtype("float32"). Throws InvalidArgumentError listing the known
// names, TypeError on anything that names no dtype.
DType dtype_from(const py::handle& object);

// One extent or a sequence of them.
Shape shape_from(const py::handle& object);

DType dtype_or(const py::object& dtype, DType standard);

// An exception of Python on its way through C++, which may throw it several times and on any
// thread. Python gets the exception itself again.
class PythonError : public std::runtime_error {
 public:
  // Needs the GIL.
  explicit PythonError(py::error_already_set& error);
  PyObject* exception() const { return exception_; }

 private:
  PyObject* exception_;
  std::shared_ptr<const void> owner_;
};

// A Python object that C++ may copy and drop on any thread.
class SharedObject {
 public:
  // Both need the GIL.
  explicit SharedObject(const py::handle& object)
      : pointer_(object.ptr()), owner_(keep_alive(py::reinterpret_borrow<py::object>(object))) {}
  py::object get() const { return py::reinterpret_borrow<py::object>(pointer_); }

 private:
  PyObject* pointer_;
  std::shared_ptr<const void> owner_;
};

// Calls work() with the GIL, and turns Python's exceptions into ones that any thread may hold.
template <typename Work>
auto in_python(Work&& work) {
  const py::gil_scoped_acquire gil;
  try {
    return work();
  } catch (py::error_already_set& error) {
    throw PythonError(error);
  }
}

// Wraps the array's memory; no copy. Throws InvalidArgumentError on strides that a tensor cannot
// have, TypeError on a NumPy dtype that has no counterpart. wrap_array is for memory that is only
// read; tensor_from_numpy also throws on a read-only array.
Tensor wrap_array(const py::array& array);
Tensor tensor_from_numpy(const py::array& array);
// Throws InvalidArgumentError: a masked array would lose its mask.
void refuse_mask(const py::handle& array);
// The tensor's memory as an array; no copy. Throws TypeError on bfloat16, unless `dtype` says which
// package's to use.
py::array tensor_to_numpy(const Tensor& tensor);
py::array tensor_to_numpy(const Tensor& tensor, const py::object& dtype);
// A Tensor as it is, an array (NumPy's, or another library's with DLPack) wrapped; TypeError on
// everything else.
Tensor tensor_from(const py::handle& object);
// The same for memory that is written: InvalidArgumentError on an array that is read-only or whose
// elements overlap.
Tensor writable_tensor_from(const py::handle& object);
// A new tensor with the values of a tensor, an array, a number or nested lists. Python's floats
// become float32, its ints int64.
Tensor copy_to_tensor(const py::handle& object);

// An ordered dict of name -> Tensor, and back. The latter also takes a list of pairs; `convert` is
// tensor_from or writable_tensor_from.
TensorDict to_dict(const NamedTensors& tensors);
NamedTensors named_tensors_from(const py::handle& object,
                                Tensor (*convert)(const py::handle&) = &tensor_from);

}  // namespace hvd::python
