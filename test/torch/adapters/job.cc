// The job of job.py on the optimizer of C++: the words are the same.

#include <exception>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <horovod_cpp/horovod.h>

namespace {

using hvd::Tensor;
using Words = std::map<std::string, std::string>;

const std::map<std::string, hvd::ReduceOp> kOps = {
    {"average", hvd::ReduceOp::kAverage}, {"sum", hvd::ReduceOp::kSum},
    {"adasum", hvd::ReduceOp::kAdasum},   {"min", hvd::ReduceOp::kMin},
    {"max", hvd::ReduceOp::kMax},         {"product", hvd::ReduceOp::kProduct}};

hvd::Compression compression(const std::string& name) {
  const std::map<std::string, hvd::Compression> all = {{"none", hvd::Compression::none()},
                                                       {"fp16", hvd::Compression::fp16()},
                                                       {"bf16", hvd::Compression::bf16()},
                                                       {"int8", hvd::Compression::int8()},
                                                       {"powersgd", hvd::Compression::powersgd()}};
  return all.at(name);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

hvd::DistributedOptions options_from(const Words& words, const hvd::NamedTensors& parameters) {
  hvd::DistributedOptions options;
  for (const auto& [key, value] : words) {
    if (key == "op") options.op = kOps.at(value);
    if (key == "compression") options.compression = compression(value);
    if (key == "backward_passes_per_step") options.backward_passes_per_step = std::stoi(value);
    if (key == "average_aggregated_gradients") options.average_aggregated_gradients = true;
    if (key == "gradient_predivide_factor") options.gradient_predivide_factor = std::stod(value);
    if (key == "num_groups") options.num_groups = std::stoi(value);
    if (key == "clip_grad_norm") {
      const bool before = words.contains("clip_when") && words.at("clip_when") == "before";
      options.clip_grad_norm = {std::stod(value), before
                                                      ? hvd::ClipGradNorm::When::kBeforeReduction
                                                      : hvd::ClipGradNorm::When::kAfterReduction};
    }
    if (key == "packed") options.gradient_as_bucket_view = false;
    if (key == "overlap_step") options.overlap_step = true;
    if (key == "groups") {
      for (const std::string& group : split(value, '+')) {
        auto& members = options.groups.emplace_back();
        for (const std::string& number : split(group, ',')) {
          members.push_back(parameters[std::stoul(number)].second);
        }
      }
    }
    if (key == "ranks") {
      std::vector<hvd::Rank> ranks;
      for (const std::string& rank : split(value, ',')) ranks.push_back(std::stoi(rank));
      options.process_set = hvd::add_process_set(ranks);
    }
  }
  return options;
}

// A number that every wire type carries exactly.
float gradient(int rank, int step, int pass, std::size_t parameter, std::int64_t element) {
  const auto number =
      element * 7 + static_cast<std::int64_t>(parameter) * 3 + step * 5 + pass * 2 + rank * 11;
  return static_cast<float>(number % 13 - 6) / 4;
}

void train(const Words& words, const std::string& out) {
  hvd::NamedTensors parameters = {
      {"w", Tensor::zeros({5, 3})}, {"b", Tensor::zeros({4})}, {"c", Tensor::zeros({2, 6})}};
  std::vector<Tensor> tensors;
  for (auto& [name, parameter] : parameters) {
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      parameter.data<float>()[i] = static_cast<float>(i) / 8;
    }
    parameter.requires_grad_();
    tensors.push_back(parameter);
  }
  hvd::DistributedOptimizer optimizer(
      std::make_shared<hvd::optim::SGD>(tensors,
                                        hvd::optim::SGDOptions{.lr = 0.125, .momentum = 0.5}),
      parameters, options_from(words, parameters));

  const auto backward = [&](int step, int pass) {
    Tensor loss = Tensor::zeros({});
    for (std::size_t each = 0; each < tensors.size(); ++each) {
      Tensor factor = Tensor::zeros(tensors[each].shape());
      for (std::int64_t i = 0; i < factor.numel(); ++i) {
        factor.data<float>()[i] = gradient(hvd::rank(), step, pass, each, i);
      }
      loss = loss + hvd::sum(tensors[each] * factor);
    }
    loss.backward();
  };
  int passes = optimizer.backward_passes_per_step();
  for (int step = 0; step < 4; ++step) {
    if (step == 2 && words.contains("change_passes")) {
      passes = words.at("change_passes") == "rank" ? 1 + hvd::rank()
                                                   : std::stoi(words.at("change_passes"));
      optimizer.set_backward_passes_per_step(passes);
    }
    optimizer.zero_grad();
    if (words.contains("no_sync")) {
      const auto guard = optimizer.no_sync();
      backward(step, 7);
    }
    for (int pass = words.contains("no_sync") ? 1 : 0; pass < passes; ++pass) backward(step, pass);
    if (words.contains("synchronize")) {
      optimizer.synchronize();
      const auto guard = optimizer.skip_synchronize();
      optimizer.step();
    } else {
      optimizer.step();
    }
  }

  std::ofstream file(out);
  file << std::setprecision(9);
  for (const Tensor& tensor : tensors) {
    const Tensor values = tensor.detach();
    for (std::int64_t i = 0; i < values.numel(); ++i) file << values.data<float>()[i] << '\n';
  }
}

}  // namespace

// job FOLDER [KEY=VALUE...] / [KEY=VALUE...] / ...
int main(int argc, char** argv) {
  const std::string folder = argv[1];
  std::vector<Words> jobs(1);
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "/") {
      jobs.emplace_back();
    } else {
      jobs.back()[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
  }
  hvd::init();
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const std::string out = folder + "/" + std::to_string(job) + "." + std::to_string(hvd::rank());
    try {
      train(jobs[job], out);
    } catch (const std::exception& error) {
      std::ofstream(out + ".error") << error.what();
    }
    hvd::barrier();  // a rank outside a process set is ready at once
  }
  hvd::shutdown();
  return 0;
}
