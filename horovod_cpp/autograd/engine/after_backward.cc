#include "horovod_cpp/autograd/engine/after_backward.h"

#include <algorithm>

namespace hvd {
namespace autograd {
namespace {

thread_local AfterBackward* current = nullptr;

}  // namespace

AfterBackward::AfterBackward() : previous_(std::exchange(current, this)) {}

AfterBackward::~AfterBackward() {
  current = previous_;
}

void AfterBackward::run() {
  const auto calls = std::exchange(calls_, {});
  for (const auto& [key, function] : calls) function();
}

void after_backward(const void* key, std::function<void()> function) {
  if (current == nullptr) return;
  auto& calls = current->calls_;
  const bool known =
      std::ranges::any_of(calls, [&](const auto& call) { return call.first == key; });
  if (!known) calls.emplace_back(key, std::move(function));
}

}  // namespace autograd
}  // namespace hvd
