// Memory of other libraries' tensors, as horovod_cpp.torch hands it over: addresses in, bytes out.

#include <optional>
#include <utility>

#include "bindings/native/distributed/distributed.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/gradient_views.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd::python {
namespace {

Tensor wrap_memory(std::uintptr_t address, Shape shape, const std::string& dtype, py::object owner,
                   std::optional<int> cuda_device, std::uintptr_t stream) {
  const Device device = cuda_device ? Device{DeviceKind::kCuda, *cuda_device} : Device{};
  return Tensor::wrap_on(device, stream, reinterpret_cast<void*>(address), std::move(shape),
                         parse_dtype(dtype), keep_alive(std::move(owner)));
}

std::optional<int> own_cuda_device() {
  const auto& gpu = world()->options().gpu;
  return gpu ? std::optional(gpu->device) : std::nullopt;
}

// NumPy's bytes know no bfloat16, but hold it.
py::array memory_of(const Tensor& tensor) {
  const auto bytes =
      static_cast<py::ssize_t>(tensor.numel()) * static_cast<py::ssize_t>(size_of(tensor.dtype()));
  return py::array(py::dtype::of<std::uint8_t>(), {bytes}, {py::ssize_t{1}}, tensor.data(),
                   py::cast(tensor));
}

std::vector<std::optional<Tensor>> views_of(GradientViews& places) {
  std::vector<std::optional<Tensor>> views;
  for (Tensor& view : without_gil([&] { return places.take(); })) {
    views.push_back(view.defined() ? std::optional(std::move(view)) : std::nullopt);
  }
  return views;
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("_wrap_memory", &wrap_memory, py::arg("address"), py::arg("shape"), py::arg("dtype"),
        py::arg("owner"), py::arg("cuda_device") = py::none(), py::arg("stream") = 0,
        "A Tensor over dense row-major memory that ``owner`` keeps alive; nothing is copied. "
        "``stream``: the handle of the CUDA stream in whose order a GPU's memory is used.");
  m.def("_own_cuda_device", &own_cuda_device,
        "On which CUDA device this rank communicates; None: the job has no collectives of GPUs.");
  m.def(
      "_expect_served",
      [](int cuda_device, const std::string& what) {
        expect_served(*world(), {DeviceKind::kCuda, cuda_device}, what);
      },
      py::arg("cuda_device"), py::arg("what"),
      "Raises UnsupportedError unless memory of that device can be communicated.");
  m.def("_memory_of", &memory_of, py::arg("tensor"),
        "The memory of a contiguous Tensor as an array of bytes that keeps it alive.");
  py::class_<GradientViews>(
      m, "_GradientViews", "Asks for gradients' places in memory that the ranks share; collective.")
      .def(py::init([](const std::vector<Tensor>& like, const PythonProcessSet& set,
                       const std::string& name) {
             std::vector<GradientParameter> places;
             for (const Tensor& each : like) {
               places.push_back({"", each.shape(), each.dtype(), each.device()});
             }
             return without_gil(
                 [&] { return GradientViews(std::move(places), set.registered(), name); });
           }),
           py::arg("like"), py::arg("process_set"), py::arg("name"))
      .def("take", &views_of,
           "Once: an uninitialised tensor for each of ``like``; None without shared memory of its "
           "device.");
}

}  // namespace hvd::python
