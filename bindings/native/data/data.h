#pragma once

#include <cstdint>
#include <memory>

#include "bindings/native/docs.h"
#include "bindings/native/numbers.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/transforms.h"

// What the files of data share: Python objects in the places of C++ ones. Those made of Python
// objects take the GIL themselves, for as long as Python runs.
namespace hvd::python {

using DatasetLike = Typed<"DatasetLike">;
using SamplerLike = Typed<"SamplerLike">;
using MaybeSampler = Typed<"SamplerLike | None">;
using MaybeBatchSampler = Typed<"BatchSamplerLike | None">;
using TransformLike = Typed<"TransformLike">;
using MaybeTransform = Typed<"TransformLike | None">;
using MaybeCollate = Typed<"CollateFn | None">;

void bind_datasets(py::module_& m);
void bind_samplers(py::module_& m);
void bind_loader(py::module_& m);
void bind_transforms(py::module_& m);

// What an example or a transform gives: a Tensor as it is, an array wrapped (copied if its strides
// are not those of a tensor), numbers and lists as copy_to_tensor() has them.
Tensor example_tensor(const py::handle& object);
// A tuple or list of such, or a single one.
data::Sample sample_from(const py::handle& object);
TensorTuple to_tuple(const data::Sample& sample);

// Each takes a native object, or a Python one that can do what is asked of it; else TypeError.
// With __len__ and __getitem__:
std::shared_ptr<const data::Dataset> dataset_from(const py::handle& object);
// Callable with a tensor; None is none:
std::shared_ptr<const data::transforms::Transform> transform_from(const py::handle& object);
// Iterable, with __len__ (and set_epoch, if it likes); None is none. The seed is for what examples
// draw at random:
std::shared_ptr<data::Sampler> sampler_from(const py::handle& object, std::uint64_t seed);
std::shared_ptr<data::BatchSampler> batch_sampler_from(const py::handle& object,
                                                       std::uint64_t seed);
// Callable with a list of tuples; None is none:
data::CollateFn collate_fn_from(const py::handle& object);

}  // namespace hvd::python
