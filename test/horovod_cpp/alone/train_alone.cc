// A training program of one process, linked with the rooms of tensors, autograd, nn, optim and data
// alone: alone_test.cc looks for the engine in it.
#include <cstdio>
#include <memory>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"

int main() {
  using namespace hvd;
  Generator generator(1);
  const Tensor inputs = randn({32, 4}, DType::kF32, generator);
  const Tensor targets = inputs.slice(1, 0, 1);
  nn::Sequential model(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 1));
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  data::DataLoader loader(
      std::make_shared<data::TensorDataset>(std::vector<Tensor>{inputs, targets}),
      {.batch_size = 8, .shuffle = true});
  double first = 0.0;
  double last = 0.0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    last = 0.0;
    for (const data::Sample& batch : loader) {
      const Tensor loss = mse_loss(model(batch[0]), batch[1]);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      last += loss.item();
    }
    if (epoch == 0) first = last;
  }
  std::printf("loss %g, then %g\n", first, last);
  return last < first / 4 ? 0 : 1;
}
