// An optimizer of your own: signSGD with momentum (Bernstein et al., 2018), 20 lines on top of
// RuleOptimizer, and wrapped like any other. It learns to add up three numbers.
//
//   hvdrun -np 2 build/cpu/examples/custom_optimizer

#include <cstdio>
#include <exception>
#include <memory>

#include <horovod_cpp/horovod.h>

namespace {

using hvd::Tensor;

// param -= lr * sign(m), where m is the running mean of the gradients.
class SignSGD : public hvd::optim::RuleOptimizer {
 public:
  explicit SignSGD(std::vector<Tensor> params, double lr = 1e-2, double beta = 0.9)
      : RuleOptimizer(hvd::optim::one_group(std::move(params)), traits(lr, beta)) {}

 protected:
  void update(Tensor& param, const Tensor& grad, hvd::optim::ParamState& state,
              const hvd::optim::Options& options) override {
    const double beta = options.at("beta");
    Tensor& m = hvd::optim::state_tensor(state, "m", param);  // zeros at first; checkpoints have it
    m.mul_(beta).add_(grad, 1 - beta);
    param.sub_(hvd::sign(m), options.at("lr"));
  }

 private:
  static Traits traits(double lr, double beta) {
    Traits traits;
    traits.defaults = {{"lr", lr}, {"beta", beta}};
    traits.state_tensors = {"m"};
    // Optional: `traits.check` may refuse values that make no sense.
    return traits;
  }
};

void train() {
  hvd::init();
  hvd::manual_seed(static_cast<std::uint64_t>(hvd::rank()));
  hvd::nn::Linear model(3, 1);
  hvd::DistributedOptimizer optimizer(std::make_shared<SignSGD>(model.parameters()),
                                      model.named_parameters());
  hvd::broadcast_parameters(model.state_dict(), /*root_rank=*/0);
  for (int step = 0; step <= 300; ++step) {
    const Tensor x = hvd::randn({32, 3});  // other numbers on every rank
    const Tensor wanted = hvd::sum(x, {1}, /*keepdim=*/true);
    optimizer.zero_grad();
    const Tensor loss = hvd::mse_loss(model.forward(x), wanted);
    loss.backward();
    optimizer.step();
    if (step % 100 != 0) continue;
    const double mean = hvd::allreduce(loss.detach(), {.name = "loss"}).item();
    if (hvd::rank() == 0) std::printf("step %d: loss %.4f\n", step, mean);
  }
  hvd::shutdown();
}

}  // namespace

int main() {
  try {
    train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_optimizer: %s\n", error.what());
    return 1;
  }
}
