#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "horovod_cpp/distributed/collectives/attempts.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"

namespace hvd {

// Which gradients are reduced together, as numbers of parameters, those from `first` on.
using GradientBuckets = std::vector<std::vector<std::size_t>>;

// In order of the parameters, each of at most this many bytes or of one parameter, on one device.
GradientBuckets buckets_by_size(const std::vector<GradientParameter>& parameters, std::size_t first,
                                std::size_t bytes);
// So many, of about equal numbers of parameters.
GradientBuckets equal_buckets(const std::vector<GradientParameter>& parameters, int count);
// As given; those in no group go alone. Throws InvalidArgumentError, beginning with `owner`, on a
// parameter that is in two groups.
GradientBuckets given_buckets(const std::vector<GradientParameter>& parameters,
                              const GradientBuckets& groups, const std::string& owner);

// Whether this rank is one of several over which gradients are reduced.
bool has_other_ranks(const DistributedOptions& options);

// What all reductions of one reducer have in common.
struct ReductionContext {
  std::shared_ptr<GradientAccess> gradients;
  DistributedOptions options;
  bool over_ranks = false;  // else gradients stay here: over one rank, and with Adasum
  std::string suffix = {};  // behind the names of calls: another reducer may have equal ones
  // What a compression keeps for a parameter; as they are numbered.
  struct Compressed {
    Tensor residual = {};  // what int8 lost
    std::shared_ptr<TensorCompressor> compressor = {};
  };
  std::vector<Compressed> compressed = {};

  // For parameters that have been appended to the front end's.
  void add_parameters();
};

// Gradients that travel together: in flight from start() to finish(). One thread.
class GradientReduction {
 public:
  // `context` outlives it. `round` is part of its name.
  GradientReduction(const ReductionContext& context, std::vector<std::size_t> params,
                    const std::string& round = "");

  const std::string& name() const { return name_; }
  const std::string& call_name() const { return call_name_; }  // of this reducer's alone
  const std::vector<std::size_t>& params() const { return params_; }
  std::size_t bytes() const { return bytes_; }  // of all of them
  bool in_flight() const { return in_flight_; }
  // Those that were taken and do not travel as coordinates.
  const std::vector<std::size_t>& dense() const { return dense_; }
  std::size_t dense_bytes() const { return dense_bytes_; }
  bool new_sparse() const { return new_sparse_; }

  // Takes the gradients of `params`, some of its own, and starts the sparse ones' calls.
  void start(GradientAccess::Indices params);
  // Whether this rank has something to tell the others with the call of the dense ones.
  void flag(bool flagged) { flagged_ = flagged; }
  // Starts that call.
  void submit();
  // After wait(): whether any rank had. Nothing if the call failed, which finish() throws.
  std::optional<bool> any_flagged() const;
  // Whether a call could not be started; finish() throws why.
  bool refused() const { return refusal_ != nullptr; }
  void forget_refusal() { refusal_ = nullptr; }

  // Whether nothing of it is in flight any more. Lets calls of several rounds go on.
  bool over() const { return wait_until(Clock::now()); }
  // The same, waiting until then. Throws only if the wait is interrupted.
  bool wait_until(TimePoint deadline) const;
  void wait() const;
  // What is not in flight any more; throws what the reduction failed with.
  void finish();

 private:
  void start_sparse(std::size_t param);

  const ReductionContext& context_;
  const std::vector<std::size_t> params_;
  const std::string name_, call_name_;
  std::size_t bytes_ = 0, dense_bytes_ = 0;
  std::shared_ptr<const engine::CallLabels> labels_;
  std::vector<std::size_t> dense_, sparse_;  // what was taken
  std::vector<CallTensor> tensors_;          // of the dense ones, until submit()
  bool new_sparse_ = false;
  bool in_flight_ = false;
  bool flagged_ = false;
  std::shared_ptr<CallInFlight> call_;  // of the dense ones
  std::vector<std::shared_ptr<CallInFlight>> sparse_calls_;
  std::exception_ptr refusal_;
};

}  // namespace hvd
