#pragma once

#include <string>

#include "core/negotiate/request.h"

namespace hvd::test {

// An allreduce of `numel` elements.
inline Request gradient(std::string name, std::int64_t numel = 4, DType dtype = DType::kF32) {
  Request request;
  request.name = std::move(name);
  request.dtype = dtype;
  request.shape = {numel};
  return request;
}

}  // namespace hvd::test
