#include "horovod_cpp/autograd/grad_mode.h"

namespace hvd {
namespace {

thread_local bool recording = true;

}  // namespace

bool grad_enabled() noexcept {
  return recording;
}

void set_grad_enabled(bool enabled) noexcept {
  recording = enabled;
}

AutoGradMode::AutoGradMode(bool enabled) noexcept : previous_(recording) {
  recording = enabled;
}

AutoGradMode::~AutoGradMode() {
  recording = previous_;
}

}  // namespace hvd
