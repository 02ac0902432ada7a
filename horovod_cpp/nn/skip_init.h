#pragma once

namespace hvd {
namespace nn {

// While one lives, the weights of Linear and of convolutions that this thread makes are left
// uninitialised (init::layer_default_ does nothing): for models whose values come from a checkpoint
// or from an initialisation of their own. Their memory is not touched.
class SkipInit {
 public:
  explicit SkipInit(bool skip = true);
  ~SkipInit();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;

  // Whether one lives on this thread.
  static bool active();

 private:
  bool before_;
};

}  // namespace nn
}  // namespace hvd
