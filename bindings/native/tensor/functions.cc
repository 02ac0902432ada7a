// The functions of tensors that horovod_cpp/autograd has beside functions.h's first ones, in the
// module and as methods of Tensor.
#include "horovod_cpp/autograd/functions/functions.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "bindings/native/tensor/tensor.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd::python {
namespace {

std::pair<Tensor, Tensor> pair_of(ValuesAndIndices found) {
  return {std::move(found.values), std::move(found.indices)};
}

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);

// Functions of one tensor and of two, element by element.
void bind_elementwise(py::module_& m) {
  const auto unary = [&m](const char* name, Unary function, const char* what) {
    define(m, name, function, what, kA, ReleaseGil(), Returns{"A new Tensor of that shape."},
           Invalid{"a dtype that this function does not take."});
  };
  unary("abs", &abs, "Element-wise absolute value; integers too.");
  unary("cos", &cos, "Element-wise cosine.");
  unary("erf", &erf, "Element-wise error function.");
  unary("exp", &exp, "Element-wise exponential.");
  unary("isnan", &isnan, "Where ``a`` is not a number, a bool tensor.");
  unary("log", &log, "Element-wise natural logarithm.");
  unary("log1p", &log1p, "Element-wise log(1 + a).");
  unary("logical_not", &logical_not, "Where ``a`` is 0, a bool tensor.");
  unary("neg", &neg, "Element-wise negation; integers too.");
  unary("reciprocal", &reciprocal, "Element-wise 1 / a.");
  unary("relu", &relu, "Element-wise max(a, 0).");
  unary("rsqrt", &rsqrt, "Element-wise 1 / sqrt(a).");
  unary("sigmoid", &sigmoid, "Element-wise 1 / (1 + exp(-a)).");
  unary("sign", &sign, "Element-wise -1, 0 or 1; integers too.");
  unary("sin", &sin, "Element-wise sine.");
  unary("sqrt", &sqrt, "Element-wise square root.");
  unary("square", &square, "Element-wise a * a; integers too.");
  unary("tanh", &tanh, "Element-wise hyperbolic tangent.");
}

void bind_clamp(py::module_& m) {
  using Bound = std::variant<std::monostate, Tensor, Scalar>;
  define(
      m, "clamp",
      [](const Tensor& a, const Bound& min, const Bound& max) {
        const auto is_tensor = [&a](const Bound& bound) {
          const auto* number = std::get_if<Scalar>(&bound);
          return number == nullptr ? std::holds_alternative<Tensor>(bound)
                                   : number->exact_in(a.dtype());
        };
        if (!is_tensor(min) && !is_tensor(max)) {
          const auto number = [](const Bound& bound) {
            const auto* given = std::get_if<Scalar>(&bound);
            return given == nullptr ? std::nullopt : std::optional<double>(given->value);
          };
          return clamp(a, number(min), number(max));
        }
        const auto tensor = [&a](const Bound& bound) {
          if (const auto* number = std::get_if<Scalar>(&bound)) return beside(*number, a);
          return std::holds_alternative<Tensor>(bound) ? std::get<Tensor>(bound) : Tensor();
        };
        return clamp(a, tensor(min), tensor(max));
      },
      "Element-wise within [min, max].", kA,
      Arg("min", "the smallest value, a number or a Tensor that broadcasts; None does not bound.") =
          py::none(),
      Arg("max", "the largest, likewise.") = py::none(), ReleaseGil(),
      Returns{"A new Tensor of the common shape and the dtype of ``a``. Where a Tensor bounds it "
              "gets the\n    gradient."},
      Invalid{"neither bound, one that is not whole for integers, or a dtype that cannot be "
              "compared."});
}

