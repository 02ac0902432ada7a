#include "horovod_cpp/distributed/collectives/engine_call.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <ranges>
#include <utility>

#include "core/base/allocators.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/config/log.h"
#include "core/negotiate/messages/request.h"
#include "core/negotiate/process_sets.h"
#include "core/runtime/runtime.h"
#include "horovod_cpp/distributed/collectives/attempts.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd {
namespace {

using engine::Handle;
using engine::Outcome;
using engine::Part;
using engine::Request;
using engine::Result;
using engine::Submission;

bool has_come_until(TimePoint deadline, const Handle& handle, bool in_stream_order) {
  const Duration left = std::max(deadline - Clock::now(), Duration::zero());
  return in_stream_order ? handle.ordered_within(left) : handle.wait_for(left);
}

const Outcome& outcome_of(const Handle& handle) {
  engine::Fence past;
  return handle.wait_enqueued(past);
}

class EngineCall final : public CallInFlight {
 public:
  EngineCall(std::vector<Handle> handles, std::vector<CallTensor> tensors)
      : handles_(std::move(handles)),
        tensors_(std::move(tensors)),
        in_stream_order_(std::ranges::all_of(tensors_, [](const CallTensor& each) {
          return !each.output.defined() || each.output.in_stream_order();
        })) {}

  bool wait_until(TimePoint deadline) override {
    return std::all_of(handles_.begin(), handles_.end(), [&](const Handle& handle) {
      return has_come_until(deadline, handle, in_stream_order_);
    });
  }

  const CallResult& result(MaybeStream reader) override {
    Attempts attempts;
    // All of them, so that no tensor is in flight any more.
    for (std::size_t i = 0; i < handles_.size(); ++i) attempts.run([&] { wait(i, reader); });
    attempts.throw_first();
    const MutexLock lock(mutex_);
    if (!result_) result_ = collect();
    return *result_;
  }

  bool flagged() const override {
    return std::ranges::any_of(handles_, [](const Handle& h) { return outcome_of(h).flagged; });
  }

  Device device() const override {
    for (const CallTensor& each : tensors_) {
      if (each.device.kind != DeviceKind::kCpu) return each.device;
    }
    return {};
  }

  Handle awaited() override {
    const auto next = std::ranges::find_if_not(handles_, &Handle::done);
    return next == handles_.end() ? Handle() : *next;
  }

 private:
  void wait(std::size_t handle, MaybeStream reader) const {
    if (!in_stream_order_) {
      handles_[handle].wait();
      return;
    }
    Readers readers(handles_[handle], reader);
    for (const CallTensor& each : tensors_) {
      if (each.handle != handle || each.device.kind == DeviceKind::kCpu) continue;
      readers.add(each.device, each.stream);
      readers.add(each.device,
                  each.output.defined() ? each.output.stream() : stream_of(each.device));
    }
  }

  CallResult collect() const {
    CallResult result;
    for (const CallTensor& each : tensors_) {
      const Outcome& outcome = outcome_of(handles_[each.handle]);
      if (each.output.defined() || each.part >= outcome.results.size()) {
        result.tensors.push_back(each.output);
        continue;
      }
      const Result& part = outcome.results[each.part];
      result.tensors.push_back(wrap(each, part));
      if (result.rows_of.empty()) result.rows_of = part.rows_of;
    }
    for (const Handle& handle : handles_) result.number = outcome_of(handle).number;
    return result;
  }

  // Undefined where the engine made no result: not on the root.
  static Tensor wrap(const CallTensor& tensor, const Result& part) {
    if (part.rows_of.empty()) return {};
    Shape shape = tensor.shape;
    shape.insert(shape.begin(),
                 std::accumulate(part.rows_of.begin(), part.rows_of.end(), std::int64_t{0}));
    const auto& [view, owner] = part.gathered;
    if (owner == nullptr) return Tensor::empty(std::move(shape), view.dtype, tensor.device);
    return Tensor::wrap_on(tensor.device, stream_of(tensor.device), view.data, std::move(shape),
                           view.dtype, owner);
  }

