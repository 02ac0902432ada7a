#pragma once

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/compression.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"

// What the files dist_*.cc share.
namespace hvd::python {

using MaybeName = std::optional<std::string>;
using ArrayList = Typed<"list[ArrayT]">;
using MaybeArrayT = Typed<"ArrayT | None">;
using None = Typed<"None">;
using ProcessSetLike = Typed<"ProcessSet | collections.abc.Sequence[int]">;

// horovod_cpp.ProcessSet: some ranks, and the set of the engine once they were registered.
class PythonProcessSet {
 public:
  // Not registered. Throws InvalidArgumentError on no ranks or a rank twice.
  explicit PythonProcessSet(std::vector<int> ranks);
  explicit PythonProcessSet(ProcessSet set, std::vector<int> ranks = {})
      : ranks_(std::move(ranks)), set_(std::move(set)) {}

  // Throws InvalidArgumentError unless it is registered.
  const ProcessSet& registered() const;
  const std::optional<ProcessSet>& set() const { return set_; }
  std::vector<int> ranks() const;
  void register_as(ProcessSet set) { set_ = std::move(set); }
  void forget() { set_.reset(); }
  // What it was made of, whatever became of it; none for the global set.
  const std::vector<int>& named_ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
  std::optional<ProcessSet> set_;
};

// An argument that is a ReduceOp, or its name in letters of any case: "sum".
struct ReduceOpLike {
  operator ReduceOp() const { return op; }
  ReduceOp op = ReduceOp::kAverage;
};

// Of ASCII letters.
std::string lower_case(std::string_view text);

// Throws InvalidArgumentError on another name, with the one that was probably meant.
ReduceOp reduce_op_named(const std::string& name);

// A collective call in flight; gives its result as Python knows it.
class PendingResult {
 public:
  using Convert = std::function<py::object(const CallResult&)>;
  // Gives the handle of the stream that will read results on a CUDA device, by number.
  using StreamOf = std::function<std::uintptr_t(int)>;

  template <typename T>
  PendingResult(const AsyncResult<T>& handle, Convert convert)
      : call_(handle.call()), convert_(std::move(convert)) {}

  const std::shared_ptr<CallInFlight>& call() const { return call_; }
  bool poll() const { return wait_until(Clock::now()); }
  bool wait_for(double seconds) const;
  Anything synchronize() const { return synchronize_on(stream_of_); }
  Anything synchronize_on(const StreamOf& stream_of) const;
  // The same call, with what `finish` makes of its result, once; afterwards only that is kept.
  PendingResult then(py::object finish, StreamOf stream_of) const;
  // For Python's garbage collector: what then() was given may lead to an object that has the
  // handle.
  int traverse(visitproc visit, void* arg) const;
  void keep_only(py::object made) const;

 private:
  bool wait_until(TimePoint deadline) const;
  Anything result(MaybeStream reader) const;

  mutable std::shared_ptr<CallInFlight> call_;  // null: done, with an empty result
  mutable Convert convert_;
  StreamOf stream_of_;
  mutable py::object finish_, made_;
};

// What a caller gave, so that results are made the same.
class ArrayKind {
 public:
  // Throws TypeError on what is no array.
  explicit ArrayKind(const py::handle& object);
  // None for an undefined tensor. Afterwards the memory on `device` that the caller gave may be
  // written by the library whose it is: in the order of the stream that asked for the result, or if
  // none did, because this waits for the device.
  py::object like(const Tensor& result, const Device& device) const;

 private:
  enum class Sort { kTensor, kNumpy, kLibrary };
  Sort sort_;
  bool is_lent_ = false;  // by another library
  py::object of_;         // NumPy's dtype if the array has one of another package; the library
};

// What a call reads: a dense tensor, and what the caller gave.
struct Input {
  explicit Input(const py::handle& object);

  ArrayKind kind;
  Tensor tensor;
};

// What a grouped call reads.
struct InputList {
  explicit InputList(const py::handle& objects);
  PendingResult::Convert all_like() const;

