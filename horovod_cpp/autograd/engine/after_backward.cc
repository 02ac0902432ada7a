#include "horovod_cpp/autograd/engine/after_backward.h"

#include <algorithm>

namespace hvd {
namespace autograd {
namespace {

thread_local AfterBackward* current = nullptr;
thread_local std::uint64_t passes = 0;

}  // namespace

AfterBackward::AfterBackward()
    : previous_(std::exchange(current, this)),
      pass_(previous_ == nullptr ? ++passes : previous_->pass_) {}

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

std::uint64_t current_pass() {
  return current == nullptr ? 0 : current->pass_;
}

}  // namespace autograd
}  // namespace hvd
