// Tensors of data, of one number everywhere, of random numbers, and of ranges.
#include "horovod_cpp/tensor/creation.h"

#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <variant>

#include "bindings/native/tensor/tensor.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd::python {

Shape shape_from(const py::handle& object) {
  try {
    if (PyIndex_Check(object.ptr()) != 0) return {object.cast<Integer>()};
    return list_of(object.cast<Integers>());
  } catch (const py::cast_error&) {
    throw py::type_error(str_cat("expected a shape (whole numbers of 64 bits), got ",
                                 py::repr(object).cast<std::string>()));
  }
}

DType dtype_or(const py::object& dtype, DType standard) {
  return dtype.is_none() ? standard : dtype_from(dtype);
}

namespace {

constexpr Invalid kNegativeExtent{"a negative extent."};
constexpr Invalid kNegativeCount{"``count`` is negative."};

// `data` in another dtype. Python's numbers are written for it, so that none may wrap around; those
// of tensors and arrays are converted as by Tensor.to().
Tensor converted(const py::handle& data, const Tensor& tensor, DType dtype) {
  const Tensor result = tensor.to(dtype);
  const bool integers = !is_floating(dtype) && !is_complex(dtype) && dtype != DType::kBool;
  if (integers && dtype != tensor.dtype() && !py::hasattr(data, "dtype")) {
    for (const double value : tensor.to_vector()) kernels::require_fits(value, dtype, "tensor");
  }
  return result;
}

void bind_constructors(py::module_& m) {
  define(
      m, "tensor",
      [](const TensorData& data, const MaybeDType& dtype, Flag<"requires_grad"> requires_grad,
         const MaybeDevice& device) {
        Tensor result = copy_to_tensor(data);
        if (!dtype.is_none()) result = converted(data, result, dtype_from(dtype));
        // Without a device that of a Tensor stays.
        if (!device.is_none()) result = result.to(device_or_cpu(device));
        if (requires_grad) result.requires_grad_();
        return result;
      },
      "Make a tensor with a copy of ``data``.",
      Arg("data",
          "a Tensor, a NumPy array, a number, or nested lists of numbers. Python's floats become\n"
          "        float32, its complex numbers complex64, its ints int64, its bools bool."),
      Arg("dtype",
          "element type, as a name (\"bfloat16\") or a NumPy dtype; None keeps that of ``data``.") =
          py::none(),
      Arg("requires_grad", "whether backward() leaves a gradient here.") = false, py::kw_only(),
      Arg("device", "\"cpu\", \"cuda:0\", ...; None: that of a Tensor, else \"cpu\".") = py::none(),
      Returns{"A new Tensor of the shape of ``data``."},
      Invalid{"``dtype`` is unknown, a number of Python's is beyond its range, or ``device``\n"
              "        names none."},
      Raises{"UnsupportedError: the device cannot be used here; says why."},
      Raises{"TypeError: ``data`` holds something other than numbers of a supported dtype."});
  define(m, "from_numpy", &tensor_from_numpy,
         "Wrap a NumPy array as a tensor; nothing is copied, both see each other's writes.",
         py::arg("array"), Invalid{"the array is read-only, or has negative or odd strides."},
         Raises{"TypeError: not an array, or of a dtype without counterpart."});
}

void bind_fillers(py::module_& m) {
  const auto filler = [&m](const char* name, Tensor (*make)(Shape, DType, Device),
                           const char* what) {
    def_sized(m, name, make, what, kDtype = py::none(), kDevice = py::none(), kNegativeExtent);
  };
  filler("empty", &Tensor::empty, "A tensor with unset elements.");
  filler("zeros", &Tensor::zeros, "A tensor with zeros everywhere.");
  filler("ones", &Tensor::ones, "A tensor with ones everywhere.");
  def_also(
      m, "full", {{"shape", "size"}, {"value", "fill_value"}},
      [](const ShapeLike& shape, const Scalar& value, const MaybeDType& dtype,
         const MaybeDevice& device) {
        const DType type = dtype_or(dtype, DType::kF32);
        const Device place = device_or_cpu(device);
        if (!value.exact_in(type)) return Tensor::full(shape_from(shape), value, type, place);
        return Tensor::empty(shape_from(shape), type).copy_(value.tensor(type)).to(place);
      },
      "A tensor with one number everywhere.", Arg("shape", "of the result (also called size)."),
      Arg("value", "the number (also called fill_value)."), kDtype = py::none(), py::kw_only(),
      kDevice = py::none(), kNew, kNegativeExtent);
  m.def("bitwise_equal", &bitwise_equal, py::arg("a"), py::arg("b"), ReleaseGil(),
        R"(Whether the Tensors ``a`` and ``b`` have one dtype and shape and the same bits;
never raises.)");
}

void bind_likes(py::module_& m) {
  constexpr Arg kOther{"other", "a Tensor (also called input)."};
  constexpr Returns kLike{"A new Tensor of its shape, dtype and device."};
  constexpr Invalid kNoMemory{"there is no memory for it."};
  def_also(m, "zeros_like", {{"other", "input"}}, &zeros_like, "Zeros.", kOther, kLike, kNoMemory);
  def_also(m, "ones_like", {{"other", "input"}}, &ones_like, "Ones.", kOther, kLike, kNoMemory);
  def_also(
      m, "full_like", {{"other", "input"}, {"value", "fill_value"}},
      [](const Tensor& other, const Scalar& value) {
        return value.exact_in(other.dtype()) ? zeros_like(other).copy_(value.tensor(other.dtype()))
                                             : full_like(other, value);
      },
      "One number everywhere.", kOther, Arg("value", "the number (also called fill_value)."), kLike,
      kNoMemory);
}

Generator& generator_or(Generator* generator) {
  return generator == nullptr ? default_generator() : *generator;
}

void bind_generator(py::module_& m) {
  py::class_<Generator>(m, "Generator",
                        R"(A stream of random numbers that its seed determines, on every platform.

Philox 4x32-10 (Salmon et al., SC 2011). Not for several threads at once.)")
      .def(py::init<Given<std::uint64_t>>(), py::arg("seed") = 0)
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
      R"(Start this thread's random numbers, which initialisers, rand, randn and dropout use, from ``seed``.

Every thread has its own, and begins with seed 0: threads that are to draw different ones call this.)");
}

