#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace hvd {

class GradientReducer;

// The reducers of one parameter's gradient, of which one may take it. There are several where an
// optimizer was made anew and something still holds the old one: a list of trials, a traceback, a
// scheduler, a notebook cell that was run twice; or where some are meant to be used in turn.
class GradientClaims {
 public:
  // Those of the parameter that `identity` tells from others that live at the same time.
  static std::shared_ptr<GradientClaims> of(const void* identity);

  struct Claim {
    GradientReducer* reducer = nullptr;
    std::size_t index = 0;  // the parameter's number there
  };
  void add(const Claim& claim) { claims_.push_back(claim); }
  void remove(const GradientReducer* reducer);
  // As they were made.
  const std::vector<Claim>& all() const { return claims_; }
  // Null: none.
  GradientReducer* newest() const { return claims_.empty() ? nullptr : claims_.back().reducer; }
  // Whether all that were made after this one are inside no_sync().
  bool is_left_to(const GradientReducer* reducer) const;

 private:
  std::vector<Claim> claims_;
};

}  // namespace hvd
