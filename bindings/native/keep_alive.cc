#include <mutex>
#include <utility>
#include <vector>

#include "bindings/native/bindings.h"

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

}  // namespace

std::shared_ptr<const void> keep_alive(py::object object) {
  graveyard().empty();  // if the main thread's queue of pending calls was full
  PyObject* pointer = object.release().ptr();
  return {static_cast<const void*>(pointer), [pointer](const void*) { release(pointer); }};
}

}  // namespace hvd::python
