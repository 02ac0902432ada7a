#pragma once

#include <memory>
#include <string>

#include "core/negotiate/messages/request.h"

namespace hvd::engine::test {

// An allreduce of `numel` elements.
inline Request gradient(std::string name, std::int64_t numel = 4, DType dtype = DType::kF32) {
  Request request;
  request.name = std::move(name);
  request.dtype = dtype;
  request.shapes = {{numel}};
  return request;
}

inline std::shared_ptr<const Request> shared(Request request) {
  return std::make_shared<const Request>(std::move(request));
}

}  // namespace hvd::engine::test
