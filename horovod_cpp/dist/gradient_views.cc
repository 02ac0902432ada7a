#include "horovod_cpp/dist/gradient_views.h"

#include <utility>

#include "core/negotiate/fusion_plan.h"
#include "horovod_cpp/dist/world.h"

namespace hvd {
namespace {

std::size_t room_for(const Tensor& param) {
  const std::size_t bytes = static_cast<std::size_t>(param.numel()) * size_of(param.dtype());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

GradientViews::GradientViews(std::vector<Tensor> params, const ProcessSet& set,
                             const std::string& name)
    : params_(std::move(params)) {
  std::size_t bytes = 0;
  for (const Tensor& param : params_) bytes += room_for(param);
  if (bytes == 0) params_.clear();
  if (params_.empty()) return;
  const std::string prefix = set.id() == kWorldSet ? "" : "set" + std::to_string(set.id()) + ".";
  // Numbered: an optimizer of equal names may come while this request is on its way.
  const auto number = set.world()->count_unnamed(CollectiveKind::kMakeArena, set.id());
  arena_ = set.world()->runtime().make_arena(
      prefix + "gradients." + std::to_string(number) + "." + name, bytes, set.id());
}

std::vector<Tensor> GradientViews::take() {
  if (params_.empty()) return {};
  const auto arena = arena_.wait();  // if it is interrupted, take() may be called again
  arena_ = {};
  const std::vector<Tensor> params = std::exchange(params_, {});
  if (!arena->shared()) return {};
  std::vector<Tensor> views(params.size());
  for (std::size_t i = params.size(); i-- > 0;) {
    const Lease piece = arena->take(params[i].numel(), params[i].dtype());
    views[i] = Tensor::wrap(piece.view.data, params[i].shape(), params[i].dtype(), piece.owner);
  }
  return views;
}

}  // namespace hvd
