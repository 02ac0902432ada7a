#include "horovod_cpp/autograd/grad_mode.h"

namespace hvd {
namespace {

thread_local bool enabled = true;

}  // namespace

bool grad_enabled() noexcept {
  return enabled;
}

NoGradGuard::NoGradGuard() noexcept : previous_(enabled) {
  enabled = false;
}

NoGradGuard::~NoGradGuard() {
  enabled = previous_;
}

}  // namespace hvd
