#pragma once

#include <memory>
#include <vector>

namespace hvd {

class GradientReducer;

// The reducers of one parameter's gradient, of which one may take it. There are several where an
// optimizer was made anew and something still holds the old one: a list of trials, a traceback, a
// scheduler, a notebook cell that was run twice.
class GradientClaims {
 public:
  // Those of the parameter that `identity` tells from others that live at the same time.
  static std::shared_ptr<GradientClaims> of(const void* identity);

  void add(GradientReducer* reducer) { reducers_.push_back(reducer); }
  void remove(const GradientReducer* reducer) { std::erase(reducers_, reducer); }
  // The one that was made last, of those outside of no_sync() if there are any. Null: none.
  const GradientReducer* in_charge() const;
  // As they were made.
  const std::vector<GradientReducer*>& reducers() const { return reducers_; }

 private:
  std::vector<GradientReducer*> reducers_;
};

}  // namespace hvd
