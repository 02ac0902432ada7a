#include "core/runtime/identity_contribution.h"

#include <cstddef>
#include <utility>

#include "core/base/reduction.h"
#include "core/negotiate/fusion_plan.h"

namespace hvd {
namespace {

using Kind = CollectiveKind;

constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// This rank's share of a reducescatter, where it stands in the input.
TensorView own_share(const TensorView& input, const Shape& shape, int set_size, Rank position) {
  const auto rows = scattered_rows(shape.front(), set_size);
  std::int64_t before = 0;
  for (Rank rank = 0; rank < position; ++rank) before += rows[static_cast<std::size_t>(rank)];
  const std::int64_t row = shape.front() == 0 ? 0 : input.numel / shape.front();
  TensorView share = input;
  share.data = static_cast<std::byte*>(input.data) +
               static_cast<std::size_t>(before * row) * size_of(input.dtype);
  share.numel = rows[static_cast<std::size_t>(position)] * row;
  return share;
}

void write_neutral(const Request& request, const TensorView& view, Collective& collective) {
  if (request.device == DeviceKind::kCpu) {
    return fill_neutral(request.op, request.dtype, view.data, view.numel);
  }
  std::vector<std::byte> values(view.bytes());
  fill_neutral(request.op, request.dtype, values.data(), view.numel);
  collective.write(values.data(), view.data, values.size());
}

}  // namespace

Buffer ScratchMemory::take(Collective& collective, std::size_t bytes) {
  for (Buffer& buffer : buffers_) {
    if (buffer.owner.use_count() != 1) continue;
    if (buffer.bytes < bytes) buffer = collective.allocate_result(bytes);
    return buffer;
  }
  return buffers_.emplace_back(collective.allocate_result(bytes));
}

InFlightPtr identity_contribution(const Request& request, const SetMembers& set, Rank position,
                                  Collective& collective, ScratchMemory& scratch) {
  auto entry = std::make_shared<InFlight>();
  entry->submission.request = request;
  auto& parts = entry->submission.parts;
  parts.resize(request.shapes.size());
  const TensorView nothing = {nullptr, 0, request.dtype, {request.device, 0}};
  if (request.kind > Kind::kBroadcast && request.kind != Kind::kReducescatter &&
      request.kind != Kind::kReduce) {
    for (Part& part : parts) part.input.view = nothing;
    return entry;
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) bytes += align_up(request.bytes_of(i));
  const Buffer memory = scratch.take(collective, bytes);
  auto* next = static_cast<std::byte*>(memory.data);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& shape = request.shapes[i];
    TensorView view = nothing;
    view.data = next;
    view.numel = numel_of(shape);
    if (request.kind != Kind::kBroadcast) write_neutral(request, view, collective);
    parts[i].input = {view, memory.owner};
    parts[i].output.view =
        request.kind == Kind::kReducescatter ? own_share(view, shape, set.size(), position) : view;
    next += align_up(request.bytes_of(i));
  }
  return entry;
}

}  // namespace hvd