void bind_pairs(py::module_& m) {
  constexpr Arg kFirst{"a", "a Tensor."};
  constexpr Arg kOther{"b", "another one of its dtype; shapes broadcast."};
  constexpr Returns kCommon{"A new Tensor of the common shape."};
  const auto binary = [&](const char* name, Binary function, const char* what) {
    define(m, name, function, what, kFirst, kOther, ReleaseGil(), kCommon,
           Invalid{"shapes do not broadcast, or dtypes differ or are not taken."});
  };
  binary("add", &add, "Element-wise sum.");
  binary("div", &div, "Element-wise quotient.");
  binary("dot", &dot, "Sum of the products of two vectors, a scalar.");
  binary("logical_and", &logical_and, "Where both are not 0, a bool tensor.");
  binary("logical_or", &logical_or, "Where one is not 0, a bool tensor.");
  binary("logical_xor", &logical_xor, "Where exactly one is not 0, a bool tensor.");
  binary("maximum", &maximum,
         "The larger of each pair; a NaN wins, equal ones share the gradient.");
  binary("minimum", &minimum,
         "The smaller of each pair; a NaN wins, equal ones share the gradient.");
  binary("mul", &mul, "Element-wise product.");
  binary("outer", &outer, "Products of all pairs of two vectors, [m, n].");
  binary("sub", &sub, "Element-wise difference.");
  const auto compare = [&](const char* name, Binary both, WithNumber number, const char* what) {
    define(m, name, both, what, kFirst, kOther, ReleaseGil(), kCommon,
           Invalid{"shapes do not broadcast, or dtypes differ or are not taken. ``b`` may be a "
                   "number."});
    m.def(name, with_scalar(both, number), py::arg("a"), py::arg("b"), ReleaseGil());
  };
  compare("eq", &eq, &eq, "Where a == b, a bool tensor.");
  compare("ne", &ne, &ne, "Where a != b, a bool tensor.");
  compare("lt", &lt, &lt, "Where a < b, a bool tensor.");
  compare("le", &le, &le, "Where a <= b, a bool tensor.");
  compare("gt", &gt, &gt, "Where a > b, a bool tensor.");
  compare("ge", &ge, &ge, "Where a >= b, a bool tensor.");
  constexpr Arg kExponent{"exponent", "a number, or a Tensor; shapes broadcast."};
  define(m, "pow", Binary{&pow}, "Element-wise power.", kFloatingA, kExponent, ReleaseGil(),
         kCommon, kOtherDtype);
  m.def("pow", WithNumber{&pow}, kFloatingA, kExponent, ReleaseGil());
}

void bind_choices(py::module_& m) {
  constexpr Arg condition{"condition", "a bool Tensor."}, a{"a", "a Tensor, or a number."};
  constexpr Arg b{"b", "another one of its dtype, or a number; all three shapes broadcast."};
  define(m, "where", &where, "Elements of ``a`` where ``condition`` is true, else of ``b``.",
         condition, a, b, ReleaseGil(),
         Returns{"A new Tensor of the common shape; of two numbers int64, or float32 if one is a "
                 "float."},
         Invalid{"shapes do not broadcast, or dtypes do not fit."});
  m.def(
      "where",
      [](const Tensor& mask, const Tensor& x, const Scalar& y) {
        return where(mask, x, beside(y, x));
      },
      condition, a, b, ReleaseGil());
  m.def(
      "where",
      [](const Tensor& mask, const Scalar& x, const Tensor& y) {
        return where(mask, beside(x, y), y);
      },
      condition, a, b, ReleaseGil());
  m.def(
      "where",
      [](const Tensor& mask, const Integer& x, const Integer& y) {
        const Scalar first{0.0, x.value}, second{0.0, y.value};
        return where(mask, first.tensor(DType::kI64), second.tensor(DType::kI64));
      },
      condition, py::arg("a").noconvert(), py::arg("b").noconvert(), ReleaseGil());
  m.def(
      "where",
      [](const Tensor& mask, Number x, Number y) {
        return where(mask, Tensor::scalar(x), Tensor::scalar(y));
      },
      condition, a, b, ReleaseGil());
}

