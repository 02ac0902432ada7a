// What ranks share before they train, and the wrapped optimizer.

#include <algorithm>
#include <cstring>

#include "bindings/native/distributed/distributed.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/gradients/setup_agreement.h"
#include "horovod_cpp/distributed/session/rank_zero_section.h"

namespace hvd::python {
namespace {

Bytes bytes_from(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(first, first + text.size());
}

py::bytes to_python(const Bytes& bytes) {
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// The exception that is on its way is the caller's own; the other ranks get its words.
void refuse(const std::string& why, Given<int> root_rank, const PythonProcessSet& set) {
  without_gil([&] { refuse_parameters(why, root_rank, set.registered()); });
}

NamedTensors writable_state(const StateLike& state, Given<int> root_rank,
                            const PythonProcessSet& set) {
  try {
    return named_tensors_from(state, &writable_tensor_from);
  } catch (const py::error_already_set&) {
    throw;  // such as Ctrl-C
  } catch (const std::exception& error) {
    refuse(error.what(), root_rank, set);
    throw;
  }
}

constexpr Arg kRootRank{"root_rank", "a rank of the job."};

void bind_state(py::module_& m) {
  define(
      m, "broadcast_parameters",
      [](const StateLike& state, Given<int> root_rank, const PythonProcessSet& set) {
        const NamedTensors tensors = writable_state(state, root_rank, set);
        without_gil([&] { broadcast_parameters(tensors, root_rank, set.registered()); });
      },
      "Overwrite every tensor with the values of rank ``root_rank``; collective.",
      Arg("state",
          "a state dict or pairs (name, Tensor, NumPy array or another library's with DLPack), "
          "the\n"
          "        same names, shapes and dtypes in the same order on every rank."),
      kRootRank = 0, process_set_arg(m),
      ArgText{"process_set: the ranks that take part; ``root_rank`` is one of them."},
      Invalid{"an array is read-only, or its elements overlap; the other ranks get a\n"
              "        MismatchError."},
      Raises{"MismatchError: they are not the same; raised on every rank, naming the first "
             "difference, before\n        anything was sent."});
  m.def("_refuse_parameters", &refuse, py::arg("why"), py::arg("root_rank"), process_set_arg(m));
  define(
      m, "broadcast_optimizer_state",
      [](optim::Optimizer& optimizer, Given<int> root_rank, const PythonProcessSet& set) {
        without_gil([&] { broadcast_optimizer_state(optimizer, root_rank, set.registered()); });
      },
      R"(Make options (learning rates and so on) and state those of rank ``root_rank``; collective.

Takes no step. Missing state is created, surplus state is dropped; the root's stays bit for bit.)",
      Arg("optimizer", "also one that is written in Python, or a DistributedOptimizer."),
      kRootRank = 0, process_set_arg(m), ArgText{"process_set: the ranks that take part."},
      Raises{"MismatchError: the parameter groups differ from the root's; raised on every rank."});
  m.def(
      "_broadcast_bytes",
      [](const py::bytes& bytes, Given<int> root_rank, const std::string& name,
         const PythonProcessSet& set) {
        Bytes object = bytes_from(std::string_view(bytes));
        return to_python(without_gil([&] {
          return broadcast_object(std::move(object), root_rank, name, set.registered());
        }));
      },
      py::arg("object"), py::arg("root_rank"), py::arg("name"), py::arg("process_set"));
  m.def(
      "_allgather_bytes",
      [](const py::bytes& bytes, const std::string& name, const PythonProcessSet& set) {
        const Bytes object = bytes_from(std::string_view(bytes));
        const std::vector<Bytes> all =
            without_gil([&] { return allgather_object(object, name, set.registered()); });
        py::typing::List<py::bytes> list;
        for (const Bytes& one : all) list.append(to_python(one));
        return list;
      },
      py::arg("object"), py::arg("name"), py::arg("process_set"));
}

void bind_section(py::module_& m) {
  py::class_<RankZeroSection>(m, "_RankZeroSection")
      .def(py::init([](Number timeout, const PythonProcessSet& set) {
             if (!(timeout > 0)) {
               throw InvalidArgumentError("rank_zero_section: a timeout of " +
                                          std::to_string(timeout) + " s must be above 0");
             }
             constexpr double kForever = 1e9;  // seconds
             const auto limit = std::chrono::duration_cast<Duration>(
                 std::chrono::duration<double>(std::min(timeout.value, kForever)));
             return std::make_unique<RankZeroSection>(limit, set.registered());
           }),
           py::arg("timeout"), py::arg("process_set"))
      .def_property_readonly("mine", &RankZeroSection::mine)
      .def("finish", &RankZeroSection::finish, ReleaseGil())
      .def("fail", &RankZeroSection::fail, py::arg("error"), ReleaseGil())
      .def("abandon", &RankZeroSection::abandon, ReleaseGil());
}

using GroupsLike = Typed<"int | collections.abc.Sequence[collections.abc.Sequence[Tensor]] | None">;

void set_groups(const GroupsLike& groups, DistributedOptions& options) {
  if (groups.is_none() || load_option(options.num_groups, groups, /*convert=*/true)) return;
  if (load_option(options.groups, groups, /*convert=*/true)) return;
  refuse_option("groups", "a number of groups, lists of parameters or None", groups);
}

std::shared_ptr<DistributedOptimizer> make_optimizer(
    const Option<std::shared_ptr<optim::Optimizer>, "optimizer">& optimizer,
    const MaybeState& named_parameters, const CompressionLike& compression,
    const Option<int, "backward_passes_per_step">& backward_passes_per_step, ReduceOpLike op,
    const Option<double, "gradient_predivide_factor">& gradient_predivide_factor,
    const GroupsLike& groups, const PythonProcessSet& set,
    Flag<"average_aggregated_gradients"> average_aggregated_gradients,
    const Option<std::optional<double>, "clip_grad_norm">& clip_grad_norm,
    const Option<std::string, "clip_when">& clip_when,
    Flag<"gradient_as_bucket_view"> gradient_as_bucket_view, Flag<"overlap_step"> overlap_step,
    Flag<"sparse_as_dense"> sparse_as_dense) {
  NamedTensors named;
  if (!named_parameters.is_none()) {
    named = named_tensors_from(named_parameters);
    if (named.empty()) {
      throw InvalidArgumentError(
          "DistributedOptimizer: named_parameters is empty; pass model.named_parameters(), or None "
          "to number the parameters");
    }
  }
  DistributedOptions options;
  options.op = op;
  options.compression = compression_from(compression);
  options.backward_passes_per_step = backward_passes_per_step;
  options.average_aggregated_gradients = average_aggregated_gradients;
  options.gradient_predivide_factor = gradient_predivide_factor;
  set_groups(groups, options);
  options.clip_grad_norm = clip_from(clip_grad_norm, clip_when);
  options.gradient_as_bucket_view = gradient_as_bucket_view;
  options.overlap_step = overlap_step;
  options.sparse_as_dense = sparse_as_dense;
  options.process_set = set.registered();
  return std::make_shared<DistributedOptimizer>(*optimizer, std::move(named), std::move(options));
}

constexpr const char* kOptimizerDoc =
    R"(Decorates an optimizer: gradients are reduced over all ranks before each update.

When backward() has finished a parameter's gradient, its reduction starts while the rest of
backward() still runs; step() waits for all of them and lets the wrapped optimizer update. Over one
rank it only forwards. Used by the thread that calls backward().)";

py::classh<DistributedOptimizer, optim::Optimizer> optimizer_class(py::module_& m) {
  return define_class<DistributedOptimizer, optim::Optimizer>(
      m, "DistributedOptimizer", kOptimizerDoc, py::init(&make_optimizer),
      Arg("optimizer", "the optimizer to wrap."),
      Arg("named_parameters",
          "pairs (name, Tensor) or a dict that name every parameter; None numbers them.") =
          py::none(),
      Arg("compression", "how gradients travel; see Compression.") = py::none(),
      Arg("backward_passes_per_step",
          "gradients are summed over this many passes before they are reduced. A\n"
          "        step() after fewer reduces what is there.") = 1,
      Arg("op",
          "how gradients are combined. Adasum combines the changes that the wrapped optimizer "
          "makes.") = ReduceOp::kAverage,
      Arg("gradient_predivide_factor",
          "with Average, gradients are divided by it before the sum and\n"
          "        multiplied by it afterwards.") = 1.0,
      Arg("groups",
          "gradients that are reduced together: a number of groups, or lists of parameters.") =
          py::none(),
      process_set_arg(m),
      ArgText{"process_set: the ranks to reduce over; a rank outside trains on its own."},
      py::kw_only(),
      Arg("average_aggregated_gradients",
          "divide the sum over passes by the number of passes it has.") = false,
      Arg("clip_grad_norm", "largest joint L2 norm of the gradients; None = no clipping.") =
          py::none(),
      Arg("clip_when", "\"after\" the reduction, or \"before\" it (each rank's own gradients).") =
          "after",
      Arg("gradient_as_bucket_view",
          "from the second step on gradients lie in memory that the ranks of a host\n"
          "        share, which changes no bit, or on a GPU in NCCL's, and are reduced where they "
          "are; all ranks\n        make the optimizer. Where there is none they are packed.\n"
          "        ``param.grad.numpy()`` is a view of that memory and keeps it.") = true,
      Arg("overlap_step",
          "step() updates each parameter as soon as its gradient is reduced, which changes no\n"
          "        bit. Not with clip_grad_norm or Adasum.") = false,
      Arg("sparse_as_dense",
          "make gradients of rows (of an Embedding with ``sparse``) dense before they are\n"
          "        reduced. Else, with Average and Sum, the ranks gather rows and values, not "
          "compressed.") = false,
      Invalid{"before init(), names repeat or miss a parameter, or options are out of\n"
              "        range or exclude each other."},
      Raises{"MismatchError: by the first step(), on every rank: the ranks differ in parameters' "
             "names, in\n        groups or in backward_passes_per_step. If only values differ, one "
             "rank warns."},
      Raises{"UnsupportedError: a parameter lies on a GPU, and the job has no collectives of GPUs, "
             "or this\n        rank's run on another one."});
}

void bind_optimizer(py::module_& m) {
  py::class_<GuardContext>(m, "_Guard")
      .def("__enter__", &GuardContext::enter, "Begin.")
      .def(
          "__exit__", [](GuardContext& self, const py::Args<py::object>&) { self.exit(); }, "End.");
  optimizer_class(m)
      .def("synchronize", &DistributedOptimizer::synchronize, ReleaseGil(),
           "Wait until every gradient is reduced (and clipped, if that is an option). Call it "
           "before reading or\nclipping gradients; calling it again before the next backward() "
           "does nothing.")
      .def("skip_synchronize",
           &guard_of<DistributedOptimizer, &DistributedOptimizer::skip_synchronize>,
           "Context manager in which step() does not synchronize: call synchronize(), change the "
           "gradients,\nthen step inside it.")
      .def("no_sync", &guard_of<DistributedOptimizer, &DistributedOptimizer::no_sync>,
           "Context manager in which backward() only accumulates on this rank; the first pass "
           "after it, or\nstep(), reduces the sum.")
      .def_property_readonly("backward_passes_per_step",
                             &DistributedOptimizer::backward_passes_per_step,
                             "Passes of backward() whose gradients are reduced together.")
      .def(
          "set_backward_passes_per_step",
          [](DistributedOptimizer& self, const Option<int, "passes">& passes) {
            self.set_backward_passes_per_step(passes);
          },
          py::arg("passes"), ReleaseGil(),
          "``passes`` from the next step on; collective. "
          "InvalidArgumentError unless at\nleast 1; MismatchError, on every rank, if the ranks "
          "give "
          "different numbers.");
}

// As Python's own warnings, at the user's line.
void warn_in_python(const std::string& text) {
  in_python([&] { py::module_::import("horovod_cpp.call_site").attr("warn")(text); });
}

}  // namespace

std::optional<ClipGradNorm> clip_from(const std::optional<double>& max_norm,
                                      const std::string& when) {
  if (when != "after" && when != "before") {
    throw InvalidArgumentError("DistributedOptimizer: clip_when is '" + when +
                               "'; expected 'before' or 'after' (the reduction)");
  }
  if (!max_norm) return std::nullopt;
  return ClipGradNorm{*max_norm, when == "before" ? ClipGradNorm::When::kBeforeReduction
                                                  : ClipGradNorm::When::kAfterReduction};
}

void bind_training(py::module_& m) {
  set_warning_handler(&warn_in_python);
  bind_state(m);
  bind_section(m);
  bind_optimizer(m);
  bind_reducer(m);
}

}  // namespace hvd::python
