// The functions of tensors that horovod_cpp/autograd has beside functions.h's first ones, in the
// module and as methods of Tensor.
#include "horovod_cpp/autograd/functions/functions.h"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bindings/native/numbers.h"
#include "bindings/native/scalar.h"
#include "bindings/native/tensor/docs.h"
#include "bindings/native/tensor/functions.h"
#include "bindings/native/words.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd::python {
namespace {

using Pair = std::pair<Tensor, Tensor>;

Pair pair_of(ValuesAndIndices found) {
  return {std::move(found.values), std::move(found.indices)};
}

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);

void bind_elementwise(py::module_& m) {
  const auto unary = [&m](const char* name, Unary function, const char* what) {
    m.def(name, function, py::arg("a"), ReleaseGil(), unary_doc(what).c_str());
  };
  unary("abs", &abs, "Element-wise absolute value; integers too.");
  unary("sign", &sign, "Element-wise -1, 0 or 1; integers too.");
  unary("square", &square, "Element-wise a * a; integers too.");
  unary("reciprocal", &reciprocal, "Element-wise 1 / a.");
  unary("rsqrt", &rsqrt, "Element-wise 1 / sqrt(a).");
  unary("sin", &sin, "Element-wise sine.");
  unary("cos", &cos, "Element-wise cosine.");
  unary("erf", &erf, "Element-wise error function.");
  unary("log1p", &log1p, "Element-wise log(1 + a).");
  unary("isnan", &isnan, "Where ``a`` is not a number, a bool tensor.");
  unary("logical_not", &logical_not, "Where ``a`` is 0, a bool tensor.");
  using Bound = std::variant<std::monostate, Tensor, Scalar>;
  m.def(
      "clamp",
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
          if (const auto* number = std::get_if<Scalar>(&bound)) return number->tensor(a.dtype());
          return std::holds_alternative<Tensor>(bound) ? std::get<Tensor>(bound) : Tensor();
        };
        return clamp(a, tensor(min), tensor(max));
      },
      py::arg("a"), py::arg("min") = py::none(), py::arg("max") = py::none(), ReleaseGil(),
      R"(Element-wise within [min, max].

Args:
    a: a Tensor of any shape.
    min: the smallest value, a number or a Tensor that broadcasts; None does not bound.
    max: the largest, likewise.

Returns:
    A new Tensor of the common shape and the dtype of ``a``. Where a Tensor bounds it gets the
    gradient.

Raises:
    InvalidArgumentError: neither bound, or a dtype that cannot be compared.)");
}

void bind_pairs(py::module_& m) {
  const auto binary = [&m](const char* name, Binary function, const char* what) {
    m.def(name, function, py::arg("a"), py::arg("b"), ReleaseGil(), binary_doc(what).c_str());
  };
  binary("maximum", &maximum,
         "The larger of each pair; a NaN wins, equal ones share the gradient.");
  binary("minimum", &minimum,
         "The smaller of each pair; a NaN wins, equal ones share the gradient.");
  binary("logical_and", &logical_and, "Where both are not 0, a bool tensor.");
  binary("logical_or", &logical_or, "Where one is not 0, a bool tensor.");
  binary("logical_xor", &logical_xor, "Where exactly one is not 0, a bool tensor.");
  binary("outer", &outer, "Products of all pairs of two vectors, [m, n].");
  binary("dot", &dot, "Sum of the products of two vectors, a scalar.");
  const auto compare = [&](const char* name, Binary both, WithNumber number, const char* what) {
    const std::string doc = binary_doc(what) + " ``b`` may be a number.";
    m.def(name, both, py::arg("a"), py::arg("b"), ReleaseGil(), doc.c_str());
    m.def(
        name,
        [both, number](const Tensor& x, const Scalar& y) {
          return y.exact_in(x.dtype()) ? both(x, y.tensor(x.dtype())) : number(x, y);
        },
        py::arg("a"), py::arg("b"), ReleaseGil());
  };
  compare("eq", &eq, &eq, "Where a == b, a bool tensor.");
  compare("ne", &ne, &ne, "Where a != b, a bool tensor.");
  compare("lt", &lt, &lt, "Where a < b, a bool tensor.");
  compare("le", &le, &le, "Where a <= b, a bool tensor.");
  compare("gt", &gt, &gt, "Where a > b, a bool tensor.");
  compare("ge", &ge, &ge, "Where a >= b, a bool tensor.");
}

