// The functions of tensors that horovod_cpp/autograd has beside functions.h's first ones, in the
// module and as methods of Tensor.
#include "horovod_cpp/autograd/functions.h"

#include <pybind11/stl.h>

#include <optional>
#include <variant>
#include <vector>

#include "bindings/native/bindings.h"
#include "bindings/native/words.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd::python {
namespace {

// One axis or several.
using Axes = std::variant<std::int64_t, std::vector<std::int64_t>>;
using MaybeAxes = std::optional<Axes>;

std::vector<std::int64_t> list_of(const MaybeAxes& axes) {
  if (!axes) return {};
  if (const auto* one = std::get_if<std::int64_t>(&*axes)) return {*one};
  return std::get<std::vector<std::int64_t>>(*axes);
}

using Pair = std::pair<Tensor, Tensor>;

Pair pair_of(ValuesAndIndices found) {
  return {std::move(found.values), std::move(found.indices)};
}

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);

void bind_elementwise(py::module_& m) {
  const auto unary = [&m](const char* name, Unary function, const char* doc) {
    m.def(name, function, py::arg("a"), ReleaseGil(), doc);
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
  m.def("clamp", &clamp, py::arg("a"), py::arg("min") = py::none(), py::arg("max") = py::none(),
        ReleaseGil(), "Element-wise within [min, max]; None does not bound.");
  const auto binary = [&m](const char* name, Binary function, const char* doc) {
    m.def(name, function, py::arg("a"), py::arg("b"), ReleaseGil(), doc);
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
  const auto compare = [&](const char* name, Binary both, WithNumber number, const char* doc) {
    m.def(name, both, py::arg("a"), py::arg("b"), ReleaseGil(), doc);
    m.def(name, number, py::arg("a"), py::arg("b"), ReleaseGil());
  };
  compare("eq", &eq, &eq, "Where a == b, a bool tensor.");
  compare("ne", &ne, &ne, "Where a != b, a bool tensor.");
  compare("lt", &lt, &lt, "Where a < b, a bool tensor.");
  compare("le", &le, &le, "Where a <= b, a bool tensor.");
  compare("gt", &gt, &gt, "Where a > b, a bool tensor.");
  compare("ge", &ge, &ge, "Where a >= b, a bool tensor.");
  m.def("where", &where, py::arg("condition"), py::arg("a"), py::arg("b"), ReleaseGil(),
        "``a`` where the bool tensor ``condition`` is true, else ``b``; all broadcast.");
  m.def("masked_fill", &masked_fill, py::arg("a"), py::arg("mask"), py::arg("value"), ReleaseGil(),
        "A copy of ``a`` with ``value`` where the bool tensor ``mask`` is true.");
}

void bind_axes_reductions(py::module_& m) {
  const auto a = py::arg("a");
  const auto axes = py::arg("axis") = py::none();
  const auto keepdims = py::arg("keepdims") = false;
  const auto reduce = [&](const char* name, auto function, const char* doc) {
    def_axis(
        m, name,
        [function](const Tensor& t, const MaybeAxes& axis, bool keep) {
          return function(t, list_of(axis), keep);
        },
        a, axes, keepdims, ReleaseGil(), doc);
  };
  reduce("sum", &sum, "Sum over ``axis``, one or several (None: all).");
  reduce("mean", &mean, "Mean over ``axis``, one or several (None: all).");
  reduce("any", &any, "Whether any element along ``axis`` is not 0, a bool tensor.");
  reduce("all", &all, "Whether every element along ``axis`` is not 0, a bool tensor.");
  const auto spread = [&](const char* name, auto function, const char* doc) {
    def_axis(
        m, name,
        [function](const Tensor& t, const MaybeAxes& axis, double correction, bool keep) {
          return function(t, list_of(axis), correction, keep);
        },
        a, axes, py::arg("correction") = 1.0, keepdims, ReleaseGil(), doc);
  };
  spread("var", &hvd::var, "Mean squared distance from the mean; divides by count - correction.");
  spread("std", &hvd::std, "Square root of ``var``.");
  def_axis(
      m, "norm",
      [](const Tensor& t, double p, const MaybeAxes& axis, bool keep) {
        return norm(t, p, list_of(axis), keep);
      },
      a, py::arg("p") = 2.0, axes, keepdims, ReleaseGil(),
      "(sum |a|^p)^(1/p) over ``axis``; p may be inf.");
  def_axis(
      m, "flip", [](const Tensor& t, const Axes& axis) { return flip(t, list_of(axis)); }, a,
      py::arg("axis"), ReleaseGil(),
      "A copy with the order along ``axis``, one or several, reversed.");
}

void bind_extremes(py::module_& m) {
  using OfAll = Tensor (*)(const Tensor&);
  using OfAxis = ValuesAndIndices (*)(const Tensor&, std::int64_t, bool);
  using PositionOfAxis = Tensor (*)(const Tensor&, std::int64_t, bool);
  const auto a = py::arg("a");
  const auto axis = py::arg("axis");
  const auto keepdims = py::arg("keepdims") = false;
  const auto extreme = [&](const char* name, OfAll all_of, OfAxis along, const char* doc) {
    m.def(name, all_of, a, ReleaseGil(), doc);
    def_axis(
        m, name,
        [along](const Tensor& t, std::int64_t at, bool keep) {
          return pair_of(along(t, at, keep));
        },
        a, axis, keepdims, ReleaseGil());
  };
  extreme("max", &max, &max, "The largest element; with an axis (values, indices) along it.");
  extreme("min", &min, &min, "The smallest element; with an axis (values, indices) along it.");
  const auto position = [&](const char* name, OfAll all_of, PositionOfAxis along, const char* doc) {
    m.def(name, all_of, a, ReleaseGil(), doc);
    def_axis(m, name, along, a, axis, keepdims, ReleaseGil());
  };
  position("argmax", &argmax, &argmax,
           "Index of the first largest element, of all or along an axis; int64.");
  position("argmin", &argmin, &argmin,
           "Index of the first smallest element, of all or along an axis; int64.");
  position("prod", &prod, &prod, "Product of all elements, or along an axis.");
}

void bind_orders(py::module_& m) {
  const auto a = py::arg("a");
  const auto last = py::arg("axis") = -1;
  def_axis(m, "softmax", &softmax, a, py::arg("axis"), ReleaseGil(),
           "exp(a) normalised to sum 1 along ``axis``.");
  def_axis(m, "log_softmax", &log_softmax, a, py::arg("axis"), ReleaseGil(),
           "Logarithm of softmax along ``axis``.");
  def_axis(m, "cumsum", &cumsum, a, py::arg("axis"), ReleaseGil(), "Running sums along an axis.");
  def_axis(m, "argsort", &argsort, a, last, py::arg("descending") = false, ReleaseGil(),
           "Indices that sort along an axis, stable; NaN counts as largest.");
  def_axis(
      m, "sort",
      [](const Tensor& t, std::int64_t axis, bool descending) {
        return pair_of(sort(t, axis, descending));
      },
      a, last, py::arg("descending") = false, ReleaseGil(),
      "(values, indices) in order along an axis.");
  def_axis(
      m, "topk",
      [](const Tensor& t, std::int64_t k, std::int64_t axis, bool largest) {
        return pair_of(topk(t, k, axis, largest));
      },
      a, py::arg("k"), last, py::arg("largest") = true, ReleaseGil(),
      "(values, indices) of the ``k`` largest, or smallest, along an axis, in order.");
  m.def("bincount", &bincount, a, py::arg("minlength") = 0, ReleaseGil(),
        "How often 0, 1, 2, ... occur in a non-negative int64 vector.");
}

void bind_indexing(py::module_& m, py::class_<Tensor>& cls) {
  const auto a = py::arg("a");
  const auto axis = py::arg("axis");
  const auto index = py::arg("index");
  const auto source = py::arg("source");
  // hvd.gather and hvd.scatter are between ranks, so these are methods only.
  def_axis(cls, "gather", py::overload_cast<const Tensor&, std::int64_t, const Tensor&>(&gather),
           axis, index, ReleaseGil(), "out[i][j] = self[index[i][j]][j] for axis 0, and so on.");
  def_axis(cls, "scatter",
           py::overload_cast<const Tensor&, std::int64_t, const Tensor&, const Tensor&>(&scatter),
           axis, index, source, ReleaseGil(),
           "A copy with out[index[i][j]][j] = source[i][j] for axis 0, and so on.");
  def_axis(cls, "scatter_add", &scatter_add, axis, index, source, ReleaseGil(),
           "A copy with out[index[i][j]][j] += source[i][j] for axis 0, and so on.");
  const auto in_place = [&](const char* name, auto write, const char* doc) {
    def_axis(
        cls, name,
        [write](const py::object& self, std::int64_t at, const Tensor& where_to,
                const Tensor& values) {
          write(self.cast<Tensor>(), at, where_to, values);
          return self;
        },
        axis, index, source, doc);
  };
  in_place("scatter_", &scatter_, "``scatter`` in place; not recorded.");
  in_place("scatter_add_", &scatter_add_, "``scatter_add`` in place; not recorded.");
  def_axis(m, "index_select", &index_select, a, axis, index, ReleaseGil(),
           "The slices at index[0], index[1], ... along an axis.");
  def_axis(m, "index_add", &index_add, a, axis, index, source, py::arg("alpha") = 1.0, ReleaseGil(),
           "A copy with alpha * source's slice i added to the slice at index[i].");
  m.def("masked_select", &masked_select, a, py::arg("mask"), ReleaseGil(),
        "The elements where the bool tensor ``mask`` is true, a vector.");
  m.def("nonzero", &nonzero, a, ReleaseGil(), "Positions of what is not 0, int64 [count, axes].");
  m.def("one_hot", &one_hot, py::arg("classes"), py::arg("class_count") = -1, ReleaseGil(),
        "int64 [..., classes] with 1 at each class; -1 counts the classes.");
}

void bind_arrangement(py::module_& m) {
  const auto a = py::arg("a");
  const auto axis = py::arg("axis") = 0;
  const auto parts = py::arg("parts");
  def_axis(m, "cat", &cat, parts, axis, ReleaseGil(), "Tensors joined along an axis.");
  def_axis(m, "concat", &concat, parts, axis, ReleaseGil(), "Tensors joined along an axis.");
  def_axis(m, "stack", &stack, parts, axis, ReleaseGil(),
           "Tensors of one shape joined along a new axis.");
  def_axis(
      m, "split",
      [](const Tensor& t, const Axes& sizes, std::int64_t at) {
        if (const auto* size = std::get_if<std::int64_t>(&sizes)) return split(t, *size, at);
        return split(t, list_of(sizes), at);
      },
      a, py::arg("sizes"), axis, ReleaseGil(), "Views of ``sizes`` (one or a list) along an axis.");
  def_axis(m, "chunk", &chunk, a, py::arg("count"), axis, ReleaseGil(),
           "At most ``count`` views of equal size along an axis, but for the last.");
  m.def(
      "repeat",
      [](const Tensor& t, const py::args& repeats) { return repeat(t, shape_from(repeats)); }, a,
      "A copy of the whole, repeats[i] times along axis i: a list, or several numbers.");
  m.def("tril", &tril, a, py::arg("diagonal") = 0, ReleaseGil(), "0 above a diagonal.");
  m.def("triu", &triu, a, py::arg("diagonal") = 0, ReleaseGil(), "0 below a diagonal.");
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
  bind_axes_reductions(m);
  bind_extremes(m);
  bind_orders(m);
  bind_indexing(m, cls);
  bind_arrangement(m);
  bind_methods(m, cls);
}

}  // namespace hvd::python
