#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd::optim {

// A state dict that gives its entries away; what is left at the end was not expected.
class StateEntries {
 public:
  // `what` opens every message: "optimizer state".
  StateEntries(std::string what, const NamedTensors& state) : what_(std::move(what)) {
    for (const auto& [name, tensor] : state) {
      if (!tensor.defined()) fail(name, "is undefined");
      if (!entries_.emplace(name, tensor).second) fail(name, "appears twice");
    }
  }

  // Undefined when there is none. Throws unless it has this shape and dtype.
  Tensor take(const std::string& name, const Shape& shape, DType dtype) {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return {};
    const Tensor tensor = it->second;
    if (tensor.shape() != shape || tensor.dtype() != dtype) {
      fail(name, "is ", tensor.dtype(), " ", tensor.shape(), ": expected ", dtype, " ", shape);
    }
    entries_.erase(it);
    return tensor;
  }

  // All entries whose names begin with `prefix`, under the rest of their names.
  std::map<std::string, Tensor> take_all(const std::string& prefix) {
    std::map<std::string, Tensor> taken;
    auto it = entries_.lower_bound(prefix);
    while (it != entries_.end() && it->first.compare(0, prefix.size(), prefix) == 0) {
      taken.emplace(it->first.substr(prefix.size()), it->second);
      it = entries_.erase(it);
    }
    return taken;
  }

  double take_number(const std::string& name) {
    const Tensor value = take(name, {}, DType::kF64);
    if (!value.defined()) fail(name, "is missing");
    return *value.data<double>();
  }

  std::int64_t take_count(const std::string& name) {
    const Tensor value = take(name, {}, DType::kI64);
    if (!value.defined()) fail(name, "is missing");
    if (*value.data<std::int64_t>() < 0) {
      fail(name, "is ", *value.data<std::int64_t>());
    }
    return *value.data<std::int64_t>();
  }

  void expect_empty() const {
    if (!entries_.empty()) fail(entries_.begin()->first, "is unexpected");
  }

  [[noreturn]] void fail(const std::string& name, const auto&... what) const {
    throw InvalidArgumentError(what_, ": '", name, "' ", what...);
  }

 private:
  std::string what_;
  std::map<std::string, Tensor> entries_;
};

inline Tensor count_entry(std::int64_t value) {
  return Tensor::from(std::span(&value, 1), {});
}

}  // namespace hvd::optim
