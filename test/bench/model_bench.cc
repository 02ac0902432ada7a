// Training steps of the models of test/bench/model.py, on this thread; MODEL_bf16 is MODEL under
// autocast. Reads lines "MODEL STEPS", trains so many steps more, answers with a line of JSON:
// milliseconds of CPU time and of the wall's clock of each, the loss of the last, and the most
// memory this process ever had, in MiB.
//
//   model_bench              alone
//   mpirun ... model_bench --ranks    all ranks together, with DistributedOptimizer: rank 0 reads
//                                     and answers
#include <sys/resource.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "horovod_cpp/horovod.h"

namespace hvd {
namespace {

std::shared_ptr<nn::Sequential> conv_norm_relu(std::int64_t in, std::int64_t out) {
  return std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Conv2d>(in, out, 3, 1, 1, false), std::make_shared<nn::BatchNorm2d>(out),
      std::make_shared<nn::ReLU>()});
}

std::shared_ptr<nn::Sequential> vgg11() {
  auto model = std::make_shared<nn::Sequential>();
  std::int64_t in = 3;
  for (const std::int64_t out : {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}) {
    if (out == 0) {
      model->push_back(std::make_shared<nn::MaxPool2d>(2));
    } else {
      model->push_back(conv_norm_relu(in, out));
      in = out;
    }
  }
  model->push_back(std::make_shared<nn::Flatten>());
  model->push_back(std::make_shared<nn::Linear>(512, 10));
  return model;
}

// Two 3x3 convolutions beside a shortcut (He, Zhang, Ren, Sun: "Deep residual learning", 2016).
class Residual : public nn::Module {
 public:
  Residual(std::int64_t in, std::int64_t out, int stride)
      : conv1_(register_module("conv1", nn::Conv2d(in, out, 3, stride, 1, false))),
        norm1_(register_module("bn1", nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", nn::Conv2d(out, out, 3, 1, 1, false))),
        norm2_(register_module("bn2", nn::BatchNorm2d(out))) {
    if (stride == 1 && in == out) return;
    shortcut_ = register_module("shortcut", nn::Conv2d(in, out, 1, stride, 0, false));
    shortcut_norm_ = register_module("shortcut_bn", nn::BatchNorm2d(out));
  }

  Tensor forward(const Tensor& input) override {
    const Tensor inner = relu((*norm1_)((*conv1_)(input)));
    const Tensor sum = (*norm2_)((*conv2_)(inner));
    return relu(sum + (shortcut_ ? (*shortcut_norm_)((*shortcut_)(input)) : input));
  }

 private:
  std::shared_ptr<nn::Conv2d> conv1_;
  std::shared_ptr<nn::BatchNorm2d> norm1_;
  std::shared_ptr<nn::Conv2d> conv2_;
  std::shared_ptr<nn::BatchNorm2d> norm2_;
  std::shared_ptr<nn::Conv2d> shortcut_;
  std::shared_ptr<nn::BatchNorm2d> shortcut_norm_;
};

class GlobalMean : public nn::Module {
 public:
  Tensor forward(const Tensor& input) override { return mean(input, {2, 3}); }
};

std::shared_ptr<nn::Sequential> resnet18() {
  auto model = std::make_shared<nn::Sequential>();
  model->push_back(conv_norm_relu(3, 64));
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    model->push_back(std::make_shared<Residual>(in, out, in == out ? 1 : 2));
    model->push_back(std::make_shared<Residual>(out, out, 1));
    in = out;
  }
  model->push_back(std::make_shared<GlobalMean>());
  model->push_back(std::make_shared<nn::Linear>(512, 10));
  return model;
}

std::shared_ptr<nn::Sequential> mlp() {
  return std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Linear>(784, 256), std::make_shared<nn::ReLU>(),
      std::make_shared<nn::Linear>(256, 256), std::make_shared<nn::ReLU>(),
      std::make_shared<nn::Linear>(256, 10)});
}

double cpu_ms() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

double wall_ms() {
  const std::chrono::duration<double, std::milli> since_start =
      std::chrono::steady_clock::now().time_since_epoch();
  return since_start.count();
}

