#include "horovod_cpp/autograd/modes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd {
namespace {

thread_local bool recording = true;

}  // namespace

bool grad_enabled() noexcept {
  return recording;
}

void set_grad_enabled(bool enabled) noexcept {
  recording = enabled;
}

AutoGradMode::AutoGradMode(bool enabled) noexcept : previous_(recording) {
  recording = enabled;
}

AutoGradMode::~AutoGradMode() {
  recording = previous_;
}

namespace {

// A copy of a leaf for what stands for it on this thread, recorded or not.
using CastKey = std::tuple<const void*, const void*, DType, bool>;

struct Cast {
  Tensor leaf;  // and its stand-in, so that nothing else gets their ids
  Tensor stand_in;
  std::uint64_t version;
  Tensor copy;
};

struct State {
  bool enabled = false;
  DType dtype = DType::kBF16;
  bool cache_enabled = true;
  int depth = 0;  // guards that live
  std::map<CastKey, Cast> casts;
};

thread_local State state;

bool is_kept(const Tensor& a) {
  return state.cache_enabled && a.dtype() == DType::kF32 && a.is_leaf() && a.requires_grad();
}

Tensor kept_cast(const Tensor& leaf) {
  const Tensor stand_in = autograd::substitute_for(leaf);
  const CastKey key = {leaf.id(), stand_in.id(), state.dtype, grad_enabled()};
  const auto found = state.casts.find(key);
  if (found != state.casts.end() && found->second.version == version_of(leaf)) {
    return found->second.copy;
  }
  Tensor copy = autograd::cast(leaf, state.dtype);
  if (copy.requires_grad()) copy.record()->node->shared = true;
  state.casts.insert_or_assign(key, Cast{leaf, stand_in, version_of(leaf), copy});
  return copy;
}

}  // namespace

bool is_autocast_enabled() noexcept {
  return state.enabled;
}

DType autocast_dtype() noexcept {
  return state.dtype;
}

void clear_autocast_cache() noexcept {
  state.casts.clear();
}

AutocastGuard::AutocastGuard(DType dtype, bool enabled, bool cache_enabled)
    : dtype_(state.dtype), enabled_(state.enabled), cache_enabled_(state.cache_enabled) {
  if (!hvd::is_half(dtype)) {
    throw InvalidArgumentError("autocast: dtype ", dtype, ": expected bfloat16 or float16");
  }
  state.dtype = dtype;
  state.enabled = enabled;
  state.cache_enabled = cache_enabled;
  ++state.depth;
}

AutocastGuard::~AutocastGuard() {
  state.dtype = dtype_;
  state.enabled = enabled_;
  state.cache_enabled = cache_enabled_;
  if (--state.depth == 0) clear_autocast_cache();
}

namespace autograd {

Tensor cast(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype) return a;
  return mapped(a, kernels::cast(a, dtype), "to",
                [from = a.dtype()](const Tensor& gradient) { return cast(gradient, from); });
}

Tensor widened(const Tensor& a) {
  return is_half(a) ? cast(a, DType::kF32) : a;
}

Tensor rounded_back(const Tensor& result, const Tensor& operand) {
  return state.enabled ? result : cast(result, operand.dtype());
}

Tensor lowered(const Tensor& a) {
  if (!state.enabled || !a.defined() || a.dtype() == state.dtype) return a;
  if (a.dtype() != DType::kF32 && !is_half(a)) return a;
  return is_kept(a) ? kept_cast(a) : cast(a, state.dtype);
}

bool computes_in_float32(std::initializer_list<const Tensor*> operands) {
  bool any = false;
  bool all = true;
  for (const Tensor* operand : operands) {
    any = any || is_half(*operand);
    all = all && operand->dtype() == (*operands.begin())->dtype();
  }
  return any && (state.enabled || all);
}

DType wider(DType a, DType b) {
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return a == b ? a : DType::kF32;
}

std::vector<Tensor> in_one_dtype(std::vector<Tensor> parts) {
  DType dtype = parts[0].dtype();
  bool mixed = false;
  for (const Tensor& part : parts) {
    if (!mixes(parts[0], part)) continue;
    mixed = true;
    dtype = wider(dtype, part.dtype());
  }
  if (!mixed) return parts;
  for (Tensor& part : parts) {
    if (is_floating(part.dtype())) part = cast(part, dtype);
  }
  return parts;
}

bool mixes(const Tensor& a, const Tensor& b) {
  return state.enabled && a.dtype() != b.dtype() && is_floating(a.dtype()) &&
         is_floating(b.dtype());
}

namespace {

thread_local const TensorSubstitution::Pairs* current = nullptr;

const void* replaced_id(const std::pair<Tensor, Tensor>& pair) {
  return pair.first.id();
}

}  // namespace

TensorSubstitution::TensorSubstitution(const Pairs& pairs) : sorted_(pairs), previous_(current) {
  std::ranges::sort(sorted_, std::less<>(), replaced_id);
  current = &sorted_;
}

TensorSubstitution::~TensorSubstitution() {
  current = previous_;
}

Tensor substitute_for(const Tensor& tensor) {
  if (current == nullptr) return tensor;
  const auto found = std::ranges::lower_bound(*current, tensor.id(), std::less<>(), replaced_id);
  return found != current->end() && found->first.is(tensor) ? found->second : tensor;
}

}  // namespace autograd
}  // namespace hvd
