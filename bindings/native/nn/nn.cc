#include "bindings/native/nn/nn.h"

#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/convolution.h"

namespace hvd::python {

IntPair int_pair_from(const py::object& object) {
  if (object.is_none()) return 0;
  if (const py::object both = number_from(object, true, true)) return both.cast<std::int64_t>();
  if (py::isinstance<py::sequence>(object) && py::len(object) == 2) {
    return {object[py::int_(0)].cast<Integer>(), object[py::int_(1)].cast<Integer>()};
  }
  throw py::type_error(std::string("expected an int or a pair of ints, got ") +
                       Py_TYPE(object.ptr())->tp_name);
}

IntPair output_size_from(const py::object& object) {
  const auto extent = [](const py::object& given) {
    return given.is_none() ? kInputExtent : given.cast<Integer>().value;
  };
  const bool pair = py::isinstance<py::sequence>(object) && py::len(object) == 2;
  if (!pair) return object.is_none() ? IntPair(kInputExtent) : int_pair_from(object);
  return {extent(object[py::int_(0)]), extent(object[py::int_(1)])};
}

LossReduction reduction_from(const std::string& name) {
  if (name == "none") return LossReduction::kNone;
  if (name == "mean") return LossReduction::kMean;
  if (name == "sum") return LossReduction::kSum;
  if (name == "batchmean") return LossReduction::kBatchMean;
  throw InvalidArgumentError("reduction '" + name + "': expected none, mean, sum or batchmean");
}

void bind_nn(py::module_& m) {
  bind_nn_module(m);
  bind_nn_layers(m);
  bind_convolution(m);
  bind_nn_containers(m);
  bind_nn_sequences(m);
  bind_nn_losses(m);
  bind_nn_functional(m);
  bind_nn_init(m);
  bind_models(m);
  bind_nn_origins(m);
}

}  // namespace hvd::python
