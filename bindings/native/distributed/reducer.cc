// GradientReducer for front ends in Python, such as horovod_cpp.torch.

#include <memory>
#include <optional>
#include <utility>

#include "bindings/native/distributed/distributed.h"
#include "bindings/native/numbers.h"
#include "bindings/native/types.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

namespace hvd::python {
namespace {

std::vector<std::size_t> copied(GradientAccess::Indices indices) {
  return {indices.begin(), indices.end()};
}

// A front end's object that has GradientAccess's members as methods.
class PythonGradients final : public GradientAccess {
 public:
  explicit PythonGradients(py::object front) : front_(std::move(front)) { read_parameters(); }

  // Its parameters() again: (name, shape, dtype, number of the CUDA device or None, id) for each.
  void read_parameters() {
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
  void make_room(std::size_t index) override { tell("make_room", index); }
  void set_aside(Indices which) override { tell("set_aside", copied(which)); }
  void give_back(Indices which) override { tell("give_back", copied(which)); }
  void drop(Indices which) override { tell("drop", copied(which)); }
  void leave(Indices which) override { tell("leave", copied(which)); }
  void close_window(std::size_t index, int passes) override { tell("close_window", index, passes); }
  void average(std::size_t index, int passes) override { tell("average", index, passes); }
  void clip(Indices which, double max_norm) override { tell("clip", copied(which), max_norm); }
  void move_to(std::size_t index, Tensor memory) override { tell("move_to", index, memory); }
  std::vector<std::int64_t> sparse_axes() const override {
    return ask<std::vector<std::int64_t>>("sparse_axes");
  }
  void set_sparse_axes(std::span<const std::int64_t> axes) override {
    tell("set_sparse_axes", std::vector<std::int64_t>(axes.begin(), axes.end()));
  }
  std::shared_ptr<CallInFlight> start_sparse(std::size_t index,
                                             const ReduceOptions& call) override {
    return in_python([&] {
      return front_.get().attr("start_sparse")(index, call.name).cast<PendingResult&>().call();
    });
  }
  void finish_sparse(std::size_t index) override { tell("finish_sparse", index); }
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

  const SharedObject front_;
  std::vector<GradientParameter> parameters_;
};

using OnReducedLike = Typed<"collections.abc.Callable[[list[int]], None] | None">;

// The reducer and what it reads gradients through.
class PythonReducer : public std::enable_shared_from_this<PythonReducer> {
 public:
  PythonReducer(py::object front, const DistributedOptions& options, const GradientBuckets& groups)
      : gradients_(std::make_shared<PythonGradients>(std::move(front))) {
    const WithoutGil nogil;
    reducer_ = std::make_unique<GradientReducer>(gradients_, options, groups);
  }

  GradientReducer& get() { return *reducer_; }
  void parameters_added() {
    gradients_->read_parameters();
    const WithoutGil nogil;
    reducer_->parameters_added();
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

DistributedOptions make_options(ReduceOpLike op, const CompressionLike& compression,
                                int backward_passes_per_step,
                                Flag<"average_aggregated_gradients"> average_aggregated_gradients,
                                double gradient_predivide_factor,
                                const std::optional<double>& clip_grad_norm,
                                const std::string& clip_when,
                                Flag<"gradient_as_bucket_view"> gradient_as_bucket_view,
                                Flag<"overlap_step"> overlap_step) {
  DistributedOptions options;
  options.op = op;
  options.compression = compression_from(compression);
  options.backward_passes_per_step = backward_passes_per_step;
  options.average_aggregated_gradients = average_aggregated_gradients;
  options.gradient_predivide_factor = gradient_predivide_factor;
  options.clip_grad_norm = clip_from(clip_grad_norm, clip_when);
  options.gradient_as_bucket_view = gradient_as_bucket_view;
  options.overlap_step = overlap_step;
  check_options(options);
  return options;
}

std::shared_ptr<PythonReducer> make_reducer(Anything front, DistributedOptions options,
                                            const PythonProcessSet& set, int num_groups,
                                            const GradientBuckets& groups) {
  options.process_set = set.registered();
  options.num_groups = num_groups;
  check_options(options);
  return std::make_shared<PythonReducer>(std::move(front), options, groups);
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

template <auto Member, typename... Args>
auto forward() {
  return [](PythonReducer& self, Args... args) {
    const WithoutGil nogil;
    return (self.get().*Member)(args...);
  };
}

}  // namespace

void bind_reducer(py::module_& m) {
  using Reducer = GradientReducer;
  py::class_<DistributedOptions>(m, "_DistributedOptions",
                                 "Of a front end's DistributedOptimizer, but for its set and "
                                 "groups. Checked: InvalidArgumentError.")
      .def(py::init(&make_options), py::kw_only(), py::arg("op"), py::arg("compression"),
           py::arg("backward_passes_per_step"), py::arg("average_aggregated_gradients"),
           py::arg("gradient_predivide_factor"), py::arg("clip_grad_norm"), py::arg("clip_when"),
           py::arg("gradient_as_bucket_view"), py::arg("overlap_step"));
  py::class_<GradientHook>(m, "_GradientHook", "Of a parameter, for PyTorch.")
      .def("__call__", [](const GradientHook& self, const py::Args<Anything>&) { self(); })
      // As PyTorch's unserializable_hook() marks functions: no warning when parameters are pickled.
      .def_property_readonly("__torch_unserializable__", [](const GradientHook&) { return true; });
  py::class_<PythonReducer, std::shared_ptr<PythonReducer>>(
      m, "_GradientReducer",
      "When gradients are reduced: the state machine behind every DistributedOptimizer. "
      "``gradients``: an object\nwith the methods of GradientAccess (C++). One thread.")
      .def(py::init(&make_reducer), py::arg("gradients"), py::arg("options"), py::kw_only(),
           py::arg("process_set"), py::arg("num_groups"), py::arg("groups"))
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
      .def("drop_accumulated", forward<&Reducer::drop_accumulated>(),
           "The passes that were made do not count.")
      .def("agree_on_setup", forward<&Reducer::agree_on_setup>(),
           "Collective: MismatchError if the ranks differ in their set-up.")
      .def("set_backward_passes_per_step", forward<&Reducer::set_backward_passes_per_step, int>(),
           py::arg("passes"), "Collective.")
      .def(
          "begin_step", [](PythonReducer& self) { self.get().begin_step(); },
          "What comes belongs to another step, which reduces all gradients.")
      .def(
          "hold", [](PythonReducer& self) { self.get().hold(); },
          "backward() only accumulates until release().")
      .def(
          "release", [](PythonReducer& self) { self.get().release(); }, "Ends hold().")
      .def_property_readonly(
          "synchronized", [](PythonReducer& self) { return self.get().synchronized(); },
          "Whether gradients are reduced, and none has come since.")
      .def_property_readonly(
          "in_flight", [](PythonReducer& self) { return self.get().in_flight(); },
          "Name of a bucket that is in flight; empty if none is.")
      .def_property_readonly(
          "unreduced", [](PythonReducer& self) { return self.get().unreduced(); },
          "Name of a parameter whose gradient has come, and is not reduced; empty if none has.")
      .def_property_readonly(
          "name", [](PythonReducer& self) { return self.get().name(); },
          "Of this one alone in its process set, equal on all ranks.")
      .def_property_readonly(
          "call_names", [](PythonReducer& self) { return self.get().call_names(); },
          "Of the buckets, in order.");
}

}  // namespace hvd::python
