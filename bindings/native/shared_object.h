#pragma once

#include <memory>
#include <utility>

#include "bindings/native/bindings.h"

namespace hvd::python {

// A Python object that C++ may copy and drop on any thread.
class SharedObject {
 public:
  explicit SharedObject(py::object object) : pointer_(object.ptr()), owner_(keep_alive(object)) {}
  // Needs the GIL.
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

}  // namespace hvd::python