  const std::vector<Handle> handles_;
  const std::vector<CallTensor> tensors_;
  const bool in_stream_order_;
  Mutex mutex_;
  std::optional<CallResult> result_ HVD_GUARDED_BY(mutex_);  // constant once it is there
};

// One tensor, whose result is written where the caller said.
class TensorCall final : public CallInFlight {
 public:
  // `stream`: of the input.
  TensorCall(Handle handle, Tensor output, std::uintptr_t stream)
      : handle_(std::move(handle)), stream_(stream) {
    result_.tensors.push_back(std::move(output));
  }
  bool wait_until(TimePoint deadline) override {
    return has_come_until(deadline, handle_, output().in_stream_order());
  }
  const CallResult& result(MaybeStream reader) override {
    if (!output().in_stream_order()) {
      handle_.wait();
      return result_;
    }
    Readers readers(handle_, reader);
    readers.add(device(), stream_);
    readers.add(device(), output().stream());
    return result_;
  }
  bool flagged() const override { return outcome_of(handle_).flagged; }
  Device device() const override { return output().device(); }

  Handle awaited() override { return handle_; }

 private:
  const Tensor& output() const { return result_.tensors.front(); }

  const Handle handle_;
  const std::uintptr_t stream_;
  CallResult result_;
};

// A wire format serves these; other tensors of a compressed call travel as they are.
WireFormat wire_of(const CallSpec& spec, DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 ? spec.wire : WireFormat::kNone;
}

// Says once per series of names, on the first rank of the set, that the average of integers is
// truncated: the mean of 3 and 4 is then 3, which looks right. Does nothing for other calls.
void warn_of_truncation(const CallSpec& spec, DType dtype) {
  const bool truncates = reduces(spec.kind) && spec.op == ReduceOp::kAverage &&
                         !is_floating(dtype) && !is_complex(dtype) && dtype != DType::kBool;
  if (!truncates || spec.set.size() == 1 || spec.set.rank() != 0) return;
  const std::string name = full_name(spec);
  // Calls in a row are often told apart by a number at the end; those without a name always are.
  const std::string series = name.substr(0, name.find_last_not_of("0123456789") + 1);
  if (!spec.set.world()->is_first_of("truncation of " + series)) return;
  const std::string call = spec.automatic_name ? "an unnamed " + std::string(name_of(spec.kind))
                                               : engine::readable_name(name);
  log(LogLevel::kWarning, call + " averages " + std::string(name_of(dtype)) +
                              ": the mean is truncated to a whole number (3 and 4 become 3); "
                              "average a floating dtype, or take the Sum");
}

// Gives a call without a name its number, and takes it back if the call was not submitted: the next
// one must meet what the other ranks submitted.
class Numbering {
 public:
  explicit Numbering(CallSpec& spec) : spec_(spec), numbers_(spec.name.empty()) {
    if (!numbers_) return;
    number_ = spec.set.world()->count_unnamed(spec.kind, spec.set.id());
    spec.name = "noname." + std::to_string(number_);
  }
  ~Numbering() {
    if (numbers_) spec_.set.world()->uncount_unnamed(spec_.kind, spec_.set.id(), number_);
  }
  Numbering(const Numbering&) = delete;
  Numbering& operator=(const Numbering&) = delete;
  void keep() { numbers_ = false; }

