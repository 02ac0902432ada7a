// Collectives that compute: allreduce, reduce, reducescatter.

#include "bindings/native/distributed/distributed.h"
#include "core/negotiate/messages/request.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/collectives/collectives.h"

namespace hvd::python {
namespace {

AllreduceOptions allreduce_options(ReduceOpLike op, const MaybeName& name, Number prescale,
                                   Number postscale, const CompressionLike& compression,
                                   const PythonProcessSet& set) {
  return {
      op, name.value_or(""), prescale, postscale, compression_from(compression), set.registered()};
}

ReduceOptions reduce_options(ReduceOpLike op, const MaybeName& name, Number prescale,
                             Number postscale, const PythonProcessSet& set) {
  return {op, name.value_or(""), prescale, postscale, set.registered()};
}

constexpr const char* kReductionDoc = R"(

``op`` is Average, Sum, Min, Max, Product, BitAnd, BitOr or (allreduce only) Adasum. float16 and bfloat16 accumulate
in float32; integer averages are truncated towards zero. The result is
``postscale_factor * reduction(prescale_factor * tensor)``; scales of integers are applied in
float64, then truncated.)";

// The arguments that all reductions have behind their tensors.
struct ReductionArgs {
  py::arg_v op = py::arg("op") = ReduceOp::kAverage;
  py::arg_v name = py::arg("name") = py::none();
  py::arg_v prescale = py::arg("prescale_factor") = 1.0;
  py::arg_v postscale = py::arg("postscale_factor") = 1.0;
};

void bind_allreduce(py::module_& m) {
  const std::string what =
      std::string("Reduce element by element over all ranks; bitwise equal on every rank.") +
      kReductionDoc + "\n\n``compression`` is how the elements travel: see Compression.";
  const auto define = [&](const char* name, auto start) {
    const auto [op, maybe_name, prescale, postscale] = ReductionArgs();
    define_collective(m, name, start, &allreduce_options, what, op, maybe_name, prescale, postscale,
                      py::arg("compression") = py::none());
  };
  define("allreduce", &hvd::allreduce_async);
  define("allreduce_", &hvd::allreduce_async_);
  define("grouped_allreduce", &hvd::grouped_allreduce_async);
  define("grouped_allreduce_", &hvd::grouped_allreduce_async_);
  m.def("_quoted", &engine::quoted_name, py::arg("name"),
        "Such a name, readable: \"'w' and 7 more\".");
}

void bind_reduce_and_scatter(py::module_& m) {
  const auto [op, name, prescale, postscale] = ReductionArgs();
  define_collective<MaybeArrayT>(
      m, "reduce", &hvd::reduce_async, &reduce_options,
      std::string("Reduce element by element to rank ``root_rank``; None on the others.") +
          kReductionDoc,
      py::arg("root_rank"), op, name, prescale, postscale);
  const std::string what =
      std::string(
          "Reduce over all ranks and keep this rank's rows.\n\n"
          "The first axis is cut in rank order; of n rows and k ranks the first n % k ranks get "
          "one\nrow more.") +
      kReductionDoc;
  define_collective(m, "reducescatter", &hvd::reducescatter_async, &reduce_options, what, op, name,
                    prescale, postscale);
  define_collective(m, "grouped_reducescatter", &hvd::grouped_reducescatter_async, &reduce_options,
                    what, op, name, prescale, postscale);
}

// -- gradients that are zero except for some rows

PendingResult sparse_allreduce_async(const RowGradient& gradient, const MaybeName& name,
                                     ReduceOpLike op, Number prescale, Number postscale,
                                     const PythonProcessSet& set) {
  const ReduceOptions options = {op, name.value_or(""), prescale, postscale, set.registered()};
  const auto handle = without_gil([&] { return hvd::sparse_allreduce_async(gradient, options); });
  return {GroupHandle(handle.call()), [handle](const CallResult&) {
            return py::cast(without_gil([&] { return handle.synchronize(); }));
          }};
}

void bind_row_gradient(py::module_& m) {
  py::class_<RowGradient>(
      m, "RowGradient",
      R"(A gradient that is zero except for some rows: what an Embedding with ``sparse`` leaves at its weight.

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

void bind_sparse(py::module_& m) {
  const auto name = Arg("name", "pairs this call across ranks; None numbers it.") = py::none();
  const auto op = Arg("op", "Average (over the ranks that have not joined) or Sum.") =
      ReduceOp::kAverage;
  const auto prescale = Arg("prescale_factor", "factor of the values before the sum.") = 1.0;
  const auto postscale = Arg("postscale_factor", "factor of the result.") = 1.0;
  constexpr Arg gradient{
      "gradient",
      "``rows`` int64 [k], ``values`` [k, ...] of a floating dtype; k may differ by rank and\n"
      "        be 0."};
  const std::string doc = docstring(
      R"(Add up or average a RowGradient over all ranks, as Horovod.

The ranks gather row numbers and values, so that what travels grows with the rows that were read,
not with the table.)",
      gradient, name, op, prescale, postscale,
      ArgText{"process_set: the ranks among which the call runs."},
      Returns{"A RowGradient with each row once, ascending, bitwise equal on every rank; the async "
              "form a\n    handle for poll() and synchronize()."},
      Invalid{"another ``op``, or shapes or dtypes that are no rows and their values."},
      Raises{
          "MismatchError: ranks disagree on dtype or on the shape of a row, or some passed a "
          "dense tensor to\n        allreduce() under this name (\"collective: allreduce on rank "
          "0, allgather on rank 1\")."});
  define_both<Typed<"RowGradient">>(m, "sparse_allreduce", std::function(&sparse_allreduce_async),
                                    doc, gradient, name, op, prescale, postscale,
                                    process_set_arg(m));
}

}  // namespace

void bind_reductions(py::module_& m) {
  bind_allreduce(m);
  bind_reduce_and_scatter(m);
  bind_row_gradient(m);
  bind_sparse(m);
}

}  // namespace hvd::python