// A number beside a tensor, in its dtype.
Tensor beside(const Scalar& number, const Tensor& other) {
  if (number.exact_in(other.dtype())) return number.tensor(other.dtype());
  return autograd::operand(number, other);
}

void bind_choices(py::module_& m) {
  const auto condition = py::arg("condition"), a = py::arg("a"), b = py::arg("b");
  m.def("where", &where, condition, a, b, ReleaseGil(),
        R"(Elements of ``a`` where ``condition`` is true, else of ``b``.

Args:
    condition: a bool Tensor.
    a: a Tensor, or a number.
    b: another one of its dtype, or a number; all three shapes broadcast.

Returns:
    A new Tensor of the common shape; of two numbers int64, or float32 if one is a float.

Raises:
    InvalidArgumentError: shapes do not broadcast, or dtypes do not fit.)");
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
  m.def("masked_fill", py::overload_cast<const Tensor&, const Tensor&, const Tensor&>(&masked_fill),
        py::arg("a"), py::arg("mask"), py::arg("value"), ReleaseGil(),
        R"(A copy with a number in some places.

Args:
    a: a Tensor of any shape.
    mask: a bool Tensor whose shape broadcasts to that of ``a``.
    value: the number where ``mask`` is true; a Tensor of one element gets the sum of the gradients.

Returns:
    A new Tensor of the shape and dtype of ``a``.

Raises:
    InvalidArgumentError: shapes or dtypes do not fit.)");
  m.def(
      "masked_fill",
      [](const Tensor& t, const Tensor& mask, const Scalar& value) {
        return value.exact_in(t.dtype()) ? masked_fill(t, mask, value.tensor(t.dtype()))
                                         : masked_fill(t, mask, value.value);
      },
      py::arg("a"), py::arg("mask"), py::arg("value"), ReleaseGil());
}

void bind_axes_reductions(py::module_& m) {
  const auto a = py::arg("a");
  const auto axes = py::arg("axis") = py::none();
  const auto keepdims = py::arg("keepdims") = false;
  const auto reduce = [&](const char* name, auto function, const char* doc) {
    def_axis(
        m, name,
        [function](const Tensor& t, const MaybeAxes& axis, Flag<"keepdims"> keep) {
          return function(t, list_of(axis), keep);
        },
        a, axes, keepdims, ReleaseGil(), doc);
  };
  reduce(
      "sum", &sum,
      tensor_doc("Sum over axes.", {kAnyShape, kAxes, kKeepdims}, kWithoutAxes, kNoAxis).c_str());
  reduce(
      "mean", &mean,
      tensor_doc("Mean over axes.", {kAnyShape, kAxes, kKeepdims}, kWithoutAxes, kNoAxis).c_str());
  reduce("any", &any,
         tensor_doc("Whether any element along axes is not 0.", {kAnyShape, kAxes, kKeepdims},
                    "A new bool Tensor without these axes.", kNoAxis)
             .c_str());
  reduce("all", &all,
         tensor_doc("Whether every element along axes is not 0.", {kAnyShape, kAxes, kKeepdims},
                    "A new bool Tensor without these axes.", kNoAxis)
             .c_str());
}