  std::vector<Tensor> tensors;
  std::vector<ArrayKind> kinds;
};

// What a call writes: the caller's own memory. Throws InvalidArgumentError when not contiguous or
// read-only.
Tensor target_from(const py::handle& object);
std::vector<Tensor> targets_from(const py::handle& objects);

// -- how results become Python objects
PendingResult::Convert one_like(const Input& input);
PendingResult::Convert itself(py::object object);

// The argument process_set, the whole job by default.
inline py::arg_v process_set_arg(py::module_& m) {
  return py::arg_v("process_set", m.attr("global_process_set"), "global_process_set");
}

// A guard of C++ as a context manager.
class GuardContext {
 public:
  explicit GuardContext(std::function<std::unique_ptr<ScopeGuard>()> make)
      : make_(std::move(make)) {}
  void enter() {
    if (guard_ != nullptr) throw InvalidArgumentError("this context manager is in use already");
    guard_ = make_();
  }
  void exit() { guard_.reset(); }

 private:
  std::function<std::unique_ptr<ScopeGuard>()> make_;
  std::unique_ptr<ScopeGuard> guard_;
};

// What a member of `object` guards, which the context keeps alive.
template <typename T, ScopeGuard (T::*Make)()>
GuardContext guard_of(const std::shared_ptr<T>& object) {
  return GuardContext(
      [object] { return std::unique_ptr<ScopeGuard>(new ScopeGuard(((*object).*Make)())); });
}

// hvd.Compression as it is, or its name: "fp16"; a compressor written in Python (an object or class
// with compress and decompress) wrapped.
Compression compression_from(const py::handle& object);

// Calls `start` without the GIL with copies of what Python gave, or with its own memory: a Tensor
// for one array, a vector for several.
template <typename Start>
PendingResult on_copies(const ArrayT& tensor, Start&& start) {
  const Input input(tensor);
  return {without_gil([&] { return start(input.tensor); }), one_like(input)};
}
template <typename Start>
PendingResult on_copies(const ArraysT& tensors, Start&& start) {
  const InputList inputs(tensors);
  return {without_gil([&] { return start(inputs.tensors); }), inputs.all_like()};
}
template <typename Start>
PendingResult in_place(const ArrayT& tensor, Start&& start) {
  const Tensor target = target_from(tensor);
  return {without_gil([&] { return start(target); }), itself(tensor)};
}
template <typename Start>
PendingResult in_place(const ArraysT& tensors, Start&& start) {
  const std::vector<Tensor> targets = targets_from(tensors);
  return {without_gil([&] { return start(targets); }), itself(tensors)};
}

template <typename... Args>
using StartPending = std::function<PendingResult(Args...)>;

// A collective of C++ for Python: of its tensors, of a root rank if it has one, and of the
// arguments of which `make` makes its options.
template <typename Tensors>
using ArraysOf = std::conditional_t<std::is_same_v<Tensors, Tensor>, ArrayT, ArraysT>;
template <typename Handle, typename Tensors, typename Options, typename... Args>
StartPending<const ArraysOf<Tensors>&, Args...> for_python(Handle (*start)(const Tensors&,
                                                                           const Options&),
                                                           Options (*make)(Args...), bool writes) {
  return [=](const ArraysOf<Tensors>& tensors, Args... args) {
    const Options options = make(std::forward<Args>(args)...);
    const auto call = [&](const Tensors& given) { return start(given, options); };
    return writes ? in_place(tensors, call) : on_copies(tensors, call);
  };
}
template <typename Handle, typename Tensors, typename Options, typename... Args>
StartPending<const ArraysOf<Tensors>&, Given<int>, Args...> for_python(
    Handle (*start)(const Tensors&, int, const Options&), Options (*make)(Args...), bool writes) {
  return [=](const ArraysOf<Tensors>& tensors, Given<int> rank, Args... args) {
    const Options options = make(std::forward<Args>(args)...);
    const auto call = [&](const Tensors& given) { return start(given, rank, options); };
    return writes ? in_place(tensors, call) : on_copies(tensors, call);
  };
}

// Puts the Result in the place of the Handle, for the form that waits.
template <typename Result, typename... Args>
auto waiting(StartPending<Args...> start) {
  return [start = std::move(start)](Args... args) -> Result {
    return start_and_wait([&] { return start(std::forward<Args>(args)...); });
  };
}

// Defines the form of a collective that returns a handle, and the form that waits for a Result:
// "allreduce_async_" and "allreduce_" for the name "allreduce_".
template <typename Result, typename... Args, typename... Extra>
void define_both(py::module_& m, const std::string& name, StartPending<Args...> start,
                 const std::string& doc, const Extra&... extra) {
  const bool in_place = name.ends_with('_');
  const std::string base = in_place ? name.substr(0, name.size() - 1) : name;
  m.def((base + "_async" + (in_place ? "_" : "")).c_str(), start, extra..., doc.c_str());
  m.def(name.c_str(), waiting<Result>(std::move(start)), extra..., doc.c_str());
}

// What all collectives have in common, behind what one does: of one tensor or several, in their own
// memory or not.
std::string collective_doc(const std::string& what, bool several, bool in_place);

// Both forms of a collective: `start` and `make` as for_python() takes them. `extra`: the arguments
// between the tensors and process_set. Result: of one tensor.
template <typename Result = ArrayT, typename Tensors, typename Handle, typename... More,
          typename Make, typename... Extra>
void define_collective(py::module_& m, const std::string& name,
                       Handle (*start)(const Tensors&, More...), Make make, const std::string& what,
                       const Extra&... extra) {
  constexpr bool kSeveral = !std::is_same_v<Tensors, Tensor>;
  const bool in_place = name.ends_with('_');
  define_both<std::conditional_t<kSeveral, ArrayList, Result>>(
      m, name, for_python(start, make, in_place), collective_doc(what, kSeveral, in_place),
      py::arg(kSeveral ? "tensors" : "tensor"), extra..., process_set_arg(m));
}

void bind_session(py::module_& m);
void bind_process_sets(py::module_& m);
void bind_compression(py::module_& m);
void bind_reductions(py::module_& m);
void bind_movement(py::module_& m);
void bind_collective_table(py::module_& m);
void bind_memory(py::module_& m);
void bind_state(py::module_& m);
void bind_optimizer(py::module_& m);
void bind_whole_models(py::module_& m);
void bind_observability(py::module_& m);

}  // namespace hvd::python

