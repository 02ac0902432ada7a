#include "horovod_cpp/nn/skip_init.h"

namespace hvd {
namespace nn {
namespace {

thread_local bool skips = false;

}  // namespace

SkipInit::SkipInit(bool skip) : before_(skips) {
  skips = skips || skip;
}

SkipInit::~SkipInit() {
  skips = before_;
}

bool SkipInit::active() {
  return skips;
}

}  // namespace nn
}  // namespace hvd
