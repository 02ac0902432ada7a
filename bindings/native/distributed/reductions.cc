// Collectives that compute: allreduce, reduce, reducescatter.

#include <optional>

#include "bindings/native/distributed/distributed.h"
#include "core/negotiate/messages/request.h"
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

PendingResult allreduce_async(const ArrayT& tensor, ReduceOpLike op, const MaybeName& name,
                              Number prescale, Number postscale, const CompressionLike& compression,
                              const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = allreduce_options(op, name, prescale, postscale, compression, set);
  return {without_gil([&] { return hvd::allreduce_async(input.tensor, options); }),
          one_like(input)};
}

PendingResult allreduce_async_(const ArrayT& tensor, ReduceOpLike op, const MaybeName& name,
                               Number prescale, Number postscale,
                               const CompressionLike& compression, const PythonProcessSet& set) {
  const Tensor target = target_from(tensor);
  const auto options = allreduce_options(op, name, prescale, postscale, compression, set);
  return {without_gil([&] { return hvd::allreduce_async_(target, options); }), itself(tensor)};
}

PendingResult grouped_allreduce_async(const ArraysT& tensors, ReduceOpLike op,
                                      const MaybeName& name, Number prescale, Number postscale,
                                      const CompressionLike& compression,
                                      const PythonProcessSet& set) {
  const InputList inputs(tensors);
  const auto options = allreduce_options(op, name, prescale, postscale, compression, set);
  return {without_gil([&] { return hvd::grouped_allreduce_async(inputs.tensors, options); }),
          inputs.all_like()};
}

PendingResult grouped_allreduce_async_(const ArraysT& tensors, ReduceOpLike op,
                                       const MaybeName& name, Number prescale, Number postscale,
                                       const CompressionLike& compression,
                                       const PythonProcessSet& set) {
  const std::vector<Tensor> targets = targets_from(tensors);
  const auto options = allreduce_options(op, name, prescale, postscale, compression, set);
  return {without_gil([&] { return hvd::grouped_allreduce_async_(targets, options); }),
          itself(tensors)};
}

PendingResult reduce_async(const ArrayT& tensor, Given<int> root_rank, ReduceOpLike op,
                           const MaybeName& name, Number prescale, Number postscale,
                           const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = reduce_options(op, name, prescale, postscale, set);
  return {without_gil([&] { return hvd::reduce_async(input.tensor, root_rank, options); }),
          one_like(input)};
}

PendingResult reducescatter_async(const ArrayT& tensor, ReduceOpLike op, const MaybeName& name,
                                  Number prescale, Number postscale, const PythonProcessSet& set) {
  const Input input(tensor);
  const auto options = reduce_options(op, name, prescale, postscale, set);
  return {without_gil([&] { return hvd::reducescatter_async(input.tensor, options); }),
          one_like(input)};
}

PendingResult grouped_reducescatter_async(const ArraysT& tensors, ReduceOpLike op,
                                          const MaybeName& name, Number prescale, Number postscale,
                                          const PythonProcessSet& set) {
  const InputList inputs(tensors);
  const auto options = reduce_options(op, name, prescale, postscale, set);
  return {without_gil([&] { return hvd::grouped_reducescatter_async(inputs.tensors, options); }),
          inputs.all_like()};
}

constexpr const char* kReductionDoc = R"(

``op`` is Average, Sum, Min, Max, Product, BitAnd, BitOr or (allreduce only) Adasum. float16 and bfloat16 accumulate
in float32; integer averages are truncated towards zero. The result is
``postscale_factor * reduction(prescale_factor * tensor)``; scales of integers are applied in
float64, then truncated.)";

void bind_allreduce(py::module_& m) {
  const std::string one =
      std::string("Reduce element by element over all ranks; bitwise equal on every rank.") +
      kReductionDoc + "\n\n``compression`` is how the elements travel: see Compression.";
  const auto def = [&](const char* name, auto function, const char* tensor,
                       const std::string& doc) {
    m.def(name, function, py::arg(tensor), py::arg("op") = ReduceOp::kAverage,
          py::arg("name") = py::none(), py::arg("prescale_factor") = 1.0,
          py::arg("postscale_factor") = 1.0, py::arg("compression") = py::none(),
          process_set_arg(m), doc.c_str());
  };
  def("allreduce_async", &allreduce_async, "tensor", one + kCollectiveDoc);
  def("allreduce", waiting<ArrayT>(&allreduce_async), "tensor", one + kCollectiveDoc);
  def("allreduce_async_", &allreduce_async_, "tensor", one + kInPlaceDoc);
  def("allreduce_", waiting<ArrayT>(&allreduce_async_), "tensor", one + kInPlaceDoc);
  def("grouped_allreduce_async", &grouped_allreduce_async, "tensors", one + kGroupedDoc);
  def("grouped_allreduce", waiting<ArrayList>(&grouped_allreduce_async), "tensors",
      one + kGroupedDoc);
  def("grouped_allreduce_async_", &grouped_allreduce_async_, "tensors", one + kGroupedInPlaceDoc);
  def("grouped_allreduce_", waiting<ArrayList>(&grouped_allreduce_async_), "tensors",
      one + kGroupedInPlaceDoc);
  m.def("_quoted", &quoted_name, py::arg("name"), "Such a name for people: \"'w' and 7 more\".");
}

void bind_reduce(py::module_& m) {
  const std::string doc =
      std::string("Reduce element by element to rank ``root_rank``; None on the others.") +
      kReductionDoc + kCollectiveDoc;
  const auto def = [&](const char* name, auto function) {
    m.def(name, function, py::arg("tensor"), py::arg("root_rank"),
          py::arg("op") = ReduceOp::kAverage, py::arg("name") = py::none(),
          py::arg("prescale_factor") = 1.0, py::arg("postscale_factor") = 1.0, process_set_arg(m),
          doc.c_str());
  };
  def("reduce_async", &reduce_async);
  def("reduce", waiting<MaybeArrayT>(&reduce_async));
}

void bind_reducescatter(py::module_& m) {
  const std::string one =
      std::string(
          "Reduce over all ranks and keep this rank's rows.\n\n"
          "The first axis is cut in rank order; of n rows and k ranks the first n % k ranks get "
          "one\nrow more.") +
      kReductionDoc;
  const auto def = [&](const char* name, auto function, const char* tensor,
                       const std::string& doc) {
    m.def(name, function, py::arg(tensor), py::arg("op") = ReduceOp::kAverage,
          py::arg("name") = py::none(), py::arg("prescale_factor") = 1.0,
          py::arg("postscale_factor") = 1.0, process_set_arg(m), doc.c_str());
  };
  def("reducescatter_async", &reducescatter_async, "tensor", one + kCollectiveDoc);
  def("reducescatter", waiting<ArrayT>(&reducescatter_async), "tensor", one + kCollectiveDoc);
  def("grouped_reducescatter_async", &grouped_reducescatter_async, "tensors", one + kGroupedDoc);
  def("grouped_reducescatter", waiting<ArrayList>(&grouped_reducescatter_async), "tensors",
      one + kGroupedDoc);
}

}  // namespace

void bind_reductions(py::module_& m) {
  bind_allreduce(m);
  bind_reduce(m);
  bind_reducescatter(m);
}

}  // namespace hvd::python
