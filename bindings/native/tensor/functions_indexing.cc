// Functions of tensors that pick, place and arrange elements.
#include <pybind11/stl.h>

#include <string>

#include "bindings/native/numbers.h"
#include "bindings/native/tensor/docs.h"
#include "bindings/native/tensor/functions.h"
#include "bindings/native/words.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd::python {
namespace {

void bind_slices(py::module_& m) {
  const auto a = py::arg("a");
  const auto axis = py::arg("axis");
  const auto index = py::arg("index");
  def_axis(m, "index_select", given(&index_select), a, axis, index, ReleaseGil(),
           tensor_doc("The slices at index[0], index[1], ... along an axis.",
                      {kAnyShape, kAxis, "index: an int64 vector."},
                      "A new Tensor whose axis has the extent of ``index``.", kOutOfRange)
               .c_str());
  def_axis(
      m, "index_add", given(&index_add), a, axis, index, py::arg("source"), py::arg("alpha") = 1.0,
      ReleaseGil(),
      tensor_doc(
          "A copy with alpha * source's slice i added to the slice at index[i].",
          {kAnyShape, kAxis, "index: an int64 vector.",
           "source: a Tensor whose axis has the extent of ``index``, else of the shape of ``a``.",
           "alpha: a factor."},
          "A new Tensor of the shape of ``a``.",
          "InvalidArgumentError: shapes do not fit, or an index is out of range.")
          .c_str());
}

void bind_places(py::module_& m) {
  const auto a = py::arg("a");
  m.def("masked_select", &masked_select, a, py::arg("mask"), ReleaseGil(),
        tensor_doc("The elements at which a mask is true.",
                   {kAnyShape, "mask: a bool Tensor of that shape."}, "A new vector.",
                   "InvalidArgumentError: shapes or dtypes do not fit.")
            .c_str());
  m.def("nonzero", &nonzero, a, ReleaseGil(),
        tensor_doc("Positions of what is not 0.", {kAnyShape}, "int64 [count, axes].",
                   "InvalidArgumentError: a complex dtype.")
            .c_str());
  m.def("one_hot", given(&one_hot), py::arg("classes"), py::arg("class_count") = -1, ReleaseGil(),
        tensor_doc("1 at each class, else 0.",
                   {"classes: int64 of any shape, not negative.",
                    "class_count: number of classes; -1: the largest and one more."},
                   "int64 [..., class_count].", "InvalidArgumentError: a class is out of range.")
            .c_str());
}

}  // namespace

void bind_indexing(py::module_& m, py::class_<Tensor>& cls) {
  const auto axis = py::arg("axis");
  const auto index = py::arg("index");
  const auto source = py::arg("source");
  // hvd.gather and hvd.scatter are between ranks, so these are methods only.
  def_axis(cls, "gather",
           given(py::overload_cast<const Tensor&, std::int64_t, const Tensor&>(&gather)), axis,
           index, ReleaseGil(),
           tensor_doc("out[i][j] = self[index[i][j]][j] for axis 0, and so on.", {kAxis, kIndex},
                      "A new Tensor of the shape of ``index``.", kOutOfRange)
               .c_str());
  def_axis(
      cls, "scatter",
      given(py::overload_cast<const Tensor&, std::int64_t, const Tensor&, const Tensor&>(&scatter)),
      axis, index, source, ReleaseGil(),
      tensor_doc("A copy with out[index[i][j]][j] = source[i][j] for axis 0, and so on.",
                 {kAxis, kIndex, kSource}, kNew, kBadIndex)
          .c_str());
  def_axis(cls, "scatter_add", given(&scatter_add), axis, index, source, ReleaseGil(),
           tensor_doc("A copy with out[index[i][j]][j] += source[i][j] for axis 0, and so on.",
                      {kAxis, kIndex, kSource}, kNew, kBadIndex)
               .c_str());
  const auto in_place = [&](const char* name, auto write, const char* doc) {
    def_axis(
        cls, name,
        [write](const Typed<"Tensor">& self, Integer at, const Tensor& where_to,
                const Tensor& values) {
          write(self.cast<Tensor>(), at, where_to, values);
          return self;
        },
        axis, index, source, doc);
  };
  in_place("scatter_", &scatter_,
           tensor_doc("scatter() in place; not recorded.", {kAxis, kIndex, kSource},
                      "The tensor itself.", kBadIndex)
               .c_str());
  in_place("scatter_add_", &scatter_add_,
           tensor_doc("scatter_add() in place; not recorded.", {kAxis, kIndex, kSource},
                      "The tensor itself.", kBadIndex)
               .c_str());
  bind_slices(m);
  bind_places(m);
}