void bind_masked_fill(py::module_& m) {
  constexpr Arg kMask{"mask", "a bool Tensor whose shape broadcasts to that of ``a``."};
  constexpr Arg kValue{
      "value",
      "the number where ``mask`` is true; a Tensor of one element gets the sum of the gradients."};
  define(m, "masked_fill",
         py::overload_cast<const Tensor&, const Tensor&, const Tensor&>(&masked_fill),
         "A copy with a number in some places.", kA, kMask, kValue, ReleaseGil(),
         Returns{"A new Tensor of the shape and dtype of ``a``."},
         Invalid{"shapes or dtypes do not fit, or the number is not whole for integers."});
  m.def(
      "masked_fill",
      [](const Tensor& t, const Tensor& mask, const Scalar& value) {
        return value.exact_in(t.dtype()) ? masked_fill(t, mask, value.tensor(t.dtype()))
                                         : masked_fill(t, mask, value.value);
      },
      kA, kMask, kValue, ReleaseGil());
}

constexpr Returns kWithoutAxes{"A new Tensor without these axes."};
constexpr Returns kSameShape{"A new Tensor of the same shape."};

void bind_axes_reductions(py::module_& m) {
  const auto reduce = [&m](const char* name, auto function, const char* what,
                           const Returns& returns) {
    def_axis(
        m, name,
        [function](const Tensor& t, const MaybeAxes& axis, Flag<"keepdims"> keep) {
          return function(t, list_of(axis), keep);
        },
        what, kA, kAxes = py::none(), kKeepdims = false, ReleaseGil(), returns, kNoAxis);
  };
  constexpr Returns kBool{"A new bool Tensor without these axes."};
  reduce("sum", &sum, "Sum over axes.", kWithoutAxes);
  reduce("mean", &mean, "Mean over axes.", kWithoutAxes);
  reduce("any", &any, "Whether any element along axes is not 0.", kBool);
  reduce("all", &all, "Whether every element along axes is not 0.", kBool);
}

void bind_spreads(py::module_& m) {
  const auto spread = [&m](const char* name, auto function, const char* what) {
    m.def(  // PyTorch's older form
        name,
        [function](const Tensor& t, Flag<"unbiased"> unbiased) {
          return function(t, {}, unbiased ? 1.0 : 0.0, false);
        },
        kA, py::arg("unbiased").noconvert(), ReleaseGil());
    def_axis(
        m, name,
        [function](const Tensor& t, const MaybeAxes& axis, Number correction,
                   Flag<"keepdims"> keep) { return function(t, list_of(axis), correction, keep); },
        what, kA, kAxes = py::none(),
        Arg("correction", "the sum is divided by the number of elements minus this.") = 1.0,
        ArgText{"unbiased: in the place of axis and correction: whether that is 1 or 0."},
        kKeepdims = false, ReleaseGil(), kWithoutAxes, kNoAxis);
  };
  spread("var", &hvd::var, "Mean squared distance from the mean.");
  spread("std", &hvd::std, "Square root of var().");
  def_axis(
      m, "norm",
      [](const Tensor& t, Number p, const MaybeAxes& axis, Flag<"keepdims"> keep) {
        return norm(t, p, list_of(axis), keep);
      },
      "(sum |a|^p)^(1/p) over axes.", kA, Arg("p", "the order; may be inf.") = 2.0,
      kAxes = py::none(), kKeepdims = false, ReleaseGil(), kWithoutAxes, kNoAxis);
  def_axis(
      m, "flip", [](const Tensor& t, const Axes& axis) { return flip(t, list_of(axis)); },
      "A copy with the order along axes reversed.", kA,
      Arg("axis", "one or several (also called dim)."), ReleaseGil(), kSameShape, kNoAxis);
}