 private:
  CallSpec& spec_;
  bool numbers_;
  std::uint64_t number_ = 0;
};

void fill_in(Request& request, const CallSpec& spec) {
  request.name = full_name(spec);
  request.kind = spec.kind;
  request.set = spec.set.id();
  request.op = spec.op;
  request.root = spec.root;
  request.prescale = spec.prescale;
  request.postscale = spec.postscale;
  request.automatic_name = spec.automatic_name;
  request.joins_average = spec.joins_average;
  request.flagged = spec.flagged;
}

// The group of the tensors of one dtype and kind of device, after `others` groups.
void begin_group(Request& request, const CallSpec& spec, const Tensor& tensor, std::size_t others) {
  fill_in(request, spec);
  request.dtype = tensor.dtype();
  request.device = tensor.device().kind;
  if (others > 0) {
    request.name =
        engine::name_of_other(request.name, engine::number_of(request.dtype, request.device));
  }
  request.wire = wire_of(spec, tensor.dtype());
}

Part part_of(CallTensor& tensor, WireFormat wire, std::size_t number) {
  Part part;
  part.number = number;
  part.input = tensor.input.lease();
  if (tensor.output.defined()) {
    part.output = tensor.output.lease();
    bump_version(tensor.output);
  }
  if (tensor.residual.defined() && wire != WireFormat::kNone) {
    part.residual = tensor.residual.lease();
  }
  part.rows = tensor.rows;
  part.splits = std::move(tensor.splits);
  return part;
}

// Puts the tensor, the call's so-manyth, into the submission of its dtype and kind of device.
void add_to_group(const CallSpec& spec, CallTensor& tensor, std::size_t number,
                  RecycledVector<Submission>& submissions) {
  const DType dtype = tensor.input.dtype();
  tensor.device = tensor.input.device();
  tensor.stream = tensor.input.stream();
  auto group = std::ranges::find_if(submissions, [&](const Submission& each) {
    return each.request.dtype == dtype && each.request.device == tensor.device.kind;
  });
  if (group == submissions.end()) {
    const std::size_t others = submissions.size();
    begin_group(submissions.emplace_back().request, spec, tensor.input, others);
    group = submissions.end() - 1;
  }
  tensor.handle = static_cast<std::size_t>(group - submissions.begin());
  tensor.part = group->parts.size();
  // A result that the engine allocates needs it again.
  Shape& shape = tensor.shape;
  group->request.shapes.push_back(tensor.output.defined() ? std::move(shape) : shape);
  group->parts.push_back(part_of(tensor, group->request.wire, number));
  tensor.input = tensor.residual = {};
}

template <typename Range>
auto moved(Range& from) {
  using Item = std::ranges::range_value_t<Range>;
  return std::vector<Item>(std::make_move_iterator(from.begin()),
                           std::make_move_iterator(from.end()));
}

}  // namespace

void CallInFlight::then(const std::shared_ptr<engine::CallbackQueue>& queue,
                        std::function<void()> callback) {
  awaited().then(queue, [self = shared_from_this(), queue, callback = std::move(callback)] {
    self->awaited().done() ? callback() : self->then(queue, callback);
  });
}

void synchronize_all(const std::vector<CollectiveHandle>& handles) {
  Attempts attempts;
  for (const CollectiveHandle& handle : handles) attempts.run([&] { handle.synchronize(); });
  attempts.throw_first();
}

CallSpec make_spec(CollectiveKind kind, const ProcessSet& set, const std::string& name) {
  CallSpec spec;
  spec.kind = kind;
  spec.set = set.resolved();           // what follows asks it again and again
  static_cast<void>(spec.set.rank());  // throws unless this rank is in it
  spec.automatic_name = name.empty();
  spec.name = name;
  return spec;
}

std::string full_name(const CallSpec& spec) {
  const ProcessSetId set = spec.set.id();
  const std::string_view kind = name_of(spec.kind);
  const std::string_view name = spec.name.empty() ? "noname" : std::string_view(spec.name);
  std::string full;
  if (set != kWorldSet) full.append("set").append(std::to_string(set)).append(".");
  if (name.starts_with('/')) return full.append(name.substr(1));
  full.reserve(full.size() + kind.size() + 1 + name.size());  // which may need no allocation
  return full.append(kind).append(".").append(name);
}

