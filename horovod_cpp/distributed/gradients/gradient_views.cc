#include "horovod_cpp/distributed/gradients/gradient_views.h"

#include <algorithm>
#include <utility>

#include "core/negotiate/fusion_plan.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd {
namespace {

std::size_t room_for(const GradientParameter& param) {
  return (param.bytes() + engine::kAlignment - 1) / engine::kAlignment * engine::kAlignment;
}

}  // namespace

GradientViews::GradientViews(std::vector<GradientParameter> params, const ProcessSet& set,
                             const std::string& name)
    : params_(std::move(params)) {
  for (const GradientParameter& param : params_) part_of(param.device).bytes += room_for(param);
  const auto world = set.world();
  const std::string prefix = set.id() == kWorldSet ? "" : "set" + std::to_string(set.id()) + ".";
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.bytes == 0) continue;
    const std::string device = i > 0 ? "." + std::to_string(i) : "";
    part.arena = world->runtime().make_arena(prefix + "gradients." + name + device, part.bytes,
                                             set.id(), part.device);
  }
}

GradientViews::Part& GradientViews::part_of(const Device& device) {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.device == device; });
  if (found != parts_.end()) return *found;
  parts_.emplace_back().device = device;
  return parts_.back();
}

std::vector<Tensor> GradientViews::take() {
  // If a wait is interrupted, take() may be called again.
  for (Part& part : parts_) part.arena.wait();
  std::vector<Tensor> views(params_.size());
  for (std::size_t i = params_.size(); i-- > 0;) {
    const GradientParameter& param = params_[i];
    const auto arena = part_of(param.device).arena.wait();
    if (arena == nullptr || !arena->shared()) continue;
    const Lease piece = arena->take(numel_of(param.shape), param.dtype);
    views[i] = Tensor::wrap_on(param.device, stream_of(param.device), piece.view.data, param.shape,
                               param.dtype, piece.owner);
  }
  params_.clear();
  parts_.clear();
  return views;
}

}  // namespace hvd
