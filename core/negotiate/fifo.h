#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace hvd {

// First in, first out. Keeps its storage, so that a steady flow allocates nothing.
template <typename T>
class Fifo {
 public:
  template <typename U>
  void push(U&& value) {
    items_.emplace_back(std::forward<U>(value));
  }
  std::optional<T> pop() {
    if (head_ == items_.size()) return std::nullopt;
    std::optional<T> value(std::move(items_[head_++]));
    if (head_ == items_.size()) {
      items_.clear();
      head_ = 0;
    }
    return value;
  }
  bool empty() const { return head_ == items_.size(); }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
};

// Emptied containers whose storage serves again.
template <typename Storage>
class Spares {
 public:
  Storage take() {
    if (items_.empty()) return {};
    Storage storage = std::move(items_.back());
    items_.pop_back();
    return storage;
  }
  void keep(Storage&& storage) {
    if (items_.size() == kMost) return;
    storage.clear();
    items_.push_back(std::move(storage));
  }

 private:
  static constexpr std::size_t kMost = 64;
  std::vector<Storage> items_;
};

}  // namespace hvd
