#include "horovod_cpp/distributed/collectives/sparse_allreduce.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/distributed/collectives/collectives.h"

namespace hvd {
namespace {

// Begins each rank's row numbers: where the parts meet it tells how many ranks contributed.
constexpr std::int64_t kRank = -1;

// Row numbers as elements of the values' dtype, which carry their bits: with one dtype a call is
// one group of tensors, and so one name.
Tensor carrier_of(const Tensor& rows, DType dtype) {
  const auto per_row = static_cast<std::int64_t>(sizeof(std::int64_t) / size_of(dtype));
  return Tensor::wrap(rows.data(), {rows.numel(), per_row}, dtype,
                      std::make_shared<const Tensor>(rows));
}

std::vector<std::int64_t> carried_rows(const Tensor& carrier) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(carrier.size(0)));
  if (!rows.empty()) std::memcpy(rows.data(), carrier.data(), rows.size() * sizeof rows.front());
  return rows;
}

// That of a dense reduction, so that the two meet. Without one, calls are numbered by kind.
std::string name_of_allreduce(const std::string& name) {
  return name.empty() || name.starts_with('/') ? name : "/allreduce." + name;
}

class SparseCall : public CallInFlight {
 public:
  SparseCall(GroupHandle handle, const ReduceOptions& options)
      : handle_(std::move(handle)),
        averages_(options.op == ReduceOp::kAverage),
        scale_(options.prescale_factor * options.postscale_factor) {}

  bool wait_until(TimePoint deadline) override { return handle_.wait_for(deadline - Clock::now()); }

  const CallResult& result(MaybeStream) override {
    if (result_) return *result_;
    const std::vector<Tensor> parts = handle_.synchronize();
    const std::vector<std::int64_t> all = carried_rows(parts[0]);
    std::vector<std::int64_t> rows;
    std::ranges::copy_if(all, std::back_inserter(rows), [](auto row) { return row != kRank; });
    const auto ranks = static_cast<double>(std::ranges::count(all, kRank));
    const auto count = static_cast<std::int64_t>(rows.size());
    RowGradient sum = coalesce({Tensor::from(rows, {count}), parts[1]});
    const double scale = averages_ ? scale_ / ranks : scale_;
    const NoGradGuard no_grad;
    if (scale != 1) sum.values.mul_(scale);
    result_ = CallResult{.tensors = {sum.rows, sum.values}};
    return *result_;
  }

 private:
  GroupHandle handle_;
  bool averages_;
  double scale_;
  std::optional<CallResult> result_;
};

void check(const RowGradient& gradient, const ReduceOptions& options) {
  const auto& [rows, values] = gradient;
  if (options.op != ReduceOp::kAverage && options.op != ReduceOp::kSum) {
    throw InvalidArgumentError("sparse_allreduce: takes Average and Sum, not " +
                               std::string(name_of(options.op)));
  }
  const bool fits = rows.defined() && values.defined() && rows.dtype() == DType::kI64 &&
                    rows.dim() == 1 && values.dim() > 0 && values.size(0) == rows.numel() &&
                    is_floating(values.dtype());
  if (fits) return;
  const auto text = [](const Tensor& tensor) {
    return tensor.defined() ? std::string(name_of(tensor.dtype())) + " " + to_string(tensor.shape())
                            : "undefined";
  };
  throw InvalidArgumentError("sparse_allreduce: rows " + text(rows) + " and values " +
                             text(values) + ": expected int64 [k] and floating [k, ...]");
}

}  // namespace

RowGradient row_gradient_of(const CallResult& result) {
  return {result.tensors[0], result.tensors[1]};
}

std::shared_ptr<CallInFlight> start_sparse_allreduce(const RowGradient& gradient,
                                                     const ReduceOptions& options) {
  check(gradient, options);
  const Tensor given = gradient.rows.contiguous();
  const Tensor rows = Tensor::empty({given.numel() + 1}, DType::kI64);
  rows.data<std::int64_t>()[0] = kRank;
  std::copy_n(given.data<std::int64_t>(), given.numel(), rows.data<std::int64_t>() + 1);
  return std::make_shared<SparseCall>(
      grouped_allgather_async(
          {carrier_of(rows, gradient.values.dtype()), gradient.values.contiguous()},
          {.name = name_of_allreduce(options.name), .process_set = options.process_set}),
      options);
}

SparseHandle sparse_allreduce_async(const RowGradient& gradient, const ReduceOptions& options) {
  return SparseHandle(start_sparse_allreduce(gradient, options));
}

RowGradient sparse_allreduce(const RowGradient& gradient, const ReduceOptions& options) {
  return sparse_allreduce_async(gradient, options).synchronize();
}

}  // namespace hvd
