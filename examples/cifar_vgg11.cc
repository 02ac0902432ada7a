// Trains VGG-11 with batch normalisation on CIFAR-10, by six methods that compute the same.
//
//   hvdrun -np 4 build/cpu/examples/cifar_vgg11 --method p2p --data FOLDER
//   build/cpu/examples/cifar_vgg11 --method dp --replicas 4 --data FOLDER

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <horovod_cpp/horovod.h>

#include "examples/cifar/data.h"
#include "examples/cifar/history.h"
#include "examples/cifar/methods.h"
#include "examples/output_file.h"
#include "examples/progress.h"

namespace {

using hvd::Tensor;
using hvd::data::DataLoader;

constexpr const char* kHelp =
    R"(Trains VGG-11 with batch normalisation on CIFAR-10.

All methods compute the same. They differ in how the gradients of the ranks meet between backward()
and step(), from what one would write with send and receive to what one should use:

  gather     rank 0 gathers each gradient, averages, and scatters the result
  p2p        each rank sends each gradient to all others (isend, irecv)
  allreduce  one allreduce a gradient
  ddp        DistributedDataParallel: averaged while backward() runs, any optimizer
  optimizer  DistributedOptimizer: averaged while backward() runs, any model
  dp         DataParallel: one process, a thread for each of --replicas

  hvdrun -np 4 cifar_vgg11 --method ddp --data FOLDER
  cifar_vgg11 --method dp --replicas 4 --data FOLDER
  hvdrun -np 2 cifar_vgg11 --synthetic --steps 20

Every rank has batch statistics of its own (unless --sync-bn), so the accuracy that is printed is the
mean of what the ranks reach, each on its share of the test images.

Options)";

struct Options {
  std::string method;
  std::string data;
  bool synthetic = false;
  std::int64_t examples = 0;
  int replicas = 0;
  int epochs = 0;
  std::int64_t steps = 0;
  std::int64_t batch_size = 0;
  double lr = 0;
  std::string schedule;
  bool sync_bn = false;
  int workers = 0;
  std::uint64_t seed = 0;
  std::string history;
  std::string checkpoint;
  bool save_per_rank = false;
};

[[noreturn]] void refuse(const std::string& what) {
  throw hvd::InvalidArgumentError(what);
}

void check(const Options& options) {
  const auto& methods = cifar::method_names();
  if (std::find(methods.begin(), methods.end(), options.method) == methods.end()) {
    refuse("--method " + options.method + ": must be gather, p2p, allreduce, ddp, optimizer or dp");
  }
  if (options.schedule != "one-cycle" && options.schedule != "constant") {
    refuse("--schedule " + options.schedule + ": must be one-cycle or constant");
  }
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    refuse(std::string(name) + " " + std::to_string(value) + ": must be at least " +
           std::to_string(least));
  };
  at_least("--epochs", options.epochs, 1);
  at_least("--steps", options.steps, 0);
  at_least("--batch-size", options.batch_size, 1);
  at_least("--replicas", options.replicas, 1);
  at_least("--examples", options.examples, 0);
  if (options.method == "dp" && options.sync_bn) {
    refuse("--sync-bn is for methods of several ranks, dp has threads of one");
  }
  if (options.save_per_rank && options.checkpoint.empty()) {
    refuse("--save-per-rank needs --checkpoint");
  }
  if (!options.history.empty()) cifar::check_history_path(options.history);
  check_output("--history", options.history);
  check_output("--checkpoint", options.checkpoint);
}

