// What ranks share before they train.

#include <algorithm>

#include "bindings/native/distributed/distributed.h"
#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/world.h"
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

void bind_broadcasts_of_state(py::module_& m) {
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

void bind_comparison(py::module_& m) {
  m.def(
      "_compare_values",
      [](const std::string& owner, const StateLike& state, const PythonProcessSet& set) {
        const ProcessSet& ranks = set.registered();
        if (!ranks.world()->options().check_parameters) return;
        std::vector<std::string> names;
        std::vector<Tensor> values;
        for (auto& [name, value] : named_tensors_from(state)) {
          names.push_back(name);
          values.push_back(value);
        }
        without_gil([&] { SetupAgreement(owner, ranks).compare_values(names, values); });
      },
      py::arg("owner"), py::arg("state"), process_set_arg(m),
      "Collective. The first rank warns if values differ, unless HVD_CHECK_PARAMETERS is 0.");
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

// As Python's own warnings, at the user's line.
void warn_in_python(const std::string& text) {
  in_python([&] { py::module_::import("horovod_cpp.call_site").attr("warn")(text); });
}

}  // namespace

void bind_state(py::module_& m) {
  set_warning_handler(&warn_in_python);
  bind_broadcasts_of_state(m);
  bind_comparison(m);
  bind_section(m);
}

}  // namespace hvd::python
