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

// Runs the graph behind `roots` once, latest operation first, without recursion. A leaf's gradient
// is added to leaf.grad() and its hooks run as soon as the last operation that feeds it has run.
// Frees what it passed unless retain_graph. Equal graphs give equal bits.
void backward(const std::vector<Root>& roots, bool retain_graph);

// The same, but returns the gradients of `wanted` (leaves or results) and leaves every grad()
// alone. Undefined where the graph does not reach.
std::vector<Tensor> gradients(const std::vector<Root>& roots, const std::vector<Tensor>& wanted,
                              bool retain_graph);

}  // namespace autograd
}  // namespace hvd