void bind_extremes(py::module_& m) {
  using OfAxis = ValuesAndIndices (*)(const Tensor&, std::int64_t, bool);
  using PositionOfAxis = Tensor (*)(const Tensor&, std::int64_t, bool);
  const auto keepdims = kKeepdims = false;
  const auto extreme = [&](const char* name, Unary all_of, OfAxis along, Binary of_pairs,
                           const char* what, const char* other) {
    const std::string doc = docstring(
        what, kA, kAxis, keepdims, Arg("other", other),
        Returns{"A scalar; with an axis a pair (values, int64 indices) without it."}, kNoAxis);
    m.def(name, all_of, kA, ReleaseGil(), doc.c_str());
    m.def(name, of_pairs, kA, py::arg("other"), ReleaseGil());
    def_axis(
        m, name,
        [along](const Tensor& t, Integer at, Flag<"keepdims"> keep) {
          return pair_of(along(t, at, keep));
        },
        "", py::arg("a"), py::arg("axis"), py::arg("keepdims") = false, ReleaseGil());
  };
  extreme("max", &max, &max, &maximum, "The largest element, of all or along an axis.",
          "a Tensor, instead of an axis: maximum().");
  extreme("min", &min, &min, &minimum, "The smallest element, of all or along an axis.",
          "a Tensor, instead of an axis: minimum().");
  const auto position = [&](const char* name, Unary all_of, PositionOfAxis along, const char* what,
                            const Returns& returns) {
    const std::string doc = docstring(what, kA, kAxis, keepdims, returns, kNoAxis);
    m.def(name, all_of, kA, ReleaseGil(), doc.c_str());
    def_axis(m, name, given<"keepdims">(along), "", py::arg("a"), py::arg("axis"),
             py::arg("keepdims") = false, ReleaseGil());
  };
  constexpr Returns kWhere{"int64: a scalar, or a Tensor without the axis."};
  position("argmax", &argmax, &argmax,
           "Index of the first largest element, of all or along an axis.", kWhere);
  position("argmin", &argmin, &argmin,
           "Index of the first smallest element, of all or along an axis.", kWhere);
  position("prod", &prod, &prod, "Product of all elements, or along an axis.",
           Returns{"A scalar, or a Tensor without the axis."});
}

void bind_orders(py::module_& m) {
  const auto last = kAxis = -1;
  const auto descending = Arg("descending", "the largest first.") = false;
  constexpr Returns kSameKind{"A new Tensor of the same shape and dtype."};
  def_axis(m, "softmax", given(&softmax), "exp(a) normalised to sum 1.", kFloatingA, kAxis,
           ReleaseGil(), kSameKind, kNoAxis);
  def_axis(m, "log_softmax", given(&log_softmax), "Logarithm of softmax, without overflow.",
           kFloatingA, kAxis, ReleaseGil(), kSameKind, kNoAxis);
  def_axis(m, "cumsum", given(&cumsum), "Running sums along an axis.", kA, kAxis, ReleaseGil(),
           kSameShape, kNoAxis);
  def_axis(m, "argsort", given<"descending">(&argsort),
           "Indices that sort along an axis, stable; NaN counts as largest.", kA, last, descending,
           ReleaseGil(), Returns{"A new int64 Tensor of the same shape."}, kNoAxis);
  def_axis(
      m, "sort",
      [](const Tensor& t, Integer axis, Flag<"descending"> down) {
        return pair_of(sort(t, axis, down));
      },
      "Elements in order along an axis, stable; NaN counts as largest.", kA, last, descending,
      ReleaseGil(), Returns{"A pair (values, int64 indices) of the same shape."}, kNoAxis);
  def_axis(
      m, "topk",
      [](const Tensor& t, Integer k, Integer axis, Flag<"largest"> largest) {
        return pair_of(topk(t, k, axis, largest));
      },
      "The largest or smallest elements along an axis, in order.", kA, Arg("k", "how many."), last,
      Arg("largest", "False: the smallest.") = true, ReleaseGil(),
      Returns{"A pair (values, int64 indices); the axis has extent ``k``."}, kNoAxis);
  define(m, "bincount", given(&bincount), "How often 0, 1, 2, ... occur.",
         Arg("a", "an int64 vector, not negative."),
         Arg("minlength", "least extent of the result.") = 0, ReleaseGil(),
         Returns{"An int64 vector."}, Invalid{"a negative number, or another shape or dtype."});
}

// -- functions that pick, place and arrange elements