// Over the ranks, if this process is one.
std::shared_ptr<optim::Optimizer> optimizer_of(const nn::Module& model, const std::string& name) {
  auto sgd = std::make_shared<optim::SGD>(model.parameters(),
                                          optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  if (!is_initialized()) return sgd;
  NamedTensors named = model.named_parameters();
  for (auto& [own, parameter] : named) own = name + "." + own;
  broadcast_parameters(named);
  return std::make_shared<DistributedOptimizer>(sgd, named);
}

class Training {
 public:
  Training(const std::string& name, std::shared_ptr<nn::Sequential> model, Shape input_shape,
           bool autocast)
      : model_(std::move(model)), autocast_(autocast), optimizer_(optimizer_of(*model_, name)) {
    Generator generator(1);
    const std::int64_t batch = input_shape[0];
    input_ = randn(std::move(input_shape), DType::kF32, generator);
    targets_ = randint(0, 10, {batch}, generator);
  }

  double step() {
    optimizer_->zero_grad();
    const Tensor loss = forward();
    loss.backward();
    optimizer_->step();
    return loss.item();
  }

 private:
  Tensor forward() {
    const AutocastGuard region(DType::kBF16, autocast_);
    return cross_entropy((*model_)(input_), targets_);
  }

  std::shared_ptr<nn::Sequential> model_;
  bool autocast_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  Tensor input_, targets_;
};

std::unique_ptr<Training> training_of(const std::string& asked) {
  const bool autocast = asked.ends_with("_bf16");
  const std::string name = autocast ? asked.substr(0, asked.size() - 5) : asked;
  const auto make = [&](std::shared_ptr<nn::Sequential> model, Shape input_shape) {
    return std::make_unique<Training>(asked, std::move(model), std::move(input_shape), autocast);
  };
  if (name == "vgg11") return make(vgg11(), {32, 3, 32, 32});
  if (name == "resnet18") return make(resnet18(), {32, 3, 32, 32});
  if (name == "mlp") return make(mlp(), {64, 784});
  throw InvalidArgumentError("no model " + asked);
}

// The next line of the input, of rank 0's where there are ranks; empty at its end.
std::string next_line() {
  std::string line;
  if (!is_initialized() || rank() == 0) std::getline(std::cin, line);
  if (!is_initialized()) return line;
  const auto bytes = std::as_bytes(std::span(line));
  const Bytes everywhere = broadcast_object(Bytes(bytes.begin(), bytes.end()));
  return std::string(reinterpret_cast<const char*>(everywhere.data()), everywhere.size());
}

// The answer to one line.
std::string train(Training& training, int steps) {
  double loss = 0;
  std::string cpu, wall;
  for (int i = 0; i < steps; ++i) {
    const double begin = cpu_ms();
    const double wall_begin = wall_ms();
    loss = training.step();
    wall += (i == 0 ? "" : ", ") + std::to_string(wall_ms() - wall_begin);
    cpu += (i == 0 ? "" : ", ") + std::to_string(cpu_ms() - begin);
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::ostringstream answer;
  answer << "{\"ms\": [" << cpu << "], \"wall\": [" << wall << "], \"loss\": " << loss
         << ", \"peak\": " << static_cast<double>(usage.ru_maxrss) / 1024 << "}";
  return answer.str();
}

void serve() {
  std::map<std::string, std::unique_ptr<Training>> running;
  for (std::string line = next_line(); !line.empty(); line = next_line()) {
    std::istringstream words(line);
    std::string name;
    int steps = 0;
    words >> name >> steps;
    std::unique_ptr<Training>& training = running[name];
    if (training == nullptr) training = training_of(name);
    const std::string answer = train(*training, steps);
    if (!is_initialized() || rank() == 0) std::cout << answer << std::endl;
  }
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  const bool ranks = argc > 1 && std::string_view(argv[1]) == "--ranks";
  if (ranks) hvd::init();
  hvd::serve();
  if (ranks) hvd::shutdown();
}
