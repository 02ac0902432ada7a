// The wrapped optimizer, and what wraps those of other libraries.

#include <memory>
#include <optional>
#include <utility>

#include "bindings/native/distributed/distributed.h"
#include "bindings/native/numbers.h"
#include "bindings/native/types.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

namespace hvd::python {
namespace {

using GroupsLike = Typed<"int | collections.abc.Sequence[collections.abc.Sequence[Tensor]] | None">;

void set_groups(const GroupsLike& groups, DistributedOptions& options) {
  if (groups.is_none() || load_option(options.num_groups, groups, /*convert=*/true)) return;
  if (load_option(options.groups, groups, /*convert=*/true)) return;
  refuse_option("groups", "a number of groups, lists of parameters or None", groups);
}

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

// The options of every DistributedOptimizer, in the order of its arguments; checked.
DistributedOptions distributed_options(
    const CompressionLike& compression,
    const Option<int, "backward_passes_per_step">& backward_passes_per_step, ReduceOpLike op,
    const Option<double, "gradient_predivide_factor">& gradient_predivide_factor,
    const GroupsLike& groups, const PythonProcessSet& set,
    Flag<"average_aggregated_gradients"> average_aggregated_gradients,
    const Option<std::optional<double>, "clip_grad_norm">& clip_grad_norm,
    const Option<std::string, "clip_when">& clip_when,
    Flag<"gradient_as_bucket_view"> gradient_as_bucket_view, Flag<"overlap_step"> overlap_step,
    Flag<"sparse_as_dense"> sparse_as_dense) {
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
  check_options(options);
  return options;
}

template <typename... Options>
auto make_optimizer(DistributedOptions (*options_of)(Options...)) {
  return [options_of](const Option<std::shared_ptr<optim::Optimizer>, "optimizer">& optimizer,
                      const MaybeState& named_parameters, Options... options) {
    NamedTensors named;
    if (!named_parameters.is_none()) {
      named = named_tensors_from(named_parameters);
      if (named.empty()) {
        throw InvalidArgumentError(
            "DistributedOptimizer: named_parameters is empty; pass model.named_parameters(), or "
            "None to number the parameters");
      }
    }
    return std::make_shared<DistributedOptimizer>(*optimizer, std::move(named),
                                                  options_of(std::forward<Options>(options)...));
  };
}

constexpr const char* kOptimizerDoc =
    R"(Decorates an optimizer: gradients are reduced over all ranks before each update.

When backward() has finished a parameter's gradient, its reduction starts while the rest of
backward() still runs; step() waits for all of them and lets the wrapped optimizer update. Over one
rank it only forwards. Used by the thread that calls backward().)";

py::classh<DistributedOptimizer, optim::Optimizer> optimizer_class(py::module_& m) {
  return define_class<DistributedOptimizer, optim::Optimizer>(
      m, "DistributedOptimizer", kOptimizerDoc, py::init(make_optimizer(&distributed_options)),
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
          "        reduced. Otherwise, with Average and Sum, the ranks gather rows and values, not "
          "compressed.") = false,
      Raises{"TypeError: an option is of a wrong type."},
      Invalid{"before init(), names repeat or miss a parameter, or options are out of\n"
              "        range or exclude each other."},
      Raises{"MismatchError: by the first step(), on every rank: the ranks differ in parameters' "
             "names, in\n        groups or in backward_passes_per_step. If only values differ, one "
             "rank warns."},
      Raises{"UnsupportedError: a parameter lies on a GPU, and the job has no collectives of GPUs, "
             "or this\n        rank's run on another one."});
}

