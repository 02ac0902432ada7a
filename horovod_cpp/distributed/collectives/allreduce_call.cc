// Allreduces, also those whose tensors take several rounds.
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/system/interruptible_waits.h"
#include "horovod_cpp/distributed/collectives/engine_call.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd {
namespace {

constexpr Duration kLook = std::chrono::hours(1);

// A call of which some tensors take several rounds. Whoever asks for the result makes the next
// round start; one thread at a time does.
class RoundsCall final : public CallInFlight {
 public:
  RoundsCall(CallSpec spec, std::vector<CallTensor> tensors)
      : spec_(std::move(spec)), tensors_(std::move(tensors)) {
    for (const CallTensor& each : tensors_) {
      if (each.compressor == nullptr) {
        sent_.push_back(each);
        counts_.push_back(1);
      } else {
        add_to_round(each.compressor->compress(each.input));
      }
    }
    submit_round();
  }

  bool wait_until(TimePoint deadline) override {
    std::unique_lock turn(turn_, std::defer_lock);
    while (!turn.try_lock_until(engine::InterruptibleWaits::look_before(deadline))) {
      engine::InterruptibleWaits::look();
      if (Clock::now() >= deadline) return false;
    }
    while (!done_) {
      if (!round_call_->wait_until(deadline)) return false;
      finish_round();
    }
    return true;
  }

  // A wait that is interrupted is no end of the call: finish_round() finds the round over.
  const CallResult& result(MaybeStream reader) override {
    while (!wait_until(Clock::now() + kLook)) {
    }
    if (error_ != nullptr) std::rethrow_exception(error_);
    for (const Tensor& tensor : result_.tensors) {
      if (is_on_cpu(tensor)) continue;
      if (!tensor.in_stream_order()) synchronize(tensor.device());
      if (reader) hand_over(tensor, *reader);
    }
    return result_;
  }

  bool flagged() const override {
    if (!flagged_) std::rethrow_exception(error_);
    return *flagged_;
  }

  Device device() const override {
    for (const CallTensor& each : tensors_) {
      if (!is_on_cpu(each.output)) return each.output.device();
    }
    return {};
  }

  // Makes the next round start where one has ended.
  engine::Handle awaited() override {
    const std::lock_guard turn(turn_);
    while (!done_) {
      const engine::Handle next = round_call_->awaited();
      if (!next.done()) return next;
      finish_round();
    }
    return {};
  }

 private:
  // What one tensor of the call sends in this round.
  void add_to_round(const std::vector<Tensor>& travelling) {
    counts_.push_back(travelling.size());
    for (const Tensor& each : travelling) {
      check_tensor(spec_, each);
      sent_.push_back({.input = each, .output = each, .shape = each.shape()});
    }
  }

  void submit_round() {
    std::vector<CallTensor> sent = std::exchange(sent_, {});
    if (round_ == 0) {
      round_call_ = start(spec_, sent);  // from here on the call has a name
    } else {
      CallSpec spec = spec_;
      spec.name += ".round" + std::to_string(round_);
      spec.flagged = false;
      round_call_ = start(spec, sent);
    }
  }

  // Waits for the round; starts the next one, or ends the call.
  void finish_round() {
    try {
      const auto reduced = round_call_->result({}).tensors;
      if (round_ == 0) flagged_ = round_call_->flagged();
      const std::vector<std::size_t> counts = std::exchange(counts_, {});
      ++round_;
      auto next = reduced.begin();
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        const auto end = next + static_cast<std::ptrdiff_t>(counts[i]);
        continue_tensor(tensors_[i], {next, end});
        next = end;
      }
      if (sent_.empty()) {
        finish();
      } else {
        submit_round();
      }
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
  }

  void continue_tensor(const CallTensor& tensor, std::vector<Tensor> reduced) {
    const bool compressed = tensor.compressor != nullptr;
    std::vector<Tensor> travelling;
    if (compressed && round_ < tensor.compressor->rounds()) {
      travelling = tensor.compressor->next_round(round_, std::move(reduced));
    } else if (compressed && round_ == tensor.compressor->rounds()) {
      tensor.compressor->decompress(std::move(reduced), tensor.output);
    }
    add_to_round(travelling);
  }

  void finish() {
    for (const CallTensor& each : tensors_) result_.tensors.push_back(each.output);
    done_ = true;
  }

  CallSpec spec_;
  const std::vector<CallTensor> tensors_;
  std::timed_mutex turn_;            // guards what follows
  std::vector<CallTensor> sent_;     // the round that is being made
  std::vector<std::size_t> counts_;  // of it, how many belong to each tensor
  int round_ = 0;
  std::shared_ptr<CallInFlight> round_call_;
  std::optional<bool> flagged_;  // known after the first round, which all ranks have
  bool done_ = false;
  std::exception_ptr error_;
  CallResult result_;
};

CallSpec spec_of(const AllreduceOptions& options) {
  CallSpec spec = make_spec(CollectiveKind::kAllreduce, options.process_set, options.name);
  spec.op = options.op;
  spec.prescale = options.prescale_factor;
  spec.postscale = options.postscale_factor;
  spec.wire = options.compression.wire();
  const bool linear = options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum;
  if (!options.compression.is_none() && !linear) {
    throw InvalidArgumentError(full_name(spec) + ": compression " + options.compression.name() +
                               " works with Average and Sum, not with " +
                               std::string(name_of(options.op)));
  }
  return spec;
}

}  // namespace

std::shared_ptr<CallInFlight> start_allreduce(std::span<CallTensor> tensors,
                                              const AllreduceOptions& options,
                                              std::shared_ptr<const engine::CallLabels> labels,
                                              bool flagged) {
  CallSpec spec = spec_of(options);
  spec.flagged = flagged;
  bool compressed = false;
  for (CallTensor& each : tensors) {
    check_tensor(spec, each.input);
    each.shape = each.input.shape();
    compressed = compressed || each.compressor != nullptr;
  }
  if (compressed) {
    return std::make_shared<RoundsCall>(
        std::move(spec), std::vector<CallTensor>(std::make_move_iterator(tensors.begin()),
                                                 std::make_move_iterator(tensors.end())));
  }
  spec.labels = std::move(labels);
  return start(spec, tensors);
}

}  // namespace hvd