// Returns false when only help was asked for.
bool parse(int argc, char** argv, Options& options) {
  namespace po = boost::program_options;
  po::options_description description(kHelp, 100);
  auto add = description.add_options();
  add("help,h", "show this text");
  add("method", po::value(&options.method)->default_value("optimizer"), "one of the six above");
  add("data", po::value(&options.data)->default_value(""),
      "folder with CIFAR-10's binary files; HVD_DATA_DIR otherwise");
  add("synthetic", po::bool_switch(&options.synthetic), "use made-up images instead");
  add("examples", po::value(&options.examples)->default_value(0),
      "training images to use; 0 = all (1280 made-up ones)");
  add("replicas", po::value(&options.replicas)->default_value(2), "threads of method dp");
  add("epochs", po::value(&options.epochs)->default_value(8), "passes over the training images");
  add("steps", po::value(&options.steps)->default_value(0),
      "end after this many steps; 0 = no limit");
  add("batch-size", po::value(&options.batch_size)->default_value(64),
      "images per step, over all ranks or replicas");
  add("lr", po::value(&options.lr)->default_value(0.1, "0.1"), "(highest) learning rate");
  add("schedule", po::value(&options.schedule)->default_value("one-cycle"),
      "of the learning rate: one-cycle (up to --lr and down again over the whole run) or constant");
  add("sync-bn", po::bool_switch(&options.sync_bn),
      "SyncBatchNorm: normalise over the batches of all ranks");
  add("workers", po::value(&options.workers)->default_value(1), "threads that load images");
  add("seed", po::value(&options.seed)->default_value(1), "of parameters, order and augmentation");
  add("history", po::value(&options.history)->default_value("cifar_vgg11.csv"),
      "where rank 0 writes the losses (.csv or .json); empty = nowhere");
  add("checkpoint", po::value(&options.checkpoint)->default_value(""),
      "where rank 0 saves the model, a .safetensors file; empty = nowhere");
  add("save-per-rank", po::bool_switch(&options.save_per_rank),
      "every rank saves its model, as <checkpoint>.rank<r>: see compare_models");
  po::variables_map values;
  const po::positional_options_description none;  // a word that belongs to no option is an error
  po::store(po::command_line_parser(argc, argv).options(description).positional(none).run(),
            values);
  po::store(po::parse_environment(description,
                                  [](const std::string& name) -> std::string {
                                    return name == "HVD_DATA_DIR" ? "data" : "";
                                  }),
            values);
  po::notify(values);
  if (values.count("help") != 0) {
    std::cout << description;
    return false;
  }
  check(options);
  return true;
}

cifar::Data data_for(const Options& options) {
  constexpr std::int64_t kMadeUp = 1280;
  if (options.synthetic) {
    return cifar::synthetic(options.examples == 0 ? kMadeUp : options.examples, options.seed);
  }
  cifar::Data data = cifar::load(options.data);
  if (options.examples > 0 && options.examples < data.train->size()) {
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < options.examples; ++i) first.push_back(i);
    data.train = std::make_shared<hvd::data::Subset>(data.train, first);
  }
  return data;
}

// Sum of all ranks' values, element by element.
std::vector<double> sum_over_ranks(const std::vector<double>& values, const std::string& name) {
  const Tensor sums = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  hvd::allreduce_(sums, {.op = hvd::ReduceOp::kSum, .name = name});
  return sums.to_vector();
}

// Every rank tests its share.
double test_accuracy(hvd::nn::Module& model,
                     const std::shared_ptr<const hvd::data::Dataset>& test) {
  std::vector<std::int64_t> mine;
  for (std::int64_t i = hvd::rank(); i < test->size(); i += hvd::size()) mine.push_back(i);
  const hvd::NoGradGuard no_grad;
  model.eval();
  double hits = 0;
  DataLoader loader(std::make_shared<hvd::data::Subset>(test, mine), {.batch_size = 64});
  for (const hvd::data::Sample& batch : loader) {
    const auto guesses = hvd::argmax(model(batch[0]), 1).to_vector();
    const auto labels = batch[1].to_vector();
    for (std::size_t i = 0; i < labels.size(); ++i) hits += guesses[i] == labels[i];
  }
  model.train();
  const auto sums = sum_over_ranks({hits, static_cast<double>(mine.size())}, "test_accuracy");
  return sums[0] / sums[1];
}

// Trains, and has the history.
class Trainer {
 public:
  Trainer(const Options& options, const cifar::Data& data)
      : options_(options), data_(data), progress_(hvd::rank() == 0) {
    const int parts = options.method == "dp" ? options.replicas : hvd::size();
    if (options.batch_size % parts != 0) {
      refuse("--batch-size " + std::to_string(options.batch_size) + " does not divide by " +
             std::to_string(parts) + (options.method == "dp" ? " replicas" : " ranks"));
    }
    hvd::manual_seed(options.seed);
    module_ = hvd::models::vgg11_bn({.num_classes = 10, .cifar_head = true});
    if (options.sync_bn) hvd::SyncBatchNorm::convert_sync_batchnorm(*module_);
    training_ = cifar::make_training(options.method, module_, options.lr, options.replicas);
    sampler_ = std::make_shared<hvd::data::RandomSampler>(data.train->size(), options.seed);
    batches_ = std::make_shared<cifar::PartOfBatches>(sampler_, options.batch_size, hvd::rank(),
                                                      hvd::size());
    if (batches_->size() == 0) {
      refuse("--batch-size " + std::to_string(options.batch_size) + " is more than the " +
             std::to_string(data.train->size()) + " training images");
    }
    total_ = options.epochs * batches_->size();
    if (options.steps > 0) total_ = std::min(total_, options.steps);
    if (options.schedule == "one-cycle") {
      schedule_ = std::make_unique<hvd::optim::lr_scheduler::OneCycleLR>(
          *training_.optimizer,
          hvd::optim::lr_scheduler::OneCycleLROptions{
              .max_lr = {options.lr}, .total_steps = std::max<std::int64_t>(total_, 2)});
    }
  }

