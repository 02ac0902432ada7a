#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "horovod_cpp/autograd/node.h"

namespace hvd {

// While on, backward() checks every gradient that an operation returns and throws
// InvalidArgumentError naming the first operation that gives a NaN. For all threads; off at the
// start. Costs one pass over every gradient.
void set_detect_anomaly(bool enabled) noexcept;
bool anomaly_enabled() noexcept;

// Sets it while it lives.
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool enabled = true) noexcept : previous_(anomaly_enabled()) {
    set_detect_anomaly(enabled);
  }
  ~DetectAnomalyGuard() { set_detect_anomaly(previous_); }
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  bool previous_;
};

namespace autograd {

// Where backward() starts, and with which gradient.
struct Root {
  Tensor tensor;
  Tensor gradient;
};

struct Options {
  bool retain_graph = false;
  bool create_graph = false;  // the gradients are recorded; implies retain_graph
};

// Runs the graph behind `roots` once, latest operation first, without recursion. A leaf's gradient
// is added to leaf.grad() and its hooks run as soon as the last operation that feeds it has run.
// Frees what it passed unless told to retain it. Equal graphs give equal bits. Throws
// InvalidArgumentError naming the operation when anomaly detection is on (set_detect_anomaly) and
// it returns a NaN.
void backward(const std::vector<Root>& roots, Options options);

// The same, but returns the gradients of `wanted` (leaves or results) and leaves every grad()
// alone. Undefined where the graph does not reach.
std::vector<Tensor> gradients(const std::vector<Root>& roots, const std::vector<Tensor>& wanted,
                              Options options);

// Calls `function` when the backward() that runs on this thread has delivered all its gradients,
// once for each `key` however often it is asked for. Nothing is called when that pass throws, nor
// outside a pass, nor for grad(), which delivers nothing.
void after_backward(const void* key, std::function<void()> function);

// Tells passes of this thread apart: a number for each backward(), that of the outermost one where
// they nest. 0 outside.
std::uint64_t current_pass();

}  // namespace autograd
}  // namespace hvd
