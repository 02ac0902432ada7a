#include "horovod_cpp/tensor/random.h"

#include <pybind11/stl.h>

#include <optional>
#include <utility>

#include "bindings/native/bindings.h"
#include "bindings/native/words.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd::python {

Shape shape_from(const py::handle& object) {
  try {
    if (PyIndex_Check(object.ptr()) != 0) return {object.cast<std::int64_t>()};
    return object.cast<Shape>();
  } catch (const py::cast_error&) {
    throw py::type_error("expected a shape (whole numbers of 64 bits), got " +
                         py::repr(object).cast<std::string>());
  }
}

DType dtype_or(const py::object& dtype, DType standard) {
  return dtype.is_none() ? standard : dtype_from(dtype);
}

namespace {

Generator& generator_or(Generator* generator) {
  return generator == nullptr ? default_generator() : *generator;
}

void bind_generator(py::module_& m) {
  py::class_<Generator>(m, "Generator",
                        R"(A stream of random numbers that its seed determines, on every platform.

Philox 4x32-10 (Salmon et al., SC 2011). Not for several threads at once.)")
      .def(py::init<std::uint64_t>(), py::arg("seed") = 0)
      .def("manual_seed", &Generator::manual_seed, py::arg("seed"), "Start again from ``seed``.")
      .def(
          "get_state",
          [](const Generator& g) { return py::make_tuple(g.state().seed, g.state().position); },
          "(seed, position): what ``set_state`` takes to go on from here.")
      .def(
          "set_state",
          [](Generator& g, const std::pair<std::uint64_t, std::uint64_t>& state) {
            g.set_state({state.first, state.second});
          },
          py::arg("state"), "Go on from where ``get_state`` was called.");
  m.def("manual_seed", &manual_seed, py::arg("seed"),
        "Seed this thread's random numbers, which initialisers, rand, randn and dropout use.");
}

void bind_random_tensors(py::module_& m) {
  const auto generator = py::arg("generator") = py::none();
  const auto def_random = [&](const char* name, auto make, const char* doc) {
    def_sized<std::optional<Generator*>>(
        m, name,
        [make](Shape shape, DType dtype, std::optional<Generator*> from) {
          return make(std::move(shape), dtype, generator_or(from.value_or(nullptr)));
        },
        doc, generator);
  };
  def_random("rand", &hvd::rand,
             "Uniform random numbers in [0, 1) (float32); the shape as a tuple or as numbers.");
  def_random("randn", &hvd::randn,
             "Normal random numbers with mean 0 and deviation 1 (float32); the shape as a tuple or "
             "as numbers.");
  m.def(
      "randint",
      [](std::int64_t low, std::int64_t high, const py::handle& shape, Generator* from) {
        return randint(low, high, shape_from(shape), generator_or(from));
      },
      py::arg("low"), py::arg("high"), py::arg("shape"), generator, "Random int64 in [low, high).");
  m.def(
      "randperm",
      [](std::int64_t count, Generator* from) { return randperm(count, generator_or(from)); },
      py::arg("count"), generator, "0 .. count-1 in random order, int64.");
  m.def(
      "bernoulli",
      [](const py::handle& shape, double p, const py::object& dtype, Generator* from) {
        return bernoulli(shape_from(shape), p, dtype_or(dtype, DType::kF32), generator_or(from));
      },
      py::arg("shape"), py::arg("p"), py::arg("dtype") = py::none(), generator,
      "1 with probability ``p``, else 0 (float32).");
}

void bind_counted(py::module_& m) {
  m.def(
      "arange",
      [](std::int64_t count, const py::object& dtype) {
        return Tensor::arange(count, dtype_or(dtype, DType::kI64));
      },
      py::arg("count"), py::arg("dtype") = py::none(),
      "0, 1, ..., count-1 (int64); or begin, begin + step, ... before end.");
  m.def(
      "arange",
      [](double begin, double end, double step, const py::object& dtype) {
        const bool whole = begin == static_cast<double>(static_cast<std::int64_t>(begin)) &&
                           step == static_cast<double>(static_cast<std::int64_t>(step));
        return arange(begin, end, step, dtype_or(dtype, whole ? DType::kI64 : DType::kF32));
      },
      py::arg("begin"), py::arg("end"), py::arg("step") = 1.0, py::arg("dtype") = py::none());
  m.def(
      "linspace",
      [](double begin, double end, std::int64_t count, const py::object& dtype) {
        return linspace(begin, end, count, dtype_or(dtype, DType::kF32));
      },
      py::arg("begin"), py::arg("end"), py::arg("count"), py::arg("dtype") = py::none(),
      "``count`` numbers from begin to end, both included (float32).");
  m.def(
      "eye",
      [](std::int64_t rows, std::int64_t columns, const py::object& dtype) {
        return eye(rows, columns, dtype_or(dtype, DType::kF32));
      },
      py::arg("rows"), py::arg("columns") = -1, py::arg("dtype") = py::none(),
      "[rows, columns] with ones on the diagonal (float32); -1 = rows.");
  m.def("zeros_like", &zeros_like, py::arg("other"), "Zeros of another's shape and dtype.");
  m.def("ones_like", &ones_like, py::arg("other"), "Ones of another's shape and dtype.");
  m.def("full_like", &full_like, py::arg("other"), py::arg("value"),
        "``value`` in another's shape and dtype.");
}

}  // namespace

void bind_random(py::module_& m) {
  bind_generator(m);
  bind_random_tensors(m);
  bind_counted(m);
}

}  // namespace hvd::python
