// Sums one number per rank; fails unless the sum is right on every rank.
#include <horovod_cpp/horovod.h>

#include <cstdio>
#include <tuple>

#include "core/base/dtype.h"

using namespace hvd;

// Names that the engine uses too: it keeps them out of namespace hvd.
struct Batch {};
struct Channel {};
struct Coordinator {};
struct Executor {};
struct Frame {};
struct Handle {};
struct Handshake {};
struct InFlight {};
struct Message {};
struct Operation {};
struct Part {};
struct Request {};
struct Result {};
struct Slice {};
struct Submission {};
using OfThisProgram =
    std::tuple<Batch, Channel, Coordinator, Executor, Frame, Handle, Handshake, InFlight, Message,
               Operation, Part, Request, Result, Slice, Submission>;

int main() {
  static_assert(std::tuple_size_v<OfThisProgram> == 15);
  hvd::init();
  const hvd::Tensor mine = hvd::Tensor::scalar(hvd::rank() + 1);
  const double sum = hvd::allreduce(mine, {.op = hvd::ReduceOp::kSum, .name = "sum"}).item();
  const double expected = hvd::size() * (hvd::size() + 1) / 2.0;
  std::printf("%s, rank %d of %d: sum %.0f\n", program_name(), hvd::rank(), hvd::size(), sum);
  hvd::shutdown();
  return sum == expected ? 0 : 1;
}
