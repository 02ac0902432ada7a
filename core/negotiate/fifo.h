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

}  // namespace hvd