constexpr Arg kIndex{"index", "int64, as many axes."};
constexpr Arg kPositions{"index", "an int64 vector."};
constexpr Arg kSource{"source", "a Tensor of the shape of ``index``."};
constexpr Invalid kBadIndex{"an index is out of range, or shapes do not fit."};
constexpr Invalid kOutOfRange{"an index is out of range."};

void bind_slices(py::module_& m) {
  def_axis(m, "index_select", given(&index_select),
           "The slices at index[0], index[1], ... along an axis.", kA, kAxis, kPositions,
           ReleaseGil(), Returns{"A new Tensor whose axis has the extent of ``index``."},
           kOutOfRange);
  def_axis(
      m, "index_add", given(&index_add),
      "A copy with alpha * source's slice i added to the slice at index[i].", kA, kAxis, kPositions,
      Arg("source", "a Tensor whose axis has the extent of ``index``, else of the shape of ``a``."),
      Arg("alpha", "a factor, whole for integers.") = 1.0, ReleaseGil(),
      Returns{"A new Tensor of the shape of ``a``."},
      Invalid{"shapes do not fit, or an index is out of range."});
}

void bind_places(py::module_& m) {
  define(m, "masked_select", &masked_select, "The elements at which a mask is true.", kA,
         Arg("mask", "a bool Tensor of that shape."), ReleaseGil(), Returns{"A new vector."},
         Invalid{"shapes or dtypes do not fit."});
  define(m, "nonzero", &nonzero, "Positions of what is not 0.", kA, ReleaseGil(),
         Returns{"int64 [count, axes]."}, Invalid{"a complex dtype."});
  define(m, "one_hot", given(&one_hot), "1 at each class, else 0.",
         Arg("classes", "int64 of any shape, not negative."),
         Arg("class_count", "number of classes; -1: the largest and one more.") = -1, ReleaseGil(),
         Returns{"int64 [..., class_count]."}, Invalid{"a class is out of range."});
}

void bind_joins(py::module_& m) {
  const auto first = kAxis = 0;
  for (const auto& [name, join] : {std::pair("cat", &cat), std::pair("concat", &concat)}) {
    def_axis(
        m, name, given(join), "Tensors joined along an axis.",
        Arg("parts", "Tensors of one dtype and of shapes that are equal except along the axis."),
        first, ReleaseGil(), kNew, Invalid{"shapes or dtypes do not fit, or there is none."});
  }
  def_axis(m, "stack", given(&stack), "Tensors of one shape joined along a new axis.",
           Arg("parts", "Tensors of one shape and dtype."), first, ReleaseGil(),
           Returns{"A new Tensor with one axis more."},
           Invalid{"shapes or dtypes differ, or there is none."});
}

void bind_indexing(py::module_& m, TensorClass& cls) {
  // hvd.gather and hvd.scatter are between ranks, so these are methods only.
  def_axis(cls, "gather",
           given(py::overload_cast<const Tensor&, std::int64_t, const Tensor&>(&gather)),
           "out[i][j] = self[index[i][j]][j] for axis 0, and so on.", kAxis, kIndex, ReleaseGil(),
           Returns{"A new Tensor of the shape of ``index``."}, kOutOfRange);
  def_axis(
      cls, "scatter",
      given(py::overload_cast<const Tensor&, std::int64_t, const Tensor&, const Tensor&>(&scatter)),
      "A copy with out[index[i][j]][j] = source[i][j] for axis 0, and so on.", kAxis, kIndex,
      kSource, ReleaseGil(), kNew, kBadIndex);
  def_axis(cls, "scatter_add", given(&scatter_add),
           "A copy with out[index[i][j]][j] += source[i][j] for axis 0, and so on.", kAxis, kIndex,
           kSource, ReleaseGil(), kNew, kBadIndex);
  const auto in_place = [&](const char* name, auto write, const char* what) {
    def_axis(
        cls, name,
        [write](const Typed<"Tensor">& self, Integer at, const Tensor& where_to,
                const Tensor& values) {
          write(self.cast<Tensor>(), at, where_to, values);
          return self;
        },
        what, kAxis, kIndex, kSource, Returns{"The tensor itself."}, kBadIndex);
  };
  in_place("scatter_", &scatter_, "scatter() in place; not recorded.");
  in_place("scatter_add_", &scatter_add_, "scatter_add() in place; not recorded.");
  bind_slices(m);
  bind_places(m);
}

