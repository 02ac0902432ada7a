// Gradients that are zero but for some rows.
#include "bindings/native/distributed/distributed.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/collectives/collectives.h"

namespace hvd::python {
namespace {

PendingResult sparse_allreduce_async(const RowGradient& gradient, const MaybeName& name,
                                     ReduceOpLike op, Number prescale, Number postscale,
                                     const PythonProcessSet& set) {
  const ReduceOptions options = {op, name.value_or(""), prescale, postscale, set.registered()};
  return {without_gil([&] {
            return AsyncResult<std::vector<Tensor>>(start_sparse_allreduce(gradient, options));
          }),
          [](const CallResult& result) { return py::cast(row_gradient_of(result)); }};
}

constexpr const char* kReduceDoc = R"(Add up or average a RowGradient over all ranks, as Horovod.

The ranks gather row numbers and values, so that what travels grows with the rows that were read,
not with the table.

Args:
    gradient: ``rows`` int64 [k], ``values`` [k, ...] of a floating dtype; k may differ by rank and
        be 0.
    name: pairs this call across ranks; None numbers it.
    op: Average (over the ranks that have not joined) or Sum.
    prescale_factor: factor of the values before the sum.
    postscale_factor: factor of the result.
    process_set: the ranks among which the call runs.

Returns:
    A RowGradient with each row once, ascending, bitwise equal on every rank; the async form a
    handle for poll() and synchronize().

Raises:
    InvalidArgumentError: another ``op``, or shapes or dtypes that are no rows and their values.
    MismatchError: ranks disagree on dtype or on the shape of a row, or some passed a dense tensor to
        allreduce() under this name ("collective: allreduce on rank 0, allgather on rank 1").)";

void bind_row_gradient(py::module_& m) {
  py::class_<RowGradient>(
      m, "RowGradient",
      R"(A gradient that is zero but for some rows: what an Embedding with ``sparse`` leaves at its weight.

Args:
    rows: positions on the first axis, int64 [k].
    values: a row of the leaf's shape for each, [k, ...].)")
      .def(py::init([](const Tensor& rows, const Tensor& values) {
             return RowGradient{rows, values};
           }),
           py::arg("rows"), py::arg("values"))
      .def_readonly("rows", &RowGradient::rows, "Positions on the first axis, int64 [k].")
      .def_readonly("values", &RowGradient::values, "A row of the leaf's shape for each, [k, ...].")
      .def("__repr__", [](const RowGradient& self) {
        return "RowGradient(rows=" + to_string(self.rows.shape()) +
               ", values=" + to_string(self.values.shape()) + ")";
      });
  m.def("row_gradient", &row_gradient, py::arg("leaf"),
        "The gradient of ``leaf`` as a RowGradient (rows [k], values [k, ...]) if it is one of "
        "rows, else None. Reading ``leaf.grad`` makes it dense. Raises no error.");
}

}  // namespace

void bind_sparse(py::module_& m) {
  bind_row_gradient(m);
  const auto def = [&](const char* name, auto function) {
    m.def(name, function, py::arg("gradient"), py::arg("name") = py::none(),
          py::arg("op") = ReduceOp::kAverage, py::arg("prescale_factor") = 1.0,
          py::arg("postscale_factor") = 1.0, process_set_arg(m), kReduceDoc);
  };
  def("sparse_allreduce_async", &sparse_allreduce_async);
  def("sparse_allreduce", waiting<Typed<"RowGradient">>(&sparse_allreduce_async));
}

}  // namespace hvd::python
