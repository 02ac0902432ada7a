// Memory of other libraries' tensors, as horovod_cpp.torch hands it over: addresses in, bytes out.

#include <utility>

#include "bindings/native/dist.h"
#include "horovod_cpp/dist/gradient_views.h"

namespace hvd::python {
namespace {

Tensor wrap_memory(std::uintptr_t address, Shape shape, const std::string& dtype,
                   py::object owner) {
  return Tensor::wrap(reinterpret_cast<void*>(address), std::move(shape), parse_dtype(dtype),
                      keep_alive(std::move(owner)));
}

// NumPy's bytes know no bfloat16, but hold it.
py::array memory_of(const Tensor& tensor) {
  const auto bytes =
      static_cast<py::ssize_t>(tensor.numel()) * static_cast<py::ssize_t>(size_of(tensor.dtype()));
  return py::array(py::dtype::of<std::uint8_t>(), {bytes}, {py::ssize_t{1}}, tensor.data(),
                   py::cast(tensor));
}

std::vector<Tensor> take(GradientViews& views) {
  wait_with_signals([&](Duration limit) { return views.wait_for(limit); });
  return without_gil([&] { return views.take(); });
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("_wrap_memory", &wrap_memory, py::arg("address"), py::arg("shape"), py::arg("dtype"),
        py::arg("owner"),
        "A Tensor over dense row-major memory that ``owner`` keeps alive; nothing is copied.");
  m.def("_memory_of", &memory_of, py::arg("tensor"),
        "The memory of a contiguous Tensor as an array of bytes that keeps it alive.");
  py::class_<GradientViews>(
      m, "_GradientViews", "Asks for gradients' places in memory that the ranks share; collective.")
      .def(py::init(
               [](std::vector<Tensor> like, const PythonProcessSet& set, const std::string& name) {
                 return without_gil(
                     [&] { return GradientViews(std::move(like), set.registered(), name); });
               }),
           py::arg("like"), py::arg("process_set"), py::arg("name"))
      .def("take", &take,
           "Once: uninitialised tensors, one for each of ``like``; none without shared memory.");
}

}  // namespace hvd::python
