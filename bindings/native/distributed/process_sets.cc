#include <algorithm>

#include "bindings/native/distributed/distributed.h"
#include "core/base/status.h"
#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd::python {
namespace {

std::vector<int> ranks_from(const py::handle& object) {
  if (py::isinstance<PythonProcessSet>(object)) {
    return object.cast<const PythonProcessSet&>().ranks();
  }
  try {
    return object.cast<std::vector<int>>();
  } catch (const py::cast_error&) {
    throw py::type_error("expected a ProcessSet or a list of ranks, got " +
                         py::repr(object).cast<std::string>());
  }
}

// Sets of an ended job equal no other.
bool equal(const PythonProcessSet& a, const PythonProcessSet& b) {
  try {
    return &a == &b || (a.set() && b.set() && *a.set() == *b.set());
  } catch (const Error&) {
    return false;
  }
}

// A second registration would lose the first.
void expect_new(const py::object& given) {
  if (!py::isinstance<PythonProcessSet>(given)) return;
  const auto& set = given.cast<const PythonProcessSet&>();
  if (!set.set() || !equal(set, PythonProcessSet(*set.set()))) return;
  throw InvalidArgumentError(
      "this ProcessSet is registered already, as number " + std::to_string(set.set()->id()) +
      "; for another set of its ranks pass them: add_process_set(set.ranks)");
}

// The object itself if it is a ProcessSet, else a new one.
Typed<"ProcessSet"> registered_as(const py::object& given, const ProcessSet& set) {
  if (!py::isinstance<PythonProcessSet>(given)) return py::cast(PythonProcessSet(set, set.ranks()));
  given.cast<PythonProcessSet&>().register_as(set);
  return given;
}

Typed<"ProcessSet"> add_process_set(const ProcessSetLike& process_set) {
  expect_new(process_set);
  const std::vector<int> ranks = ranks_from(process_set);
  return registered_as(process_set, without_gil([&] { return hvd::add_process_set(ranks); }));
}

Typed<"ProcessSet"> add_named_process_set(const std::vector<int>& ranks, const std::string& name) {
  const ProcessSet set = without_gil([&] { return world()->add_process_set(ranks, name); });
  return py::cast(PythonProcessSet(set, set.ranks()));
}

bool remove_process_set(PythonProcessSet& process_set) {
  if (!process_set.set()) return false;
  const ProcessSet set = process_set.registered();
  const bool removed = without_gil([&] { return hvd::remove_process_set(set); });
  if (removed) process_set.forget();
  return removed;
}

// os.environ is a copy of the environment that Python made when it started; what this process
// starts gets either.
void copy_mark_to_python() {
  if (const auto mark = environment(kRankProcessVariable)) {
    py::module_::import("os").attr("environ")[kRankProcessVariable] = *mark;
  }
}

using ProcessSetsLike =
    Typed<"collections.abc.Iterable[ProcessSet | collections.abc.Sequence[int]] | str | None">;

void init_with_sets(const ProcessSetsLike& process_sets) {
  InitOptions options;
  std::vector<py::object> objects;
  const bool dynamic = process_sets.is_none() || py::isinstance<py::str>(process_sets);
  if (dynamic && !process_sets.is_none() && process_sets.cast<std::string>() != "dynamic") {
    throw InvalidArgumentError("init: process_sets is '" + process_sets.cast<std::string>() +
                               "'; expected a list of process sets, or \"dynamic\"");
  }
  if (!dynamic) {
    for (const py::handle& item : process_sets) {
      objects.push_back(py::reinterpret_borrow<py::object>(item));
      options.process_sets.push_back(ranks_from(item));
    }
  }
  if (!objects.empty() && is_initialized()) {
    throw InvalidArgumentError(
        "init: already initialised; add further process sets with add_process_set()");
  }
  without_gil([&] { init(options); });
  copy_mark_to_python();
  for (std::size_t i = 0; i < objects.size(); ++i) {
    registered_as(objects[i], process_set(static_cast<ProcessSetId>(i + 1)));
  }
}

// What `read` gives of a registered set; None before.
template <typename Value>
auto or_none(Value (ProcessSet::*read)() const) {
  return [read](const PythonProcessSet& self) {
    return self.set() ? std::optional<Value>((*self.set().*read)()) : std::nullopt;
  };
}

void bind_class(py::module_& m) {
  define_class<PythonProcessSet>(
      m, "ProcessSet", "Some ranks of the job, among which collectives run.",
      py::init<std::vector<int>>(), Arg("ranks", "numbers of the job's ranks, in any order."),
      Remark{"Nothing happens before it is registered, by init(process_sets=[...]) or "
             "add_process_set()."},
      Invalid{"no ranks, or a rank twice."})
      .def_property_readonly("process_set_id", or_none(&ProcessSet::id),
                             "Its number; None before it is registered. Numbers are never reused.")
      .def_property_readonly("ranks", &PythonProcessSet::ranks, "Its ranks, ascending.")
      .def("size", or_none(&ProcessSet::size),
           "How many ranks it has; None before it is registered.")
      .def("rank", or_none(&ProcessSet::rank),
           "This rank's place in it; None before it is registered, InvalidArgumentError when this "
           "rank is not included.")
      .def("included", or_none(&ProcessSet::included),
           "Whether it has this rank; None before it is registered.")
      .def("__eq__",
           [](const PythonProcessSet& self, const py::object& other) {
             if (!py::isinstance<PythonProcessSet>(other)) return false;
             return equal(self, other.cast<const PythonProcessSet&>());
           })
      .def("__hash__",
           [](const PythonProcessSet& self) {
             return py::hash(py::tuple(py::cast(self.named_ranks())));
           })
      .def("__repr__", [](const PythonProcessSet& self) {
        if (self.set() && !is_initialized()) {
          return std::string("ProcessSet(of a job that is not initialised)");
        }
        const std::string state =
            self.set() ? "process_set_id=" + std::to_string(self.set()->id()) : "not registered";
        const auto ranks = py::repr(py::cast(self.ranks())).cast<std::string>();
        return "ProcessSet(" + state + ", ranks=" + ranks + ")";
      });
}

}  // namespace

