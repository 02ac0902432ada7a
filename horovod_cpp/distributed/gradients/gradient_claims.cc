#include "horovod_cpp/distributed/gradients/gradient_claims.h"

#include <algorithm>
#include <map>

#include "core/base/thread_annotations.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

namespace hvd {

namespace {

struct Known {
  Mutex mutex;
  std::map<const void*, std::weak_ptr<GradientClaims>> claims HVD_GUARDED_BY(mutex);
};

Known& known() {
  static Known& instance = *new Known;  // never ends: Python may end reducers after main()
  return instance;
}

void forget(const void* identity) {
  const MutexLock lock(known().mutex);
  const auto found = known().claims.find(identity);
  if (found != known().claims.end() && found->second.expired()) known().claims.erase(found);
}

}  // namespace

std::shared_ptr<GradientClaims> GradientClaims::of(const void* identity) {
  const MutexLock lock(known().mutex);
  std::weak_ptr<GradientClaims>& place = known().claims[identity];
  std::shared_ptr<GradientClaims> claims = place.lock();
  if (claims == nullptr) {
    claims.reset(new GradientClaims, [identity](GradientClaims* each) {
      delete each;
      forget(identity);
    });
    place = claims;
  }
  return claims;
}

void GradientClaims::remove(const GradientReducer* reducer) {
  std::erase_if(claims_, [reducer](const Claim& each) { return each.reducer == reducer; });
}

bool GradientClaims::is_left_to(const GradientReducer* reducer) const {
  for (auto each = claims_.rbegin(); each != claims_.rend() && each->reducer != reducer; ++each) {
    if (!each->reducer->held()) return false;
  }
  return true;
}

}  // namespace hvd
