#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "bindings/native/numbers.h"

// What the files functions*.cc share.
namespace hvd::python {

// One axis or several.
using Axes = std::variant<Integer, Integers>;
using MaybeAxes = std::optional<Axes>;

inline std::vector<std::int64_t> list_of(const MaybeAxes& axes) {
  if (!axes) return {};
  if (const auto* one = std::get_if<Integer>(&*axes)) return {*one};
  return list_of(std::get<Integers>(*axes));
}

// Parts of bind_functions(); those of `cls` are methods only.
void bind_indexing(py::module_& m, py::class_<Tensor>& cls);
void bind_arrangement(py::module_& m);

}  // namespace hvd::python
