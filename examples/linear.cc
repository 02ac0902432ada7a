#include <horovod_cpp/horovod.h>

#include <cstdio>

int main() {
  hvd::init();
  hvd::manual_seed(hvd::rank());  // every rank has data of its own
  hvd::nn::Linear net(3, 1);
  auto sgd = std::make_shared<hvd::optim::SGD>(net.parameters(), hvd::optim::SGDOptions{.lr = 0.1});
  hvd::DistributedOptimizer optimizer(sgd, net.named_parameters());
  hvd::broadcast_parameters(net.state_dict());
  for (int step = 0; step < 200; ++step) {
    const hvd::Tensor x = hvd::randn({32, 3});
    optimizer.zero_grad();
    hvd::mse_loss(net.forward(x), hvd::sum(x, {1}, /*keepdim=*/true)).backward();
    optimizer.step();
  }
  const double sum = hvd::sum(net.parameters()[0]).item();
  std::printf("rank %d of %d: weights sum to %.2f\n", hvd::rank(), hvd::size(), sum);
}
