#pragma once

#include <utility>

namespace hvd {

// While one lives, a variable has another value.
template <typename T>
class Scoped {
 public:
  Scoped(T& variable, T value) : variable_(variable), previous_(std::exchange(variable, value)) {}
  ~Scoped() { variable_ = previous_; }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  T& variable_;
  const T previous_;
};

}  // namespace hvd
