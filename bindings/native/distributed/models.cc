#include <memory>
#include <string>
#include <utility>

#include "bindings/native/distributed/distributed.h"
#include "bindings/native/nn/nn.h"
#include "horovod_cpp/distributed/data_parallel.h"
#include "horovod_cpp/distributed/distributed_data_parallel.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/sync_batch_norm.h"

// What trains a whole module over ranks or threads.
namespace hvd::python {
namespace {

void bind_sync_batch_norm(py::module_& m) {
  auto norm = define_layer<SyncBatchNorm>(
      m, "SyncBatchNorm", R"(BatchNorm over the joined batch of all ranks.

Takes [n, num_features, ...] of float32 or float64. In training, outputs, gradients and running
statistics are those of BatchNorm over the joined batch within rounding, however unevenly its
examples lie on the ranks. forward and backward communicate, once each: all ranks of the set make
both, in the same order. Evaluation does not. Gradients of weight and bias are this rank's own, like
all others.)",
      py::init([](const Option<std::int64_t, "num_features">& num_features,
                  const Option<double, "eps">& eps,
                  const Option<std::optional<double>, "momentum">& momentum, Flag<"affine"> affine,
                  Flag<"track_running_stats"> track_running_stats, const PythonProcessSet& set) {
        return std::make_shared<SyncBatchNorm>(
            num_features, nn::BatchNormOptions{eps, *momentum, affine, track_running_stats},
            set.registered());
      }),
      kNumFeatures, Arg("eps", "added to the variance.") = 1e-5, kStatisticsMomentum = 0.1,
      kAffine = true, kTrackRunningStats = true, process_set_arg(m),
      ArgText{"process_set: the ranks whose batches are joined."});
  norm.def_static(
      "convert_sync_batchnorm",
      [](const ModuleT& module, const PythonProcessSet& set) {
        if (!py::isinstance<nn::Module>(module)) refuse_option("module", "a Module", module);
        SyncBatchNorm::convert_sync_batchnorm(module.cast<nn::Module&>(), set.registered());
        return module;
      },
      py::arg("module"), process_set_arg(m),
      R"(Let every BatchNorm in ``module`` train on the statistics of all ranks, in place.

Args:
    module: a Module; parameters, buffers, names and classes stay: a BatchNorm2d is one still.
    process_set: the ranks whose batches are joined.

Returns:
    ``module``.)");
  def_batch_norm_state(norm);
}

// The output, or each Tensor of a tuple, list or dict of outputs.
py::object finish(DistributedDataParallel& self, const py::object& output) {
  if (py::isinstance<Tensor>(output)) return py::cast(self.finish_forward(output.cast<Tensor>()));
  if (py::isinstance<py::dict>(output)) {
    py::dict finished;
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(output)) {
      finished[key] = finish(self, py::reinterpret_borrow<py::object>(value));
    }
    return finished;
  }
  const bool is_tuple = PyTuple_CheckExact(output.ptr()) != 0;
  if (!is_tuple && !py::isinstance<py::list>(output)) return output;
  py::list finished;
  for (const py::handle part : output) {
    finished.append(finish(self, py::reinterpret_borrow<py::object>(part)));
  }
  return is_tuple ? py::object(py::tuple(finished)) : py::object(finished);
}

// The module may be a Python one, with any arguments and outputs.
Anything call_distributed(const py::object& self, const py::Args<Anything>& args,
                          const py::KWArgs<Anything>& kwargs) {
  auto& ddp = self.cast<DistributedDataParallel&>();
  without_gil([&] { ddp.begin_forward(); });
  return finish(ddp, py::cast(ddp.module())(*args, **kwargs));
}

constexpr const char* kDistributedDoc =
    R"(A module whose gradients are averages over the ranks when backward() returns.

    model = hvd.DistributedDataParallel(Net())
    optimizer = hvd.optim.SGD(model.parameters(), lr=0.1)

Construction sends the first rank's parameters and buffers to the others. Gradients travel while the
rest of backward() runs. Parameters that a pass does not use count as zeros and need no option.
Every rank makes its instances in the same order and calls backward() equally often. Names in
state_dict() are those of the module inside, without PyTorch's prefix "module.". Do not wrap the
optimizer in a DistributedOptimizer as well.)";

