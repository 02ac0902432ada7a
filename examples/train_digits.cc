// Trains a small convolutional network on handwritten digits (or MNIST, or CIFAR-10) over several
// ranks, with an optimizer that was wrapped in a few lines.
//
//   hvdrun -np 2 build/cpu/examples/train_digits --data build/data/digits

#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <horovod_cpp/horovod.h>

#include "examples/output_file.h"
#include "examples/progress.h"

namespace {

namespace fs = std::filesystem;
using hvd::Tensor;
using DatasetPtr = std::shared_ptr<const hvd::data::Dataset>;

struct Options {
  std::string data;
  std::string checkpoint;
  std::string log_json;
  int epochs = 0;
  std::int64_t batch_size = 0;
  double lr = 0;
  bool scale_lr = false;
  std::uint64_t seed = 0;
};

// Returns false when only help was asked for.
bool parse(int argc, char** argv, Options& options) {
  namespace po = boost::program_options;
  po::options_description description("Trains a small CNN on digits over all ranks.\nOptions");
  auto add = description.add_options();
  add("help,h", "show this text");
  add("data", po::value(&options.data)->default_value(HVD_DIGITS_FOLDER),
      "folder with IDX files (MNIST's names) or CIFAR-10's data_batch_*.bin");
  add("epochs", po::value(&options.epochs)->default_value(15), "passes over the training set");
  add("batch-size", po::value(&options.batch_size)->default_value(32), "batch size of each rank");
  add("lr", po::value(&options.lr)->default_value(0.05, "0.05"), "learning rate");
  add("scale-lr", po::bool_switch(&options.scale_lr), "multiply the learning rate by the ranks");
  add("seed", po::value(&options.seed)->default_value(1), "of the parameters and the order");
  add("checkpoint", po::value(&options.checkpoint)->default_value("digits.safetensors"),
      "where rank 0 saves the parameters; empty = nowhere");
  add("log-json", po::value(&options.log_json), "where rank 0 writes the loss of every step");
  po::variables_map values;
  const po::positional_options_description none;  // a word that belongs to no option is an error
  po::store(po::command_line_parser(argc, argv).options(description).positional(none).run(),
            values);
  po::notify(values);
  if (values.count("help") != 0) std::cout << description;
  if (options.epochs < 1) {
    throw hvd::InvalidArgumentError("--epochs " + std::to_string(options.epochs) +
                                    ": must be at least 1");
  }
  check_output("--checkpoint", options.checkpoint);
  check_output("--log-json", options.log_json);
  return values.count("help") == 0;
}

struct Data {
  DatasetPtr train;
  DatasetPtr test;
};

// Part of a set as a set of its own: a fixed permutation's positions first .. last-1.
DatasetPtr part_of(const DatasetPtr& whole, std::int64_t first, std::int64_t last) {
  const auto order = hvd::data::random_permutation(whole->size(), /*seed=*/0, /*epoch=*/0);
  return std::make_shared<hvd::data::Subset>(
      whole, std::vector<std::int64_t>(order.begin() + first, order.begin() + last));
}

Data load(const std::string& folder) {
  const auto has = [&](const std::string& name) {
    return fs::exists(fs::path(folder) / name) || fs::exists(fs::path(folder) / (name + ".gz"));
  };
  using hvd::data::CIFAR10;
  using hvd::data::MNIST;
  if (has("test_batch.bin")) {
    return {std::make_shared<CIFAR10>(folder), std::make_shared<CIFAR10>(folder, /*train=*/false)};
  }
  if (has("train-images-idx3-ubyte")) {
    return {std::make_shared<MNIST>(folder), std::make_shared<MNIST>(folder, /*train=*/false)};
  }
  if (has("t10k-images-idx3-ubyte")) {  // a test set alone: nine tenths of it are for training
    const DatasetPtr whole = std::make_shared<MNIST>(folder, /*train=*/false);
    const std::int64_t train = whole->size() * 9 / 10;
    return {part_of(whole, 0, train), part_of(whole, train, whole->size())};
  }
  throw hvd::InvalidArgumentError(
      "no IDX or CIFAR-10 files in '" + folder +
      "'; `python examples/write_digits.py FOLDER` writes the digits, --data FOLDER reads them");
}

hvd::nn::Sequential make_model(const hvd::Shape& image) {
  namespace nn = hvd::nn;
  const std::int64_t features = 32 * (image[1] / 4) * (image[2] / 4);
  return nn::Sequential(nn::Conv2d(image[0], 16, 3, 1, 1), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Conv2d(16, 32, 3, 1, 1), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                        nn::Linear(features, 10));
}

// Sums over the batches of this rank and then over the ranks.
double mean_over_ranks(const std::vector<double>& values, const std::string& name) {
  Tensor sums = Tensor::zeros({2}, hvd::DType::kF64);
  for (const double value : values) sums.data<double>()[0] += value;
  sums.data<double>()[1] = static_cast<double>(values.size());
  hvd::allreduce_(sums, {.op = hvd::ReduceOp::kSum, .name = name});
  return sums.data<double>()[0] / sums.data<double>()[1];
}

// Every rank tests its share.
double test_accuracy(hvd::nn::Module& model, const DatasetPtr& test) {
  std::vector<std::int64_t> mine;
  for (std::int64_t i = hvd::rank(); i < test->size(); i += hvd::size()) mine.push_back(i);
  hvd::NoGradGuard no_grad;
  std::vector<double> hits;
  const auto share = std::make_shared<hvd::data::Subset>(test, mine);
  hvd::data::DataLoader loader(share, {.batch_size = 256});
  for (const hvd::data::Sample& batch : loader) {
    const auto guesses = hvd::argmax(model(batch[0]), 1).to_vector();
    const auto labels = batch[1].to_vector();
    for (std::size_t i = 0; i < labels.size(); ++i) hits.push_back(guesses[i] == labels[i]);
  }
  return mean_over_ranks(hits, "test_accuracy");
}

// Compares this rank's bits with those of rank 0, on every rank.
bool parameters_equal_on_all_ranks(const hvd::nn::Module& model) {
  bool equal = true;
  for (const auto& [name, tensor] : model.state_dict()) {
    equal =
        hvd::bitwise_equal(hvd::broadcast(tensor, 0, {.name = "check." + name}), tensor) && equal;
  }
  Tensor all = Tensor::scalar(equal ? 1 : 0, hvd::DType::kI32);
  hvd::allreduce_(all, {.op = hvd::ReduceOp::kMin, .name = "check.equal"});
  return all.item() == 1;
}

// One loss a step, averaged over the ranks.
void write_losses(const std::string& path, const std::vector<double>& losses) {
  Tensor mean = Tensor::from(losses, {static_cast<std::int64_t>(losses.size())});
  hvd::allreduce_(mean, {.name = "losses"});
  if (hvd::rank() != 0) return;
  std::ofstream out(path);
  out.precision(17);
  out << "[";
  const char* separator = "";
  for (const double loss : mean.to_vector()) {
    out << separator << loss;
    separator = ", ";
  }
  out << "]\n";
  if (!out.flush()) throw hvd::InvalidArgumentError("cannot write '" + path + "'");
}

void train(const Options& options) {
  hvd::init();
  const Data data = load(options.data);
  hvd::manual_seed(options.seed);
  hvd::nn::Sequential model = make_model(data.train->get(0)[0].shape());
  const double lr = options.lr * (options.scale_lr ? hvd::size() : 1);

  auto sgd = std::make_shared<hvd::optim::SGD>(model.parameters(),
                                               hvd::optim::SGDOptions{.lr = lr, .momentum = 0.9});
  hvd::DistributedOptimizer optimizer(sgd, model.named_parameters());
  hvd::broadcast_parameters(model.state_dict(), 0);
  hvd::broadcast_optimizer_state(optimizer, 0);

  auto sampler = std::make_shared<hvd::data::DistributedSampler>(
      data.train->size(), hvd::size(), hvd::rank(), /*shuffle=*/true, options.seed);
  hvd::data::DataLoader loader(
      data.train, {.batch_size = options.batch_size, .sampler = sampler, .drop_last = true});
  if (loader.size() == 0) {
    throw hvd::InvalidArgumentError("--batch-size " + std::to_string(options.batch_size) +
                                    " is more than a rank's share of " +
                                    std::to_string(sampler->size()) + " examples");
  }
  const Progress progress(hvd::rank() == 0);
  std::vector<double> losses;
  double accuracy = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    sampler->set_epoch(epoch);
    const auto start = hvd::Clock::now();
    std::vector<double> epoch_losses;
    for (const hvd::data::Sample& batch : loader) {
      optimizer.zero_grad();
      const Tensor loss = hvd::cross_entropy(model(batch[0]), batch[1]);
      loss.backward();
      optimizer.step();
      epoch_losses.push_back(loss.item());
      progress.step(epoch, static_cast<std::int64_t>(epoch_losses.size()), loader.size(),
                    epoch_losses.back());
    }
    const double seconds = hvd::to_seconds(hvd::Clock::now() - start);
    const auto samples = loader.size() * options.batch_size * hvd::size();
    accuracy = test_accuracy(model, data.test);
    progress.epoch(epoch, mean_over_ranks(epoch_losses, "loss"), accuracy,
                   static_cast<double>(samples) / seconds);
    losses.insert(losses.end(), epoch_losses.begin(), epoch_losses.end());
  }
  if (!options.log_json.empty()) write_losses(options.log_json, losses);
  if (hvd::rank() == 0 && !options.checkpoint.empty()) {
    hvd::io::save(options.checkpoint, model.state_dict());
    std::printf("saved %s\n", options.checkpoint.c_str());
  }
  if (!parameters_equal_on_all_ranks(model)) {
    throw hvd::InternalError("parameters differ between ranks");
  }
  if (hvd::rank() == 0) {
    std::printf("parameters equal on all ranks\ntest accuracy %.4f\n", accuracy);
  }
  hvd::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (parse(argc, argv, options)) train(options);
    return 0;
  } catch (const std::exception& error) {
    const std::string who =
        hvd::is_initialized() ? "rank " + std::to_string(hvd::rank()) + ": " : "";
    std::fprintf(stderr, "%s%s\n", who.c_str(), error.what());
    return 1;
  }
}