void bind_spreads(py::module_& m) {
  const auto a = py::arg("a");
  const auto axes = py::arg("axis") = py::none();
  const auto keepdims = py::arg("keepdims") = false;
  const auto spread = [&](const char* name, auto function, const char* doc) {
    m.def(  // PyTorch's older form
        name,
        [function](const Tensor& t, Flag<"unbiased"> unbiased) {
          return function(t, {}, unbiased ? 1.0 : 0.0, false);
        },
        a, py::arg("unbiased").noconvert(), ReleaseGil());
    def_axis(
        m, name,
        [function](const Tensor& t, const MaybeAxes& axis, Number correction,
                   Flag<"keepdims"> keep) { return function(t, list_of(axis), correction, keep); },
        a, axes, py::arg("correction") = 1.0, keepdims, ReleaseGil(), doc);
  };
  spread(
      "var", &hvd::var,
      tensor_doc(
          "Mean squared distance from the mean.",
          {kAnyShape, kAxes, "correction: the sum is divided by the number of elements minus this.",
           "unbiased: in the place of axis and correction: whether that is 1 or 0.", kKeepdims},
          kWithoutAxes, kNoAxis)
          .c_str());
  spread(
      "std", &hvd::std,
      tensor_doc(
          "Square root of var().",
          {kAnyShape, kAxes, "correction: the sum is divided by the number of elements minus this.",
           "unbiased: in the place of axis and correction: whether that is 1 or 0.", kKeepdims},
          kWithoutAxes, kNoAxis)
          .c_str());
  def_axis(
      m, "norm",
      [](const Tensor& t, Number p, const MaybeAxes& axis, Flag<"keepdims"> keep) {
        return norm(t, p, list_of(axis), keep);
      },
      a, py::arg("p") = 2.0, axes, keepdims, ReleaseGil(),
      tensor_doc("(sum |a|^p)^(1/p) over axes.",
                 {kAnyShape, "p: the order; may be inf.", kAxes, kKeepdims}, kWithoutAxes, kNoAxis)
          .c_str());
  def_axis(
      m, "flip", [](const Tensor& t, const Axes& axis) { return flip(t, list_of(axis)); }, a,
      py::arg("axis"), ReleaseGil(),
      tensor_doc("A copy with the order along axes reversed.",
                 {kAnyShape, "axis: one or several (also called dim)."}, kSameShape, kNoAxis)
          .c_str());
}

void bind_extremes(py::module_& m) {
  using OfAll = Tensor (*)(const Tensor&);
  using OfAxis = ValuesAndIndices (*)(const Tensor&, std::int64_t, bool);
  using PositionOfAxis = Tensor (*)(const Tensor&, std::int64_t, bool);
  const auto a = py::arg("a");
  const auto axis = py::arg("axis");
  const auto keepdims = py::arg("keepdims") = false;
  const auto extreme = [&](const char* name, OfAll all_of, OfAxis along, Binary of_pairs,
                           const char* doc) {
    m.def(name, all_of, a, ReleaseGil(), doc);
    m.def(name, of_pairs, a, py::arg("other"), ReleaseGil());
    def_axis(
        m, name,
        [along](const Tensor& t, Integer at, Flag<"keepdims"> keep) {
          return pair_of(along(t, at, keep));
        },
        a, axis, keepdims, ReleaseGil());
  };
  extreme(
      "max", &max, &max, &maximum,
      tensor_doc("The largest element, of all or along an axis.",
                 {kAnyShape, kAxis, kKeepdims, "other: a Tensor, instead of an axis: maximum()."},
                 "A scalar; with an axis a pair (values, int64 indices) without it.", kNoAxis)
          .c_str());
  extreme(
      "min", &min, &min, &minimum,
      tensor_doc("The smallest element, of all or along an axis.",
                 {kAnyShape, kAxis, kKeepdims, "other: a Tensor, instead of an axis: minimum()."},
                 "A scalar; with an axis a pair (values, int64 indices) without it.", kNoAxis)
          .c_str());
  const auto position = [&](const char* name, OfAll all_of, PositionOfAxis along, const char* doc) {
    m.def(name, all_of, a, ReleaseGil(), doc);
    def_axis(m, name, given<"keepdims">(along), a, axis, keepdims, ReleaseGil());
  };
  position("argmax", &argmax, &argmax,
           tensor_doc("Index of the first largest element, of all or along an axis.",
                      {kAnyShape, kAxis, kKeepdims},
                      "int64: a scalar, or a Tensor without the axis.", kNoAxis)
               .c_str());
  position("argmin", &argmin, &argmin,
           tensor_doc("Index of the first smallest element, of all or along an axis.",
                      {kAnyShape, kAxis, kKeepdims},
                      "int64: a scalar, or a Tensor without the axis.", kNoAxis)
               .c_str());
  position("prod", &prod, &prod,
           tensor_doc("Product of all elements, or along an axis.", {kAnyShape, kAxis, kKeepdims},
                      "A scalar, or a Tensor without the axis.", kNoAxis)
               .c_str());
}