void bind_distributed(py::module_& m) {
  using Ddp = DistributedDataParallel;
  define_layer<Ddp>(
      m, "DistributedDataParallel", kDistributedDoc,
      py::init([](const Option<std::shared_ptr<nn::Module>, "module">& module,
                  Flag<"broadcast_buffers"> broadcast_buffers,
                  Flag<"gradient_as_bucket_view"> gradient_as_bucket_view,
                  const Option<double, "bucket_cap_mb">& bucket_cap_mb,
                  const CompressionLike& compression, const PythonProcessSet& set) {
        DistributedDataParallelOptions options;
        options.broadcast_buffers = broadcast_buffers;
        options.gradient_as_bucket_view = gradient_as_bucket_view;
        options.bucket_cap_mb = bucket_cap_mb;
        options.compression = compression_from(compression);
        options.process_set = set.registered();
        const WithoutGil nogil;
        return std::make_shared<Ddp>(*module, std::move(options));
      }),
      Arg("module", "what to train; any arguments and outputs."), py::kw_only(),
      Arg("broadcast_buffers",
          "before each forward in training, buffers become those of the first rank.") = true,
      Arg("gradient_as_bucket_view",
          "from the third backward() on gradients lie in memory that the ranks\n        share and "
          "are reduced there, which changes no bit.") = true,
      Arg("bucket_cap_mb",
          "reduce gradients together in buckets of at most this many MiB; 0 lets the engine\n"
          "        pack what is ready at the same time.") = 0.0,
      Arg("compression", "how gradients travel; see Compression.") = py::none(), process_set_arg(m),
      ArgText{"process_set: the ranks that train together."},
      Raises{"MismatchError: modules differ in names, shapes or dtypes."},
      Invalid{"before init(), or an option is out of range."})
      .def("forward", &call_distributed, "What the module returns for these arguments.")
      .def_property_readonly("module", &Ddp::module, "The module inside.")
      .def(
          "no_sync", &guard_of<Ddp, &Ddp::no_sync>,
          "Context manager in which backward() only accumulates on this rank; the first pass after "
          "it\nreduces the sum.");
}

void bind_parallel(py::module_& m) {
  define_layer<DataParallel>(
      m, "DataParallel", R"(A module that runs on threads of this process.

The batch is cut along axis 0, of n rows and k replicas the first n % k get one more; outputs are
joined in the same order. There is one module, which all threads run at the same time; gradients of
the replicas are added up in their order, so that equal runs give equal bits. Batch normalisation
sees its replica's rows; running statistics are those of replica 0. Modules written in Python run
one at a time where they hold the GIL. Needs no init().)",
      py::init([](const Option<std::shared_ptr<nn::Module>, "module">& module,
                  const Option<int, "replicas">& replicas) {
        return std::make_shared<DataParallel>(*module, replicas);
      }),
      Arg("module", "takes and returns one Tensor with a row for each example."),
      Arg("replicas", "how many threads, at least 1."),
      Invalid{"replicas is below 1. A call raises what a replica did, with the replica\n"
              "        and its rows before the message."})
      .def_property_readonly("module", &DataParallel::module, "The module inside.")
      .def_property_readonly("replicas", &DataParallel::replicas, "How many threads.");
}

using ModuleOrParams = Typed<"Module | collections.abc.Iterable[Tensor]">;

void bind_average(py::module_& m) {
  define(
      m, "average_gradients",
      [](const ModuleOrParams& module, ReduceOpLike op, const CompressionLike& compression,
         const std::string& name, const PythonProcessSet& set) {
        const auto params = py::isinstance<nn::Module>(module)
                                ? module.cast<const nn::Module&>().parameters()
                                : py::list(module).cast<std::vector<Tensor>>();
        const AllreduceOptions options{.op = op,
                                       .name = name,
                                       .compression = compression_from(compression),
                                       .process_set = set.registered()};
        without_gil([&] { average_gradients(params, options); });
      },
      R"(Replace every gradient there is by its average over the ranks, all as one group.

For loops that reduce by hand, between backward() and step(). Parameters without a gradient are
skipped, so all ranks must have gradients for the same ones.)",
      Arg("module", "a Module, or an iterable of parameters of any shape."), py::kw_only(),
      Arg("op", "how gradients are combined.") = ReduceOp::kAverage,
      Arg("compression", "how gradients travel; see Compression.") = py::none(),
      Arg("name", "pairs this call across ranks.") = "average_gradients", process_set_arg(m),
      ArgText{"process_set: the ranks."},
      Raises{"MismatchError: ranks have gradients for different parameters."});
}

}  // namespace

void bind_whole_models(py::module_& m) {
  bind_sync_batch_norm(m);
  bind_distributed(m);
  bind_parallel(m);
  bind_average(m);
}

}  // namespace hvd::python