PythonProcessSet::PythonProcessSet(std::vector<int> ranks) : ranks_(std::move(ranks)) {
  std::sort(ranks_.begin(), ranks_.end());
  if (ranks_.empty()) throw InvalidArgumentError("ProcessSet: no ranks");
  const auto twice = std::adjacent_find(ranks_.begin(), ranks_.end());
  if (twice != ranks_.end()) {
    throw InvalidArgumentError("ProcessSet: rank " + std::to_string(*twice) + " appears twice");
  }
}

const ProcessSet& PythonProcessSet::registered() const {
  if (set_) return *set_;
  std::string text;
  for (const int rank : ranks_) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  throw InvalidArgumentError("the process set of ranks " + text +
                             " is not registered: pass it to init() or add_process_set() first");
}

std::vector<int> PythonProcessSet::ranks() const {
  return set_ ? set_->ranks() : ranks_;
}

void bind_process_sets(py::module_& m) {
  bind_class(m);
  m.attr("global_process_set") = py::cast(PythonProcessSet(ProcessSet()));

  define(m, "add_process_set", &add_process_set,
         R"(Register a set of ranks; collective over the whole job.

All ranks call it, those that are not in the set too, and all with the same ranks. Sets of the same
ranks, also of all, are sets of their own, whose calls are separate.)",
         Arg("process_set", "a ProcessSet, or a list of ranks."),
         Returns{"The ProcessSet, registered."},
         Invalid{"no ranks, a rank twice or outside the job, or a ProcessSet that is\n"
                 "        registered already."},
         Raises{"MismatchError: ranks passed different sets; raised on every rank."});
  m.def(
      "_unique_suffix",
      [](const std::string& kind, const PythonProcessSet& set) {
        const ProcessSet& known = set.registered();
        return known.world()->unique_suffix(kind, known.id());
      },
      py::arg("kind"), py::arg("process_set"),
      "What the next one of its kind in this job and set appends to the names of its calls.");
  m.def("_add_process_set", &add_named_process_set, py::arg("ranks"), py::arg("name"),
        "As add_process_set(), in no order with calls of other names.");
  define(
      m, "remove_process_set", &remove_process_set,
      "Remove a registered set; collective over the whole job.",
      Arg("process_set", "a ProcessSet."),
      Returns{"True; False, without waiting, for the global set and one that is not registered."},
      Invalid{"this rank has calls of the set in flight."},
      Raises{"MismatchError: a rank of the job has joined."});
  m.def("process_set_ids", &process_set_ids, "The numbers of the registered sets, 0 first.");
  m.def("_init", &init_with_sets, py::arg("process_sets") = py::none(),
        R"(Find the other ranks of this job and connect to them; collective.

A program that no launcher started is a world of one rank. Does nothing while initialised; may be
called again after shutdown(), any number of times.

Args:
    process_sets: ProcessSet objects or lists of ranks to register at once, equal on every rank.
        Further ones may always be added; "dynamic" is accepted and changes nothing.

Raises:
    InvalidArgumentError: a HOROVOD_* variable or a process set is malformed; or, on all ranks at
        once, settings or process sets differ that must be equal on all ranks: the message names
        them, the ranks and the values; or a rank started this process, which inherited its place
        (HVD_WORLD=self gives it a world of its own).
    UnsupportedError: a launcher started this process that cannot be understood, or the ranks run
        different builds of horovod_cpp.
    StalledError: ranks did not come within HOROVOD_START_TIMEOUT seconds; the message names them.)");
}

}  // namespace hvd::python
