#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

// Hooks of one kind in the order they were added. A hook may remove itself or others.
template <typename Hook>
struct HookList {
  std::uint64_t add(Hook hook) {
    entries.emplace_back(++last, std::move(hook));
    return last;
  }
  void remove(std::uint64_t id) {
    std::erase_if(entries, [&](const auto& entry) { return entry.first == id; });
  }

  std::vector<std::pair<std::uint64_t, Hook>> entries;
  std::uint64_t last = 0;
};

struct Hooks {
  Module* owner = nullptr;
  HookList<ForwardPreHook> before;
  HookList<ForwardHook> after;
  HookList<BackwardHook> backward;
};

// Runs `body(input)` between the hooks. Backward hooks are not called any more once the module and
// with it its hooks are gone.
Tensor call_with_hooks(const std::shared_ptr<Hooks>& hooks, const Tensor& input,
                       const std::function<Tensor(const Tensor&)>& body);

}  // namespace hvd::nn
