#include <pybind11/pybind11.h>

#include <array>
#include <mutex>
#include <vector>

#include "bindings/native/bindings.h"
#include "core/base/status.h"

// Exceptions and other objects of Python that C++ holds.
namespace hvd::python {
namespace {

// References that threads without the GIL gave up: the coordinator must never run Python code, and
// dropping the last reference may run any.
class Graveyard {
 public:
  void bury(PyObject* object) {
    const std::lock_guard lock(mutex_);
    objects_.push_back(object);
    if (!scheduled_) scheduled_ = Py_AddPendingCall(&Graveyard::empty_pending, this) == 0;
  }

  // Needs the GIL.
  void empty() {
    std::vector<PyObject*> dead;
    {
      const std::lock_guard lock(mutex_);
      dead.swap(objects_);
      scheduled_ = false;
    }
    for (PyObject* object : dead) Py_DECREF(object);
  }

 private:
  static int empty_pending(void* self) {
    static_cast<Graveyard*>(self)->empty();
    return 0;
  }

  std::mutex mutex_;
  std::vector<PyObject*> objects_;
  bool scheduled_ = false;  // the main thread will come by
};

// Never destroyed: leases may outlive everything else at exit.
Graveyard& graveyard() {
  static auto* instance = new Graveyard;
  return *instance;
}

void release(PyObject* object) {
  if (Py_IsInitialized() == 0) return;  // the interpreter took its memory along
  if (PyGILState_Check() != 0) {
    Py_DECREF(object);
  } else {
    graveyard().bury(object);
  }
}

// Python's classes by status code. They live as long as the process: the translator may run at any
// time, also while the interpreter goes down.
std::array<PyObject*, static_cast<std::size_t>(StatusCode::kInternal) + 1> exception_classes{};

template <typename... Bases>
PyObject* make_class(py::module_& m, const char* name, const char* doc, Bases*... bases) {
  const std::string full_name = std::string("horovod_cpp.") + name;
  const py::tuple parents = py::make_tuple(py::handle(bases)...);
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, parents.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  m.attr(name) = py::reinterpret_borrow<py::object>(type);
  return type;
}

void translate(std::exception_ptr pointer) {
  if (pointer == nullptr) return;
  try {
    std::rethrow_exception(pointer);
  } catch (const PythonError& error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.exception())), error.exception());
  } catch (const Error& error) {
    py::set_error(exception_classes[static_cast<std::size_t>(error.code())], error.what());
  } catch (const py::cast_error& error) {  // deep inside an argument; pybind11 has RuntimeError
    py::set_error(PyExc_TypeError, error.what());
  }
}

}  // namespace

std::shared_ptr<const void> keep_alive(py::object object) {
  graveyard().empty();  // if the main thread's queue of pending calls was full
  PyObject* pointer = object.release().ptr();
  return {static_cast<const void*>(pointer), [pointer](const void*) { release(pointer); }};
}

PythonError::PythonError(py::error_already_set& error)
    : std::runtime_error(error.what()),
      exception_(error.value().ptr()),
      owner_(keep_alive(error.value())) {}

void run_signal_handlers() {
  in_python([] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

void bind_errors(py::module_& m) {
  const auto set = [](StatusCode code, PyObject* type) {
    exception_classes[static_cast<std::size_t>(code)] = type;
  };
  PyObject* error =
      make_class(m, "Error", "Base of all exceptions of horovod_cpp.", PyExc_Exception);
  PyObject* internal = make_class(
      m, "HorovodInternalError",
      "The job cannot go on: a rank is gone, silent or has left. Never a user's mistake.", error,
      PyExc_RuntimeError);
  exception_classes.fill(error);
  set(StatusCode::kInvalidArgument,
      make_class(m, "InvalidArgumentError",
                 "A mistake on this rank; the message has the offending values.", error,
                 PyExc_ValueError));
  set(StatusCode::kMismatch,
      make_class(m, "MismatchError",
                 "Ranks disagree about one tensor. Raised on every rank, naming the tensor, two "
                 "ranks and both values; the job stays usable.",
                 error, PyExc_RuntimeError));
  set(StatusCode::kStalled,
      make_class(m, "StalledError", "A rank was silent past the stall limit.", internal));
  set(StatusCode::kTransport,
      make_class(m, "PeerLostError", "A rank died or cannot be reached; the message names it.",
                 internal));
  set(StatusCode::kAborted,
      make_class(m, "AbortedError", "A rank left, or this one shut down, while work was pending.",
                 internal));
  set(StatusCode::kUnsupported,
      make_class(m, "UnsupportedError",
                 "Not available in this build, on this machine, or for this call.", error,
                 PyExc_NotImplementedError));
  set(StatusCode::kInternal,
      make_class(m, "InternalError", "A bug of horovod_cpp; please report it.", error));
  py::register_exception_translator(&translate);
}

}  // namespace hvd::python
