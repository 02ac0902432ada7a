#include "core/runtime/arena.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/negotiate/fusion_plan.h"

namespace hvd::engine {

Arena::Arena(ArenaNumber number, ProcessSetId set, Lease memory)
    : number_(number), set_(set), memory_(std::move(memory)) {}

Lease Arena::take(std::int64_t numel, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(numel) * size_of(dtype);
  if (numel < 0 || bytes > this->bytes() - used_) {
    throw InvalidArgumentError("arena: no room for " + std::to_string(numel) + " elements of " +
                               std::string(name_of(dtype)) + "; " +
                               std::to_string(this->bytes() - used_) + " of " +
                               std::to_string(this->bytes()) + " bytes are left");
  }
  auto* const first = static_cast<std::byte*>(memory_.view.data) + used_;
  used_ = std::min(this->bytes(), used_ + align_up(bytes));
  return {{first, numel, dtype, memory_.view.device}, memory_.owner};
}

std::shared_ptr<Arena> ArenaHandle::wait() {
  if (registry_ == nullptr) return arena_;
  const Outcome& outcome = handle_.wait();
  Lease memory = outcome.results.front().gathered;
  memory.view.device = device_;
  arena_ =
      std::make_shared<Arena>(static_cast<ArenaNumber>(outcome.number), set_, std::move(memory));
  std::exchange(registry_, nullptr)->add(*arena_);
  handle_ = {};
  return arena_;
}

void ArenaRegistry::add(const Arena& arena) {
  if (!arena.shared()) return;
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.memory.expired(); });
  const TensorView& view = arena.memory_.view;
  entries_.push_back({arena.number_, arena.set_, view.device.kind,
                      static_cast<const std::byte*>(view.data), arena.bytes(),
                      arena.memory_.owner});
  any_ = true;
}

void ArenaRegistry::place(Submission& submission) const {
  Request& request = submission.request;
  if (!any_ || request.kind != CollectiveKind::kAllreduce || submission.parts.empty()) return;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.set != request.set || !contains(entry, submission.parts.front())) continue;
    // Where the memory is gone something else may lie by now; what the parts keep cannot go.
    if (entry.memory.expired()) continue;
    ArenaPlace place{entry.number, {}};
    for (const Part& part : submission.parts) {
      if (!contains(entry, part)) return;
      const auto* first = static_cast<const std::byte*>(part.input.view.data);
      place.offsets.push_back(static_cast<std::uint64_t>(first - entry.begin));
    }
    request.place = std::move(place);
    if (arena_of(request) == 0) request.place = {};  // the others need not hear of it
    return;
  }
}

bool ArenaRegistry::contains(const Entry& entry, const Part& part) {
  const TensorView& view = part.input.view;
  if (view.data != part.output.view.data || view.numel == 0) return false;
  if (view.device.kind != entry.device) return false;
  const auto* first = static_cast<const std::byte*>(view.data);
  const std::less_equal<const std::byte*> up_to;
  if (!up_to(entry.begin, first) || !up_to(first + view.bytes(), entry.begin + entry.bytes)) {
    return false;
  }
  return static_cast<std::size_t>(first - entry.begin) % size_of(view.dtype) == 0;
}

}  // namespace hvd::engine