void check_tensor(const CallSpec& spec, const Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgumentError(full_name(spec) + ": the tensor is undefined");
  if (!tensor.is_contiguous()) {
    throw InvalidArgumentError(full_name(spec) + ": the tensor of shape " +
                               to_string(tensor.shape()) + " is not contiguous");
  }
  if (tensor.device().kind == DeviceKind::kCpu) return;
  expect_served(*spec.set.world(), tensor.device(), full_name(spec) + ": the tensor");
}

void check_rows(const CallSpec& spec, const Tensor& tensor) {
  check_tensor(spec, tensor);
  if (tensor.dim() == 0) {
    throw InvalidArgumentError(full_name(spec) + ": a scalar has no first axis to work along");
  }
}

void check_root(const CallSpec& spec) {
  const std::vector<Rank> ranks = spec.set.ranks();
  if (std::find(ranks.begin(), ranks.end(), spec.root) != ranks.end()) return;
  throw InvalidArgumentError(
      engine::readable_name(full_name(spec)) + ": root rank " + std::to_string(spec.root) +
      (spec.set.id() == kWorldSet
           ? " does not exist: this job"
           : " is not in " + engine::describe_set(spec.set.id()) + ", which") +
      " has " + describe_ranks(ranks));
}

std::shared_ptr<CallInFlight> start(CallSpec& spec, std::span<CallTensor> tensors) {
  if (tensors.empty()) {
    return std::make_shared<EngineCall>(std::vector<Handle>{}, std::vector<CallTensor>{});
  }
  Numbering numbering(spec);
  RecycledVector<Submission> submissions;
  const std::shared_ptr<World> world = spec.set.world();
  ReadyPoint ready(*world);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ready.add(tensors[i].input);
    ready.add(tensors[i].output);
    add_to_group(spec, tensors[i], i, submissions);
  }
  for (const Submission& other : submissions | std::views::drop(1)) {
    submissions.front().request.numbers.push_back(
        engine::number_of(other.request.dtype, other.request.device));
  }
  RecycledVector<Handle> handles(submissions.size());
  const bool labelled = spec.labels != nullptr && spec.labels->names.size() == tensors.size();
  const std::uint64_t call = labelled ? ++spec.labels->calls : 0;
  for (Submission& submission : submissions) {
    warn_of_truncation(spec, submission.request.dtype);
    if (submission.request.device != DeviceKind::kCpu) submission.ready = ready.fence();
    if (labelled) submission.labels = spec.labels;
    submission.call = call;
  }
  world->runtime().submit(submissions, handles);
  numbering.keep();
  if (CallTensor& only = tensors.front(); tensors.size() == 1 && only.output.defined()) {
    return make_recycled<TensorCall>(std::move(handles.front()), std::move(only.output),
                                     only.stream);
  }
  return std::make_shared<EngineCall>(moved(handles), moved(tensors));
}

std::shared_ptr<CallInFlight> start_without_tensors(CallSpec spec,
                                                    std::vector<std::int32_t> numbers) {
  Numbering numbering(spec);
  Submission submission;
  fill_in(submission.request, spec);
  submission.request.numbers = std::move(numbers);
  std::vector<Handle> handles;
  handles.push_back(spec.set.world()->runtime().submit(std::move(submission)));
  numbering.keep();
  return std::make_shared<EngineCall>(std::move(handles), std::vector<CallTensor>{});
}

std::shared_ptr<CallInFlight> start_transfer(World& world,
                                             engine::PointToPoint::Direction direction,
                                             const Tensor& tensor, Rank peer, int tag) {
  ReadyPoint ready(world);
  ready.add(tensor);
  ready.fence().wait();  // transfers run outside the order of a device's work
  if (direction == engine::PointToPoint::Direction::kReceive) bump_version(tensor);
  return make_recycled<TensorCall>(
      world.runtime().submit(engine::PointToPoint{direction, peer, tag, tensor.lease()}), tensor,
      tensor.stream());
}

}  // namespace hvd
