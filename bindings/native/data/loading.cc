#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/native/data/data.h"
#include "core/base/status.h"
#include "horovod_cpp/data/sampler.h"
#include "horovod_cpp/distributed/session/session.h"

namespace hvd::python {
namespace {

// One pass over a loader, as Python wants it: advance first, then read. Python runs between the
// calls of the workers, so whoever holds the GIL may not wait for them.
class Pass {
 public:
  explicit Pass(std::shared_ptr<data::DataLoader> loader) : loader_(std::move(loader)) {
    live().push_back(this);
  }
  ~Pass() {
    std::erase(live(), this);
    stop();
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Empty at the end.
  std::optional<data::Sample> next() {
    if (running_) throw InvalidArgumentError("DataLoader: two threads iterate over one pass");
    running_ = true;
    try {
      without_gil([this] { advance(); });
    } catch (const PythonError& error) {  // of a sampler
      running_ = false;
      refuse_end(error, "DataLoader: the sampler");
      throw;
    } catch (const std::runtime_error& error) {
      running_ = false;
      rethrow_pythons(error);
      throw;
    } catch (...) {
      running_ = false;
      throw;
    }
    running_ = false;
    if (done_) return std::nullopt;
    return **iterator_;
  }

  // Before the interpreter goes: workers that want to run Python then would never come back.
  static void stop_all() {
    for (Pass* pass : live()) pass->stop();
  }

 private:
  // Passes that Python has not dropped; guarded by the GIL.
  static std::vector<Pass*>& live() {
    static auto* passes = new std::vector<Pass*>;
    return *passes;
  }

  void advance() {
    if (done_) return;
    done_ = true;  // also after an error
    if (iterator_) {
      ++*iterator_;
    } else {
      iterator_.emplace(loader_->begin());
    }
    done_ = *iterator_ == loader_->end();
  }

  // Joins the workers.
  void stop() {
    if (!iterator_ || running_) return;  // another thread's; it ends before the interpreter does
    done_ = true;
    const WithoutGil nogil;
    iterator_.reset();
  }

  // A StopIteration that Python code let out would end the loop over the pass as if all of it had
  // come: it becomes a RuntimeError, as in a generator (PEP 479).
  static void refuse_end(const PythonError& error, const std::string& where) {
    if (PyErr_GivenExceptionMatches(error.exception(), PyExc_StopIteration) == 0) return;
    PyErr_SetObject(PyExc_StopIteration, error.exception());
    py::raise_from(PyExc_RuntimeError, (where + " raised StopIteration").c_str());
    throw py::error_already_set();
  }

  // Throws the exception that Python code raised, if that is what happened; a note says where.
  static void rethrow_pythons(const std::runtime_error& error) {
    try {
      std::rethrow_if_nested(error);
    } catch (const PythonError& original) {
      std::string_view where = error.what();
      where.remove_suffix(std::min(where.size(), std::string_view(original.what()).size() + 2));
      refuse_end(original, std::string(where));
      py::handle(original.exception()).attr("add_note")(std::string(where));
      throw;
    } catch (const py::type_error&) {
      throw py::type_error(error.what());
    } catch (...) {
      return;
    }
  }

  std::shared_ptr<data::DataLoader> loader_;
  std::optional<data::DataLoader::Iterator> iterator_;
  bool done_ = false;
  bool running_ = false;  // a thread is in next()
};

py::typing::Dict<py::str, py::int_> state_of(const data::Sampler& sampler) {
  const data::SamplerState state = sampler.state();
  py::typing::Dict<py::str, py::int_> dict;
  dict["seed"] = state.seed;
  dict["epoch"] = state.epoch;
  dict["position"] = state.position;
  return dict;
}

void load_state(data::Sampler& sampler,
                const Typed<"collections.abc.Mapping[str, typing.SupportsIndex]">& given) {
  const py::dict state(given);
  for (const char* key : {"seed", "epoch", "position"}) {
    if (state.contains(key)) continue;
    throw InvalidArgumentError("load_state: the state has no '", key, "'");
  }
  sampler.load_state({state["seed"].cast<std::uint64_t>(), state["epoch"].cast<std::int64_t>(),
                      state["position"].cast<std::int64_t>()});
}

data::Uneven uneven_from(const std::string& name, bool drop_last) {
  if (name == "pad") return drop_last ? data::Uneven::kDrop : data::Uneven::kPad;
  if (name == "drop") return data::Uneven::kDrop;
  if (name == "keep" && !drop_last) return data::Uneven::kKeep;
  throw InvalidArgumentError("DistributedSampler: uneven='", name, "'",
                             (drop_last ? " with drop_last" : ""),
                             ": expected 'pad', 'drop' or 'keep'");
}

// A loader that keeps what it was made of.
class PythonLoader : public data::DataLoader {
 public:
  PythonLoader(const py::object& dataset, const data::DataLoaderOptions& options)
      : DataLoader(dataset_from(dataset), options), dataset_(dataset), options_(options) {}

