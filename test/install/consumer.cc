// Sums one number per rank; fails unless the sum is right on every rank.
#include <horovod_cpp/horovod.h>

#include <cstdio>

#include "core/base/dtype.h"

int main() {
  hvd::init();
  const hvd::Tensor mine = hvd::Tensor::scalar(hvd::rank() + 1);
  const double sum = hvd::allreduce(mine, {.op = hvd::ReduceOp::kSum, .name = "sum"}).item();
  const double expected = hvd::size() * (hvd::size() + 1) / 2.0;
  std::printf("%s, rank %d of %d: sum %.0f\n", program_name(), hvd::rank(), hvd::size(), sum);
  hvd::shutdown();
  return sum == expected ? 0 : 1;
}
