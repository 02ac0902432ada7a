#include "bindings/native/bindings.h"

// The Python package gives the names their places: hvd.nn.Linear, hvd.optim.SGD, ...
PYBIND11_MODULE(_native, m) {
  namespace python = hvd::python;
  m.doc() = "Native part of horovod_cpp; import horovod_cpp instead.";
  m.attr("__version__") = HVD_VERSION;
  python::bind_errors(m);
  python::bind_tensor(m);
  python::bind_tensor_operators(m);
  python::bind_dlpack(m);
  python::bind_random(m);
  python::bind_autograd(m);
  python::bind_functions(m);
  python::bind_nn(m);
  python::bind_optim(m);
  python::bind_data(m);
  python::bind_io(m);
  python::bind_dist(m);
}
