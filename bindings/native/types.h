#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cstddef>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd::python {

// Text as an argument of a template.
template <std::size_t N>
struct Text {
  constexpr Text(const char (&given)[N]) { std::copy_n(given, N, characters); }  // NOLINT: implicit
  char characters[N] = {};
};

inline bool is_anything(PyObject* /*object*/) {
  return true;
}

// A Python object that the bindings convert by hand; `text` is what signatures, and so the stubs,
// show. Names without a module are those of horovod_cpp/typing.py: see bindings/stubs.py.
template <Text text>
class Typed : public pybind11::object {
  PYBIND11_OBJECT_DEFAULT(Typed, pybind11::object, is_anything)
};

using Anything = Typed<"typing.Any">;
// A Tensor or NumPy array; ArrayT: the same on the way in and out.
using ArrayLike = Typed<"ArrayLike">;
using MaybeArray = Typed<"ArrayLike | None">;
using ArrayT = Typed<"ArrayT">;
using ArraysT = Typed<"collections.abc.Iterable[ArrayT]">;
using TensorData = Typed<"TensorData">;
using DTypeLike = Typed<"DTypeLike">;
using MaybeDType = Typed<"DTypeLike | None">;
// "cpu", "cuda", "cuda:0"
using MaybeDevice = Typed<"str | None">;
using ShapeLike = Typed<"ShapeLike">;
using IndexLike = Typed<"IndexLike">;
using PairLike = Typed<"PairLike">;
using MaybePair = Typed<"PairLike | None">;
// A dict of name -> Tensor or array, or pairs of them.
using StateLike = Typed<"StateLike">;
using MaybeState = Typed<"StateLike | None">;
using ParamsLike = Typed<"ParamsLike">;
using OneOrManyTensors = Typed<"Tensor | collections.abc.Iterable[Tensor]">;
using CompressionLike = Typed<"CompressionLike | None">;
// A module of any class, which comes back as itself.
using ModuleT = Typed<"ModuleT">;
using TensorDict = pybind11::typing::Dict<pybind11::str, Tensor>;
using TensorTuple = pybind11::typing::Tuple<Tensor, pybind11::ellipsis>;

}  // namespace hvd::python

template <hvd::python::Text text>
struct pybind11::detail::handle_type_name<hvd::python::Typed<text>> {
  static constexpr auto name = const_name(text.characters);
};
