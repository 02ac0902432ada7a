#pragma once

#include <vector>

#include "horovod_cpp/autograd/node.h"

namespace hvd {
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
// InvalidArgumentError naming the operation when anomalies are looked for (anomaly.h) and it gives
// a NaN.
void backward(const std::vector<Root>& roots, Options options);

// The same, but returns the gradients of `wanted` (leaves or results) and leaves every grad()
// alone. Undefined where the graph does not reach.
std::vector<Tensor> gradients(const std::vector<Root>& roots, const std::vector<Tensor>& wanted,
                              Options options);

}  // namespace autograd
}  // namespace hvd