template <>
struct pybind11::detail::type_caster<hvd::python::ReduceOpLike> {
  PYBIND11_TYPE_CASTER(hvd::python::ReduceOpLike, const_name("ReduceOp | str"));

  bool load(handle source, bool convert) {
    if (PyUnicode_Check(source.ptr()) != 0) {
      value.op = hvd::python::reduce_op_named(source.cast<std::string>());
      return true;
    }
    if (hvd::python::load_option(value.op, source, convert)) return true;
    hvd::python::refuse_option("op", "a ReduceOp or its name", source);
  }
};

// Every argument of this kind is called process_set.
template <>
struct pybind11::detail::type_caster<hvd::python::PythonProcessSet>
    : type_caster_base<hvd::python::PythonProcessSet> {
  bool load(handle source, bool convert) {
    if (!source.is_none() && type_caster_base::load(source, convert)) return true;
    hvd::python::refuse_option("process_set",
                               "a ProcessSet, which add_process_set() makes of ranks", source);
  }
};

template <>
struct pybind11::detail::type_caster<hvd::python::PendingResult>
    : type_caster_base<hvd::python::PendingResult> {
  bool load(handle source, bool convert) {
    if (!source.is_none() && type_caster_base::load(source, convert)) return true;
    hvd::python::refuse_option("handle", "what an asynchronous call returned", source);
  }
};