void bind_distributed_optimizer(py::module_& m) {
  py::class_<GuardContext>(m, "_Guard")
      .def("__enter__", &GuardContext::enter, "Begin.")
      .def(
          "__exit__", [](GuardContext& self, const py::Args<py::object>&) { self.exit(); }, "End.");
  optimizer_class(m)
      .def("synchronize", &DistributedOptimizer::synchronize, ReleaseGil(),
           "Wait until every gradient is reduced (and clipped, if that is an option). Collective. "
           "Call it before\nreading or clipping gradients; a second call before the next "
           "backward() changes nothing, but all\nranks have to make it.")
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

// -- GradientReducer for front ends in Python, such as horovod_cpp.torch

std::vector<std::size_t> copied(GradientAccess::Indices indices) {
  return {indices.begin(), indices.end()};
}

// A front end's object that has GradientAccess's members as methods; those of one parameter are
// methods of its `entries`.
class PythonGradients final : public GradientAccess {
 public:
  // `active`: needs_reducer(); else the reducer need not know of parameters.
  PythonGradients(const py::handle& front, bool active) : front_(front), active_(active) {
    read_parameters();
  }

  py::object front() const { return front_.get(); }
  bool active() const { return active_; }

  // Its parameters() again: (name, shape, dtype, number of the CUDA device or None, id) for each.
  void read_parameters() {
    if (!active_) return;
    parameters_.clear();
    for (const py::handle each : front_.get().attr("parameters")()) {
      const auto row = py::reinterpret_borrow<py::tuple>(each);
      Device device;
      if (!row[3].is_none()) device = {DeviceKind::kCuda, row[3].cast<int>()};
      parameters_.push_back({row[0].cast<std::string>(), row[1].cast<Shape>(),
                             parse_dtype(row[2].cast<std::string>()), device,
                             reinterpret_cast<const void*>(row[4].cast<std::uintptr_t>())});
    }
  }

  const std::vector<GradientParameter>& parameters() const override { return parameters_; }
  std::vector<bool> trained() const override { return ask<std::vector<bool>>("trained"); }
  std::string options() const override { return ask<std::string>("options"); }
  Tensor value(std::size_t index) const override { return ask<Tensor>("value", index); }
  bool take(Indices which, bool sends, std::vector<CallTensor>& tensors) override {
    using Taken = std::pair<std::vector<std::optional<Tensor>>, bool>;
    auto [taken, new_sparse] = ask<Taken>("take", copied(which), sends);
    for (auto& each : taken) tensors.push_back({.input = each ? std::move(*each) : Tensor()});
    return new_sparse;
  }
  void arrived(Indices which) override { tell("arrived", copied(which)); }
  void make_room(std::size_t index) override { tell_entry(index, "make_room"); }
  void set_aside(Indices which) override { tell("set_aside", copied(which)); }
  void give_back(Indices which) override { tell("give_back", copied(which)); }
  void drop(Indices which) override { tell("drop", copied(which)); }
  void leave(Indices which) override { tell("leave", copied(which)); }
  void close_window(std::size_t index, int passes) override {
    tell_entry(index, "close_window", passes);
  }
  void average(std::size_t index, int passes) override { tell_entry(index, "average", passes); }
  void clip(Indices which, double max_norm) override { tell("clip", copied(which), max_norm); }
  void move_to(std::size_t index, Tensor memory) override { tell_entry(index, "move_to", memory); }
  std::vector<std::int64_t> sparse_axes() const override {
    return ask<std::vector<std::int64_t>>("sparse_axes");
  }
  void set_sparse_axes(std::span<const std::int64_t> axes) override {
    tell("set_sparse_axes", std::vector<std::int64_t>(axes.begin(), axes.end()));
  }
  std::shared_ptr<CallInFlight> start_sparse(std::size_t index,
                                             const ReduceOptions& call) override {
    return in_python([&] {
      const PythonProcessSet set(call.process_set);
      return entry(index)
          .attr("start_sparse")(call.name, call.op, set)
          .template cast<PendingResult&>()
          .call();
    });
  }
  void finish_sparse(std::size_t index) override { tell_entry(index, "finish_sparse"); }
  void after_backward(std::function<void()> function) override {
    in_python([&] {
      front_.get().attr("after_backward")(py::cpp_function([function = std::move(function)] {
        const WithoutGil nogil;
        function();
      }));
    });
  }
  MaybeStream reader(const Device& device) const override {
    return ask<std::uintptr_t>("reader", device.index);
  }

 private:
  template <typename Answer, typename... Args>
  Answer ask(const char* method, const Args&... args) const {
    return in_python([&] { return front_.get().attr(method)(args...).template cast<Answer>(); });
  }
  template <typename... Args>
  void tell(const char* method, const Args&... args) {
    in_python([&] { front_.get().attr(method)(args...); });
  }

  py::object entry(std::size_t index) const {
    return front_.get().attr("entries")[py::int_(index)];
  }
  template <typename... Args>
  void tell_entry(std::size_t index, const char* method, const Args&... args) {
    in_python([&] { entry(index).attr(method)(args...); });
  }

  const SharedObject front_;
  const bool active_;
  std::vector<GradientParameter> parameters_;
};

using OnReducedLike = Typed<"collections.abc.Callable[[list[int]], None] | None">;

// The reducer and what it reads gradients through.
class PythonReducer : public std::enable_shared_from_this<PythonReducer> {
 public:
  PythonReducer(const py::handle& front, const DistributedOptions& options,
                const GradientBuckets& groups)
      : gradients_(std::make_shared<PythonGradients>(front, needs_reducer(options))) {
    const WithoutGil nogil;
    reducer_ = std::make_unique<GradientReducer>(gradients_, options, groups);
  }

  GradientReducer& get() { return *reducer_; }
  const PythonGradients& gradients() const { return *gradients_; }
  void parameters_added() {
    gradients_->read_parameters();
    const WithoutGil nogil;
    reducer_->parameters_added();
  }
  void set_backward_passes_per_step(const Option<int, "backward_passes_per_step">& passes) {
    check_options({.backward_passes_per_step = passes});
    const WithoutGil nogil;
    reducer_->set_backward_passes_per_step(passes);
  }
  void synchronize(const OnReducedLike& on_reduced) {
    GradientReducer::OnReduced tell;
    if (!on_reduced.is_none()) {
      tell = [&](GradientAccess::Indices params) {
        in_python([&] { on_reduced(copied(params)); });
      };
    }
    const WithoutGil nogil;
    reducer_->synchronize(tell);
  }

 private:
  std::shared_ptr<PythonGradients> gradients_;
  std::unique_ptr<GradientReducer> reducer_;
};

template <typename... Options>
auto make_reducer(DistributedOptions (*options_of)(Options...)) {
  return [options_of](const Anything& front, const GradientBuckets& buckets, Options... options) {
    return std::make_shared<PythonReducer>(front, options_of(std::forward<Options>(options)...),
                                           buckets);
  };
}

// What PyTorch calls at each gradient. Python's lock is released only where something is submitted.
struct GradientHook {
  std::weak_ptr<PythonReducer> reducer;  // optimizers end although their parameters live
  std::size_t index = 0;
  bool after = false;  // backward() has finished the gradient; before: it is about to add to it

  void operator()() const {
    const std::shared_ptr<PythonReducer> alive = reducer.lock();
    if (alive == nullptr) return;
    if (!after) return alive->get().before_gradient(index);
    if (!alive->get().count_gradient(index)) return;
    const WithoutGil nogil;
    alive->get().start_ready();
  }
};

// What does not wait keeps Python's lock, without a ReleaseGil(): to take it again may last long
// where threads compute.
template <auto Member>
auto of_reducer() {
  return [](PythonReducer& self) { return (self.get().*Member)(); };
}

void bind_reducer(py::module_& m) {
  using Reducer = GradientReducer;
  py::class_<GradientHook>(m, "_GradientHook", "Of a parameter, for PyTorch.")
      .def("__call__", [](const GradientHook& self, const py::Args<Anything>&) { self(); })
      // As PyTorch's unserializable_hook() marks functions: no warning when parameters are pickled.
      .def_property_readonly("__torch_unserializable__", [](const GradientHook&) { return true; });
  py::class_<PythonReducer, std::shared_ptr<PythonReducer>>(
      m, "_GradientReducer",
      "When gradients are reduced: the state machine behind every DistributedOptimizer. "
      "``gradients``: an object\nwith the methods of GradientAccess (C++). One thread.")
      .def(py::init(make_reducer(&distributed_options)), py::arg("gradients"), py::arg("buckets"),
           py::kw_only(), py::arg("compression"), py::arg("backward_passes_per_step"),
           py::arg("op"), py::arg("gradient_predivide_factor"), py::arg("groups"),
           py::arg("process_set"), py::arg("average_aggregated_gradients"),
           py::arg("clip_grad_norm"), py::arg("clip_when"), py::arg("gradient_as_bucket_view"),
           py::arg("overlap_step"), py::arg("sparse_as_dense"))
      .def_property_readonly(
          "gradients",
          [](const PythonReducer& self) -> Anything { return self.gradients().front(); },
          "What it was made with.")
      .def_property_readonly(
          "active", [](const PythonReducer& self) { return self.gradients().active(); },
          "False where there is nothing to do between backward() and step(): over one rank, "
          "without "
          "options that do something on each.")
      .def(
          "hooks",
          [](PythonReducer& self, std::size_t index) {
            return std::pair(GradientHook{self.weak_from_this(), index, false},
                             GradientHook{self.weak_from_this(), index, true});
          },
          py::arg("index"),
          "Of a parameter: what to call before backward() adds to its gradient, and when it has "
          "finished it.")
      .def("parameters_added", &PythonReducer::parameters_added,
           "Parameters were appended; on all ranks, between two steps.")
      .def("synchronize", &PythonReducer::synchronize, py::arg("on_reduced") = py::none(),
           "Reduces what has not been since begin_step(), waits, and gives the gradients back. "
           "``on_reduced`` hears\nof the numbers of parameters as soon as theirs are. Collective.")
      .def("drop_accumulated", of_reducer<&Reducer::drop_accumulated>(), ReleaseGil(),
           "The passes that were made do not count.")
      .def("agree_on_setup", of_reducer<&Reducer::agree_on_setup>(), ReleaseGil(),
           "Collective: MismatchError if the ranks differ in their set-up.")
      .def("set_backward_passes_per_step", &PythonReducer::set_backward_passes_per_step,
           py::arg("passes"), "Collective.")
      .def("begin_step", of_reducer<&Reducer::begin_step>(),
           "What comes belongs to another step, which reduces all gradients.")
      .def("hold", of_reducer<&Reducer::hold>(), "backward() only accumulates until release().")
      .def("release", of_reducer<&Reducer::release>(), "Ends hold().")
      .def_property_readonly("synchronized", of_reducer<&Reducer::synchronized>(),
                             "Whether gradients are reduced, and none has come since.")
      .def_property_readonly("in_flight", of_reducer<&Reducer::in_flight>(),
                             "Name of a bucket that is in flight; empty if none is.")
      .def_property_readonly(
          "unreduced", of_reducer<&Reducer::unreduced>(),
          "Name of a parameter whose gradient has come, and is not reduced; empty if none has.")
      .def_property_readonly("name", of_reducer<&Reducer::name>(),
                             "Of this one alone in its process set, equal on all ranks.")
      .def_property_readonly("call_names", of_reducer<&Reducer::call_names>(),
                             "Of the buckets, in order.");
}

}  // namespace

void bind_optimizer(py::module_& m) {
  bind_distributed_optimizer(m);
  bind_reducer(m);
}

}  // namespace hvd::python