  void run() {
    DataLoader loader(data_.train, {.num_workers = options_.workers, .batch_sampler = batches_});
    for (int epoch = 1; step_ < total_; ++epoch) {
      const auto start = hvd::Clock::now();
      sampler_->set_epoch(epoch);
      const std::size_t before = history_.size();
      train_epoch(epoch, loader);
      const double seconds = hvd::to_seconds(hvd::Clock::now() - start);
      const double loss = average_losses(before);
      history_.back().test_accuracy = test_accuracy(*module_, data_.test);
      const auto images =
          static_cast<double>(history_.size() - before) * static_cast<double>(options_.batch_size);
      progress_.epoch(epoch, loss, history_.back().test_accuracy, images / seconds);
    }
  }

  void save() const {
    if (hvd::rank() == 0 && !options_.history.empty()) {
      cifar::write_history(options_.history, history_);
      std::printf("wrote %s\n", options_.history.c_str());
    }
    if (options_.checkpoint.empty()) return;
    std::string path = options_.checkpoint;
    if (options_.save_per_rank) {
      const std::filesystem::path given(path);
      path = given.parent_path() / (given.stem().string() + ".rank" + std::to_string(hvd::rank()) +
                                    given.extension().string());
    } else if (hvd::rank() != 0) {
      return;
    }
    hvd::io::save(path, module_->state_dict());
    std::printf("saved %s\n", path.c_str());
  }

 private:
  void train_epoch(int epoch, DataLoader& loader) {
    const std::int64_t steps = std::min(loader.size(), total_ - step_);
    std::int64_t done = 0;
    for (const hvd::data::Sample& batch : loader) {
      training_.optimizer->zero_grad();
      const Tensor loss = hvd::cross_entropy((*training_.model)(batch[0]), batch[1]);
      loss.backward();
      training_.average();
      training_.optimizer->step();
      const double lr = training_.optimizer->param_groups()[0].options.at("lr");
      history_.push_back({epoch, ++step_, lr, loss.item()});
      if (schedule_ != nullptr) schedule_->step();
      progress_.step(epoch, ++done, steps, history_.back().loss);
      if (step_ == total_) break;
    }
  }

  // Of the steps from `first` on; makes them averages over the ranks and returns their mean.
  double average_losses(std::size_t first) {
    std::vector<double> losses;
    for (std::size_t i = first; i < history_.size(); ++i) losses.push_back(history_[i].loss);
    const auto sums = sum_over_ranks(losses, "losses");
    double mean = 0;
    for (std::size_t i = first; i < history_.size(); ++i) {
      history_[i].loss = sums[i - first] / hvd::size();
      mean += history_[i].loss / static_cast<double>(sums.size());
    }
    return mean;
  }

  const Options options_;
  const cifar::Data data_;
  const Progress progress_;
  std::shared_ptr<hvd::nn::Module> module_;
  cifar::Training training_;
  std::shared_ptr<hvd::data::RandomSampler> sampler_;
  std::shared_ptr<cifar::PartOfBatches> batches_;
  std::unique_ptr<hvd::optim::lr_scheduler::OneCycleLR> schedule_;
  std::int64_t total_ = 0;
  std::int64_t step_ = 0;
  std::vector<cifar::HistoryRow> history_;
};

void train(const Options& options) {
  hvd::init();
  if (options.method == "dp" && hvd::size() > 1) {
    refuse("--method dp runs in one process with --replicas threads, not on " +
           std::to_string(hvd::size()) + " ranks");
  }
  const cifar::Data data = data_for(options);
  Trainer trainer(options, data);
  if (hvd::rank() == 0) {
    std::printf("%s: %lld images, batches of %lld on %d %s\n", options.method.c_str(),
                static_cast<long long>(data.train->size()),
                static_cast<long long>(options.batch_size),
                options.method == "dp" ? options.replicas : hvd::size(),
                options.method == "dp" ? "replicas" : "ranks");
  }
  trainer.run();
  trainer.save();
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
