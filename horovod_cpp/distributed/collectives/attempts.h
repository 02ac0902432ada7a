#pragma once

#include <exception>

namespace hvd {

// Goes on after a failure; the first one is thrown at the end.
class Attempts {
 public:
  template <typename Work>
  void run(Work&& work) {
    try {
      work();
    } catch (...) {
      if (first_ == nullptr) first_ = std::current_exception();
    }
  }
  bool failed() const { return first_ != nullptr; }
  void throw_first() const {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace hvd