void bind_arrangement(py::module_& m) {
  const auto a = py::arg("a");
  const auto axis = py::arg("axis") = 0;
  const auto parts = py::arg("parts");
  def_axis(m, "cat", given(&cat), parts, axis, ReleaseGil(),
           tensor_doc("Tensors joined along an axis.",
                      {"parts: Tensors of one dtype and of shapes that are equal but for the axis.",
                       kAxis},
                      kNew, "InvalidArgumentError: shapes or dtypes do not fit, or there is none.")
               .c_str());
  def_axis(m, "concat", given(&concat), parts, axis, ReleaseGil(),
           tensor_doc("Tensors joined along an axis.",
                      {"parts: Tensors of one dtype and of shapes that are equal but for the axis.",
                       kAxis},
                      kNew, "InvalidArgumentError: shapes or dtypes do not fit, or there is none.")
               .c_str());
  def_axis(m, "stack", given(&stack), parts, axis, ReleaseGil(),
           tensor_doc("Tensors of one shape joined along a new axis.",
                      {"parts: Tensors of one shape and dtype.", kAxis},
                      "A new Tensor with one axis more.",
                      "InvalidArgumentError: shapes or dtypes differ, or there is none.")
               .c_str());
  def_axis(
      m, "split",
      [](const Tensor& t, const Axes& sizes, Integer at) {
        if (const auto* size = std::get_if<Integer>(&sizes)) return split(t, size->value, at);
        return split(t, list_of(sizes), at);
      },
      a, py::arg("sizes"), axis, ReleaseGil(),
      tensor_doc(
          "Views of parts along an axis.",
          {kAnyShape,
           "sizes: extent of each part but perhaps the last, or a list that adds up to the axis.",
           kAxis},
          "A list of views.", "InvalidArgumentError: sizes do not fit the shape.")
          .c_str());
  def_axis(m, "chunk", given(&chunk), a, py::arg("count"), axis, ReleaseGil(),
           tensor_doc("Views of parts of equal size along an axis, but for the last.",
                      {kAnyShape, "count: how many at most.", kAxis}, "A list of views.",
                      "InvalidArgumentError: ``count`` is below 1, or there is no such axis.")
               .c_str());
  m.def(
      "repeat",
      [](const Tensor& t, const py::Args<ShapeLike>& repeats) {
        return repeat(t, shape_from(repeats));
      },
      a,
      tensor_doc(
          "A copy of the whole, repeats[i] times along axis i.",
          {kAnyShape, "repeats: a list of numbers, or several numbers, at least one an axis."},
          kNew, "InvalidArgumentError: fewer numbers than axes, or a negative one.")
          .c_str());
  m.def("tril", given(&tril), a, py::arg("diagonal") = 0, ReleaseGil(),
        tensor_doc("The lower triangle; 0 above a diagonal.",
                   {"a: a Tensor [..., m, n].", "diagonal: 0 is the main one, 1 the one above."},
                   "A new Tensor of that shape.", "InvalidArgumentError: fewer than two axes.")
            .c_str());
  m.def("triu", given(&triu), a, py::arg("diagonal") = 0, ReleaseGil(),
        tensor_doc("The upper triangle; 0 below a diagonal.",
                   {"a: a Tensor [..., m, n].", "diagonal: 0 is the main one, 1 the one above."},
                   "A new Tensor of that shape.", "InvalidArgumentError: fewer than two axes.")
            .c_str());
}

}  // namespace hvd::python