void bind_arrangement(py::module_& m) {
  const auto first = kAxis = 0;
  bind_joins(m);
  def_axis(
      m, "split",
      [](const Tensor& t, const Axes& sizes, Integer at) {
        if (const auto* size = std::get_if<Integer>(&sizes)) return split(t, size->value, at);
        return split(t, list_of(sizes), at);
      },
      "Views of parts along an axis.", kA,
      Arg("sizes", "extent of each part but perhaps the last, or a list that adds up to the axis."),
      first, ReleaseGil(), Returns{"A list of views."}, Invalid{"sizes do not fit the shape."});
  def_axis(m, "chunk", given(&chunk),
           "Views of parts of equal size along an axis, except the last.", kA,
           Arg("count", "how many at most."), first, ReleaseGil(), Returns{"A list of views."},
           Invalid{"``count`` is below 1, or there is no such axis."});
  define(
      m, "repeat",
      [](const Tensor& t, const py::Args<ShapeLike>& repeats) {
        return repeat(t, shape_from(repeats));
      },
      "A copy of the whole, repeats[i] times along axis i.", kA,
      ArgText{"repeats: a list of numbers, or several numbers, at least one an axis."}, kNew,
      Invalid{"fewer numbers than axes, or a negative one."});
  const auto triangle = [&m](const char* name, auto function, const char* what) {
    define(m, name, given(function), what, Arg("a", "a Tensor [..., m, n]."),
           Arg("diagonal", "0 is the main one, 1 the one above.") = 0, ReleaseGil(),
           Returns{"A new Tensor of that shape."}, Invalid{"fewer than two axes."});
  };
  triangle("tril", &tril, "The lower triangle; 0 above a diagonal.");
  triangle("triu", &triu, "The upper triangle; 0 below a diagonal.");
}

// Every function whose first argument is the tensor is a method of it too.
void bind_methods(const py::module_& m, TensorClass& cls) {
  for (const char* name :
       {"abs",         "all",           "any",         "argmax",     "argmin",      "argsort",
        "bincount",    "chunk",         "clamp",       "cos",        "cumsum",      "dot",
        "eq",          "erf",           "exp",         "flip",       "ge",          "gt",
        "index_add",   "index_select",  "isnan",       "le",         "log",         "log1p",
        "log_softmax", "logical_and",   "logical_not", "logical_or", "logical_xor", "lt",
        "masked_fill", "masked_select", "matmul",      "max",        "maximum",     "mean",
        "min",         "minimum",       "ne",          "nonzero",    "norm",        "outer",
        "pow",         "prod",          "reciprocal",  "relu",       "repeat",      "rsqrt",
        "sigmoid",     "sign",          "sin",         "softmax",    "sort",        "split",
        "sqrt",        "square",        "std",         "sum",        "tanh",        "topk",
        "tril",        "triu",          "var"}) {
    cls.attr(name) = py::reinterpret_steal<py::object>(PyInstanceMethod_New(m.attr(name).ptr()));
  }
}

}  // namespace

Tensor beside(const Scalar& number, const Tensor& other) {
  if (number.exact_in(other.dtype())) return number.tensor(other.dtype());
  return autograd::operand(number, other);
}

void bind_functions(py::module_& m) {
  auto cls = py::reinterpret_borrow<TensorClass>(m.attr("Tensor"));
  bind_elementwise(m);
  bind_clamp(m);
  bind_pairs(m);
  bind_choices(m);
  bind_masked_fill(m);
  bind_axes_reductions(m);
  bind_spreads(m);
  bind_extremes(m);
  bind_orders(m);
  bind_indexing(m, cls);
  bind_arrangement(m);
  bind_methods(m, cls);
}

}  // namespace hvd::python
