#pragma once

#include <gtest/gtest.h>

#include <string>

#include "horovod_cpp/nn/module.h"
#include "test/horovod_cpp/temporary_folder.h"

namespace hvd {

inline std::int64_t count_parameters(const nn::Module& model) {
  std::int64_t count = 0;
  for (const Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

}  // namespace hvd