// Made on the CPU, so that the numbers are the same wherever they lie.
Tensor placed(const Tensor& tensor, const MaybeDevice& device) {
  const Device place = device_or_cpu(device);
  const WithoutGil nogil;
  return tensor.to(place);
}

void bind_random_tensors(py::module_& m) {
  const auto def_random = [&](const char* name, auto make, const char* what, const Arg& device) {
    def_sized<std::optional<Generator*>>(
        m, name,
        [make](Shape shape, DType dtype, const Device& place, std::optional<Generator*> from) {
          return make(std::move(shape), dtype, generator_or(from.value_or(nullptr))).to(place);
        },
        what, Arg("dtype", "a floating one; None: float32.") = py::none(), device = py::none(),
        Invalid{"another dtype, or a negative extent."}, kGenerator = py::none());
  };
  def_random("rand", &hvd::rand, "Uniform random numbers in [0, 1).", kDevice);
  def_random("randn", &hvd::randn, "Normal random numbers with mean 0 and deviation 1.",
             Arg("device",
                 "\"cuda:0\", ...; None: \"cpu\". The numbers are the CPU's, wherever they lie."));
}

void bind_random_choices(py::module_& m) {
  const auto generator = kGenerator = py::none(), on_device = kDevice = py::none();
  constexpr Arg kHigh{"high", "above all of them."};
  constexpr Arg kShape{"shape", "of the result (also called size)."};
  const auto whole_numbers = [](Integer low, Integer high, const ShapeLike& shape, Generator* from,
                                const MaybeDevice& device) {
    return placed(randint(low, high, shape_from(shape), generator_or(from)), device);
  };
  def_also(m, "randint", {{"shape", "size"}}, whole_numbers, "Random whole numbers.",
           Arg("low", "the smallest; 0 if left out."), kHigh, kShape, generator, py::kw_only(),
           on_device, Returns{"A new int64 Tensor."}, Invalid{"``high`` is not above ``low``."});
  def_also(
      m, "randint", {{"shape", "size"}},
      [whole_numbers](Integer high, const ShapeLike& shape, Generator* from,
                      const MaybeDevice& device) {
        return whole_numbers({0}, high, shape, from, device);
      },
      "", py::arg("high"), py::arg("shape"), py::arg("generator") = py::none(), py::kw_only(),
      py::arg("device") = py::none());
  def_also(
      m, "randperm", {{"count", "n"}},
      [](Integer count, Generator* from, const MaybeDevice& device) {
        return placed(randperm(count, generator_or(from)), device);
      },
      "0 .. count-1 in random order.", Arg("count", "how many (also called n)."), generator,
      py::kw_only(), on_device, Returns{"A new int64 vector."}, kNegativeCount);
  define(
      m, "bernoulli",
      [](const ShapeLike& shape, Number p, const MaybeDType& dtype, Generator* from,
         const MaybeDevice& device) {
        return placed(
            bernoulli(shape_from(shape), p, dtype_or(dtype, DType::kF32), generator_or(from)),
            device);
      },
      "1 or 0 at random.", Arg("shape", "of the result."),
      Arg("p", "the probability of 1, within [0, 1]."), kDtype = py::none(), generator,
      py::kw_only(), on_device, kNew, Invalid{"another ``p``."});
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

void bind_ranges(py::module_& m) {
  const auto range = [](const Whole& start, const Whole& end, const Whole& step,
                        const MaybeDType& dtype, const MaybeDevice& device) {
    const bool whole = is_whole(start) && is_whole(end) && is_whole(step);
    const DType standard = whole ? DType::kI64 : DType::kF32;
    return placed(range_of(start, end, step, dtype_or(dtype, standard)), device);
  };
  def_also(m, "arange", {{"begin", "start"}}, range,
           "begin, begin + step, ... before end; or 0, 1, ..., count-1.",
           Arg("begin", "the first number (also called start)."),
           Arg("end", "the numbers stay below (with a negative step: above)."),
           Arg("step", "the distance.") = 1,
           ArgText{"count: instead of all three (also called end)."},
           Arg("dtype", "None: float32 if one of the numbers is a float, else int64.") = py::none(),
           py::kw_only(), kDevice = py::none(), Returns{"A new vector."},
           Invalid{"``step`` is 0 or leads away."});
  def_also(
      m, "arange", {{"count", "end"}},
      [range](const Whole& count, const MaybeDType& dtype, const MaybeDevice& device) {
        return range(Integer{0}, count, Integer{1}, dtype, device);
      },
      "", py::arg("count"), py::arg("dtype") = py::none(), py::kw_only(),
      py::arg("device") = py::none());
  def_also(
      m, "linspace", {{"begin", "start"}, {"count", "steps"}},
      [](Number begin, Number end, Integer count, const MaybeDType& dtype,
         const MaybeDevice& device) {
        return placed(linspace(begin, end, count, dtype_or(dtype, DType::kF32)), device);
      },
      "Numbers at equal distances.", Arg("begin", "the first (also called start)."),
      Arg("end", "the last."), Arg("count", "how many (also called steps)."), kDtype = py::none(),
      py::kw_only(), kDevice = py::none(), Returns{"A new vector."}, kNegativeCount);
  def_also(
      m, "eye", {{"rows", "n"}, {"columns", "m"}},
      [](Integer rows, Integer columns, const MaybeDType& dtype, const MaybeDevice& device) {
        return placed(eye(rows, columns, dtype_or(dtype, DType::kF32)), device);
      },
      "Ones on the diagonal of a matrix.", Arg("rows", "how many (also called n)."),
      Arg("columns", "-1: as many as rows (also called m).") = -1, kDtype = py::none(),
      py::kw_only(), kDevice = py::none(), Returns{"[rows, columns]."}, kNegativeExtent);
}

}  // namespace

void bind_tensor_creation(py::module_& m) {
  bind_constructors(m);
  bind_fillers(m);
  bind_likes(m);
}

void bind_random(py::module_& m) {
  bind_generator(m);
  bind_random_tensors(m);
  bind_random_choices(m);
  bind_ranges(m);
}

}  // namespace hvd::python