  Typed<"DatasetLike"> dataset() const { return dataset_.get(); }
  std::optional<std::int64_t> batch_size() const {
    if (options_.batch_sampler != nullptr) return std::nullopt;
    return options_.batch_size;
  }
  int num_workers() const { return options_.num_workers; }
  bool drop_last() const { return options_.drop_last; }

 private:
  SharedObject dataset_;
  data::DataLoaderOptions options_;
};

std::shared_ptr<PythonLoader> make_loader(const DatasetLike& dataset, Integer batch_size,
                                          Flag<"shuffle"> shuffle, const MaybeSampler& sampler,
                                          Flag<"drop_last"> drop_last, Given<int> num_workers,
                                          Given<int> prefetch_factor, Given<std::uint64_t> seed,
                                          const MaybeBatchSampler& batch_sampler,
                                          const MaybeCollate& collate_fn) {
  return std::make_shared<PythonLoader>(
      dataset, data::DataLoaderOptions{batch_size, shuffle, sampler_from(sampler, seed), drop_last,
                                       num_workers, prefetch_factor, seed,
                                       batch_sampler_from(batch_sampler, seed),
                                       collate_fn_from(collate_fn)});
}

void bind_distributed_sampler(py::module_& m) {
  define_class<data::DistributedSampler, data::Sampler>(
      m, "DistributedSampler", R"(One rank's share of a dataset, with PyTorch's partition.

The (shuffled) order is padded from its beginning to a multiple of ``num_replicas``, or cut to one
with ``drop_last``; rank r takes positions r, r + num_replicas, ... Call ``set_epoch(n)`` before
every pass; without it each pass has the same order.)",
      py::init([](const Typed<"DatasetLike | int">& dataset,
                  const Option<std::optional<int>, "num_replicas">& num_replicas,
                  const Option<std::optional<int>, "rank">& rank, Flag<"shuffle"> shuffle,
                  const Option<std::uint64_t, "seed">& seed, Flag<"drop_last"> drop_last,
                  const Option<std::string, "uneven">& uneven) {
        const auto examples = py::isinstance<py::int_>(dataset)
                                  ? dataset.cast<std::int64_t>()
                                  : static_cast<std::int64_t>(py::len(dataset));
        return std::make_shared<data::DistributedSampler>(
            examples, *num_replicas ? **num_replicas : hvd::size(), *rank ? **rank : hvd::rank(),
            shuffle, seed, uneven_from(uneven, drop_last));
      }),
      Arg("dataset", "what is sampled, or the number of its examples."),
      Arg("num_replicas", "None: ``hvd.size()``.") = py::none(),
      Arg("rank", "None: ``hvd.rank()``.") = py::none(), Arg("shuffle", "permute first.") = true,
      Arg("seed", "of the permutations; all ranks must pass the same.") = 0,
      Arg("drop_last", "the same as ``uneven=\"drop\"``.") = false,
      Arg("uneven",
          "when the examples do not divide by the ranks: \"pad\" (some come twice), \"drop\" (some "
          "do\n        not come) or \"keep\" (each comes once; the first ranks have one more).") =
          "pad",
      Invalid{"not 0 <= rank < num_replicas, another ``uneven``, or None before init()."});
}

void bind_sampler(py::module_& m) {
  py::classh<data::Sampler> sampler(m, "Sampler",
                                    "The order in which a DataLoader visits a dataset.");
  sampler.def("__len__", &data::Sampler::size, "Indices in one whole pass.")
      .def(
          "__iter__",
          [](data::Sampler& s) -> py::typing::Iterator<int> {
            return py::iter(py::cast(s.indices()));
          },
          "Start a pass: its indices.")
      .def("indices", &data::Sampler::indices,
           "Start a pass: the indices in order; after load_state() the rest of its pass.")
      .def("set_epoch", given(&data::Sampler::set_epoch), py::arg("epoch"),
           "Choose pass number ``epoch`` to be started next; samplers with one order keep it.")
      .def("advance", given(&data::Sampler::advance), py::arg("count"),
           "Tell that ``count`` more indices were handed out; a DataLoader does.")
      .def("state", &state_of,
           "Where its passes are, as ``{\"seed\": ..., \"epoch\": ..., \"position\": ...}``.");
  define(sampler, "load_state", &load_state,
         "Go on from ``state``: the next pass is the rest of the state's.",
         Arg("state",
             "what state() gave. A following ``set_epoch()`` with its epoch keeps the position."),
         Invalid{"a key is missing, or the position is beyond the end."});
}

}  // namespace

void bind_samplers(py::module_& m) {
  bind_sampler(m);
  define_class<data::SequentialSampler, data::Sampler>(
      m, "SequentialSampler", "0, 1, ..., size-1.", py::init<Integer, Given<std::uint64_t>>(),
      Arg("size", "number of examples."), Arg("seed", "of what examples draw at random.") = 0);
  define_class<data::RandomSampler, data::Sampler>(
      m, "RandomSampler", "A new permutation every pass.",
      py::init<Integer, Given<std::uint64_t>>(), Arg("size", "number of examples."),
      Arg("seed", "of the permutations and of what examples draw at random.") = 0);
  bind_distributed_sampler(m);
  define_class<data::BatchSampler>(
      m, "BatchSampler", "Groups a sampler's indices into batches.",
      py::init([](const SamplerLike& sampler, Integer batch_size, Flag<"drop_last"> drop_last) {
        return std::make_shared<data::BatchSampler>(sampler_from(sampler, 0), batch_size,
                                                    drop_last);
      }),
      Arg("sampler", "a Sampler, or an iterable of indices that has a length."),
      Arg("batch_size", "indices per batch, at least 1."),
      Arg("drop_last", "leave out a last batch that is not full.") = false,
      Invalid{"batch_size is below 1."})
      .def("__len__", &data::BatchSampler::size, "Batches in one pass.")
      .def(
          "__iter__",
          [](data::BatchSampler & batches) -> Typed<"collections.abc.Iterator[list[int]]"> {
            return py::iter(py::cast(batches.batches()));
          })
      .def_property_readonly("sampler", &data::BatchSampler::sampler, "Whose indices they are.");
}

void bind_loader(py::module_& m) {
  py::classh<Pass>(m, "_Pass")
      .def("__iter__", [](py::object self) -> py::typing::Iterator<TensorTuple> { return self; })
      .def("__next__", [](Pass& pass) {
        const std::optional<data::Sample> batch = pass.next();
        if (!batch) throw py::stop_iteration();
        return to_tuple(*batch);
      });
  py::module_::import("atexit").attr("register")(py::cpp_function(&Pass::stop_all));
  define_class<PythonLoader>(
      m, "DataLoader",
      R"(Iterates over a dataset in batches: tuples of tensors with the batch as first axis.

Batches are the same whatever the number of workers. What an example draws from this library's
generator, as the transforms do, depends on the sampler's seed, the epoch and its index alone.

``loader.sampler.state()`` between two batches says where a pass is; a loader whose sampler loaded
that state goes on with the next batch, bit for bit.)",
      py::init(&make_loader),
      Arg("dataset", "a Dataset, or anything with ``__len__`` and ``__getitem__``."),
      Arg("batch_size", "examples per batch (here: on this rank).") = 1,
      Arg("shuffle", "a new random order every pass; excludes ``sampler``.") = false,
      Arg("sampler", "decides the order, e.g. a DistributedSampler, or an iterable of indices.") =
          py::none(),
      Arg("drop_last", "leave out a last batch that is not full.") = false,
      Arg("num_workers",
          "threads that load ahead; 0 loads in the thread that iterates. Python code in a\n"
          "        dataset or transform holds the GIL while it runs.") = 0,
      Arg("prefetch_factor", "batches per worker that may wait to be consumed.") = 2,
      Arg("seed", "of the sampler, if none is given.") = 0,
      Arg("batch_sampler",
          "decides order and batches, a BatchSampler or an iterable of lists of indices;\n"
          "        excludes batch_size, shuffle, sampler and drop_last.") = py::none(),
      Arg("collate_fn",
          "makes a batch (a tuple of tensors) of a list of examples (tuples of tensors).") =
          py::none(),
      Invalid{"an option is out of range, or options exclude each other. While\n        iterating: "
              "whatever an example raised (StopIteration: RuntimeError); the message (of\n"
              "        Python's own exceptions: a note) names the example."})
      .def("__len__", &PythonLoader::size, "Batches in one whole pass.")
      .def_property_readonly("sampler", &PythonLoader::sampler,
                             "What decides the order, a Sampler.")
      .def_property_readonly("dataset", &PythonLoader::dataset, "The dataset it was given.")
      .def_property_readonly("batch_size", &PythonLoader::batch_size,
                             "Examples per batch; None with a batch_sampler.")
      .def_property_readonly("num_workers", &PythonLoader::num_workers, "Threads that load ahead.")
      .def_property_readonly("drop_last", &PythonLoader::drop_last,
                             "Whether a last batch that is not full is left out.")
      .def(
          "__iter__",
          [](const std::shared_ptr<PythonLoader>& loader) -> py::typing::Iterator<TensorTuple> {
            return py::cast(std::make_unique<Pass>(loader));
          },
          "Start a pass: an iterator over its batches, tuples of tensors.");
}

}  // namespace hvd::python