void bind_orders(py::module_& m) {
  const auto a = py::arg("a");
  const auto last = py::arg("axis") = -1;
  def_axis(m, "softmax", given(&softmax), a, py::arg("axis"), ReleaseGil(),
           tensor_doc("exp(a) normalised to sum 1.", {kFloating, kAxis},
                      "A new Tensor of the same shape and dtype.", kNoAxis)
               .c_str());
  def_axis(m, "log_softmax", given(&log_softmax), a, py::arg("axis"), ReleaseGil(),
           tensor_doc("Logarithm of softmax, without overflow.", {kFloating, kAxis},
                      "A new Tensor of the same shape and dtype.", kNoAxis)
               .c_str());
  def_axis(
      m, "cumsum", given(&cumsum), a, py::arg("axis"), ReleaseGil(),
      tensor_doc("Running sums along an axis.", {kAnyShape, kAxis}, kSameShape, kNoAxis).c_str());
  def_axis(
      m, "argsort", given<"descending">(&argsort), a, last, py::arg("descending") = false,
      ReleaseGil(),
      tensor_doc("Indices that sort along an axis, stable; NaN counts as largest.",
                 {kAnyShape, kAxis, kDescending}, "A new int64 Tensor of the same shape.", kNoAxis)
          .c_str());
  def_axis(
      m, "sort",
      [](const Tensor& t, Integer axis, Flag<"descending"> descending) {
        return pair_of(sort(t, axis, descending));
      },
      a, last, py::arg("descending") = false, ReleaseGil(),
      tensor_doc("Elements in order along an axis, stable; NaN counts as largest.",
                 {kAnyShape, kAxis, kDescending},
                 "A pair (values, int64 indices) of the same shape.", kNoAxis)
          .c_str());
  def_axis(
      m, "topk",
      [](const Tensor& t, Integer k, Integer axis, Flag<"largest"> largest) {
        return pair_of(topk(t, k, axis, largest));
      },
      a, py::arg("k"), last, py::arg("largest") = true, ReleaseGil(),
      tensor_doc("The largest or smallest elements along an axis, in order.",
                 {kAnyShape, "k: how many.", kAxis, "largest: False: the smallest."},
                 "A pair (values, int64 indices); the axis has extent ``k``.", kNoAxis)
          .c_str());
  m.def("bincount", given(&bincount), a, py::arg("minlength") = 0, ReleaseGil(),
        tensor_doc("How often 0, 1, 2, ... occur.",
                   {"a: an int64 vector, not negative.", "minlength: least extent of the result."},
                   "An int64 vector.",
                   "InvalidArgumentError: a negative number, or another shape or dtype.")
            .c_str());
}

// Every function whose first argument is the tensor is a method of it too.
void bind_methods(const py::module_& m, py::class_<Tensor>& cls) {
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

void bind_functions(py::module_& m) {
  auto cls = py::reinterpret_borrow<py::class_<Tensor>>(m.attr("Tensor"));
  bind_elementwise(m);
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
