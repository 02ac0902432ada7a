#include "horovod_cpp/tensor/random.h"

#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <variant>

#include "bindings/native/bindings.h"
#include "bindings/native/numbers.h"
#include "bindings/native/scalar.h"
#include "bindings/native/tensor/docs.h"
#include "bindings/native/words.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd::python {

Shape shape_from(const py::handle& object) {
  try {
    if (PyIndex_Check(object.ptr()) != 0) return {object.cast<Integer>()};
    return list_of(object.cast<Integers>());
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

using Seed = Given<std::uint64_t>;

void bind_generator(py::module_& m) {
  py::class_<Generator>(m, "Generator",
                        R"(A stream of random numbers that its seed determines, on every platform.

Philox 4x32-10 (Salmon et al., SC 2011). Not for several threads at once.)")
      .def(py::init<Seed>(), py::arg("seed") = 0)
      .def("manual_seed", given(&Generator::manual_seed), py::arg("seed"),
           "Start again from ``seed``.")
      .def(
          "get_state",
          [](const Generator& g) -> py::typing::Tuple<int, int> {
            return py::make_tuple(g.state().seed, g.state().position);
          },
          "(seed, position): what ``set_state`` takes to go on from here.")
      .def(
          "set_state",
          [](Generator& g, const std::pair<std::uint64_t, std::uint64_t>& state) {
            g.set_state({state.first, state.second});
          },
          py::arg("state"), R"(Go on from ``state``, where get_state() was called.)");
  m.def(
      "manual_seed", given(&manual_seed), py::arg("seed"),
      R"(Start this thread's random numbers, which initialisers, rand, randn and dropout use, from ``seed``.)");
}

// Made on the CPU, so that the numbers are the same wherever they lie.
Tensor placed(const Tensor& tensor, const MaybeDevice& device) {
  const Device place = device_or_cpu(device);
  const WithoutGil nogil;
  return tensor.to(place);
}

void bind_random_tensors(py::module_& m) {
  const auto generator = py::arg("generator") = py::none();
  const auto def_random = [&](const char* name, auto make, const char* doc) {
    def_sized<std::optional<Generator*>>(
        m, name,
        [make](Shape shape, DType dtype, const Device& device, std::optional<Generator*> from) {
          return make(std::move(shape), dtype, generator_or(from.value_or(nullptr))).to(device);
        },
        doc, generator);
  };
  def_random("rand", &hvd::rand,
             tensor_doc("Uniform random numbers in [0, 1).",
                        {"shape: a tuple (also called size), or several numbers.",
                         "dtype: a floating one; None: float32.", kGenerator,
                         "requires_grad: whether backward() leaves a gradient there.", kDevice},
                        kNew, "InvalidArgumentError: another dtype, or a negative extent.")
                 .c_str());
  def_random("randn", &hvd::randn,
             R"(Normal random numbers with mean 0 and deviation 1.

Args:
    shape: a tuple (also called size), or several numbers.
    dtype: a floating one; None: float32.
    generator: None: this thread's.
    requires_grad: whether backward() leaves a gradient there.
    device: "cuda:0", ...; None: "cpu". The numbers are the CPU's, wherever they lie.

Returns:
    A new Tensor.

Raises:
    InvalidArgumentError: another dtype, or a negative extent.)");
}

void bind_random_choices(py::module_& m) {
  const auto generator = py::arg("generator") = py::none();
  const auto on_device = py::arg("device") = py::none();
  const auto whole_numbers = [](Integer low, Integer high, const ShapeLike& shape, Generator* from,
                                const MaybeDevice& device) {
    return placed(randint(low, high, shape_from(shape), generator_or(from)), device);
  };
  def_also(m, "randint", {{"shape", "size"}}, whole_numbers, py::arg("low"), py::arg("high"),
           py::arg("shape"), generator, py::kw_only(), on_device,
           tensor_doc("Random whole numbers.",
                      {"low: the smallest; 0 if left out.", "high: above all of them.",
                       "shape: of the result (also called size).", kGenerator, kDevice},
                      "A new int64 Tensor.", "InvalidArgumentError: ``high`` is not above ``low``.")
               .c_str());
  def_also(
      m, "randint", {{"shape", "size"}},
      [whole_numbers](Integer high, const ShapeLike& shape, Generator* from,
                      const MaybeDevice& device) {
        return whole_numbers({0}, high, shape, from, device);
      },
      py::arg("high"), py::arg("shape"), generator, py::kw_only(), on_device);
  def_also(
      m, "randperm", {{"count", "n"}},
      [](Integer count, Generator* from, const MaybeDevice& device) {
        return placed(randperm(count, generator_or(from)), device);
      },
      py::arg("count"), generator, py::kw_only(), on_device,
      tensor_doc("0 .. count-1 in random order.",
                 {"count: how many (also called n).", kGenerator, kDevice}, "A new int64 vector.",
                 "InvalidArgumentError: ``count`` is negative.")
          .c_str());
  m.def(
      "bernoulli",
      [](const ShapeLike& shape, Number p, const MaybeDType& dtype, Generator* from,
         const MaybeDevice& device) {
        return placed(
            bernoulli(shape_from(shape), p, dtype_or(dtype, DType::kF32), generator_or(from)),
            device);
      },
      py::arg("shape"), py::arg("p"), py::arg("dtype") = py::none(), generator, py::kw_only(),
      on_device,
      tensor_doc("1 or 0 at random.",
                 {"shape: of the result.", "p: the probability of 1, within [0, 1].", kDtype,
                  kGenerator, kDevice},
                 kNew, "InvalidArgumentError: another ``p``.")
          .c_str());
}

// A number that remembers whether it is an int.
using Whole = std::variant<Integer, Number>;

bool is_whole(const Whole& number) {
  return std::holds_alternative<Integer>(number);
}

double number_of(const Whole& number) {
  return std::visit([](const auto& given) { return static_cast<double>(given.value); }, number);
}

// From where doubles are exact, if all are integers and not farther apart than those.
Tensor range_of(const Whole& start, const Whole& end, const Whole& step, DType dtype) {
  const auto* first = std::get_if<Integer>(&start);
  const auto* last = std::get_if<Integer>(&end);
  std::int64_t distance = 0;
  if (dtype != DType::kI64 || first == nullptr || last == nullptr ||
      __builtin_sub_overflow(last->value, first->value, &distance)) {
    return arange(number_of(start), number_of(end), number_of(step), dtype);
  }
  const Tensor result = arange(0.0, static_cast<double>(distance), number_of(step), dtype);
  auto* numbers = static_cast<std::int64_t*>(result.data());
  for (std::int64_t i = 0; i < result.numel(); ++i) numbers[i] += first->value;
  return result;
}

void bind_counted(py::module_& m) {
  const auto on_device = py::arg("device") = py::none();
  const auto range = [](const Whole& start, const Whole& end, const Whole& step,
                        const MaybeDType& dtype, const MaybeDevice& device) {
    const bool whole = is_whole(start) && is_whole(end) && is_whole(step);
    const DType standard = whole ? DType::kI64 : DType::kF32;
    return placed(range_of(start, end, step, dtype_or(dtype, standard)), device);
  };
  def_also(
      m, "arange", {{"begin", "start"}}, range, py::arg("begin"), py::arg("end"),
      py::arg("step") = 1, py::arg("dtype") = py::none(), py::kw_only(), on_device,
      tensor_doc("begin, begin + step, ... before end; or 0, 1, ..., count-1.",
                 {"begin: the first number (also called start).",
                  "end: the numbers stay below (with a negative step: above).",
                  "step: the distance.", "count: instead of all three (also called end).",
                  "dtype: None: float32 if one of the numbers is a float, else int64.", kDevice},
                 "A new vector.", "InvalidArgumentError: ``step`` is 0 or leads away.")
          .c_str());
  def_also(
      m, "arange", {{"count", "end"}},
      [range](const Whole& count, const MaybeDType& dtype, const MaybeDevice& device) {
        return range(Integer{0}, count, Integer{1}, dtype, device);
      },
      py::arg("count"), py::arg("dtype") = py::none(), py::kw_only(), on_device);
  def_also(
      m, "linspace", {{"begin", "start"}, {"count", "steps"}},
      [](Number begin, Number end, Integer count, const MaybeDType& dtype,
         const MaybeDevice& device) {
        return placed(linspace(begin, end, count, dtype_or(dtype, DType::kF32)), device);
      },
      py::arg("begin"), py::arg("end"), py::arg("count"), py::arg("dtype") = py::none(),
      py::kw_only(), on_device,
      tensor_doc("Numbers at equal distances.",
                 {"begin: the first (also called start).", "end: the last.",
                  "count: how many (also called steps).", kDtype, kDevice},
                 "A new vector.", "InvalidArgumentError: ``count`` is negative.")
          .c_str());
  def_also(
      m, "eye", {{"rows", "n"}, {"columns", "m"}},
      [](Integer rows, Integer columns, const MaybeDType& dtype, const MaybeDevice& device) {
        return placed(eye(rows, columns, dtype_or(dtype, DType::kF32)), device);
      },
      py::arg("rows"), py::arg("columns") = -1, py::arg("dtype") = py::none(), py::kw_only(),
      on_device,
      tensor_doc("Ones on the diagonal of a matrix.",
                 {"rows: how many (also called n).",
                  "columns: -1: as many as rows (also called m).", kDtype, kDevice},
                 "[rows, columns].", "InvalidArgumentError: a negative extent.")
          .c_str());
}

void bind_likes(py::module_& m) {
  def_also(m, "zeros_like", {{"other", "input"}}, &zeros_like, py::arg("other"),
           tensor_doc("Zeros.", {"other: a Tensor (also called input)."},
                      "A new Tensor of its shape, dtype and device.", kNoMemory)
               .c_str());
  def_also(m, "ones_like", {{"other", "input"}}, &ones_like, py::arg("other"),
           tensor_doc("Ones.", {"other: a Tensor (also called input)."},
                      "A new Tensor of its shape, dtype and device.", kNoMemory)
               .c_str());
  def_also(
      m, "full_like", {{"other", "input"}, {"value", "fill_value"}},
      [](const Tensor& other, const Scalar& value) {
        return value.exact_in(other.dtype()) ? zeros_like(other).copy_(value.tensor(other.dtype()))
                                             : full_like(other, value);
      },
      py::arg("other"), py::arg("value"),
      tensor_doc(
          "One number everywhere.",
          {"other: a Tensor (also called input).", "value: the number (also called fill_value)."},
          "A new Tensor of its shape, dtype and device.", kNoMemory)
          .c_str());
}

}  // namespace

void bind_random(py::module_& m) {
  bind_generator(m);
  bind_random_tensors(m);
  bind_random_choices(m);
  bind_counted(m);
  bind_likes(m);
}

}  // namespace hvd::python
