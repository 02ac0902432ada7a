// Prints which tensors of two checkpoints differ, and by how much.
//
//   compare_models model.rank0.safetensors model.rank1.safetensors

#include <boost/program_options.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <map>
#include <string>

#include <horovod_cpp/horovod.h>

namespace {

using hvd::Tensor;

constexpr const char* kHelp =
    R"(Compares two safetensors files, such as the models of two ranks:

  hvdrun -np 2 cifar_vgg11 --synthetic --steps 4 --checkpoint vgg.safetensors --save-per-rank
  compare_models vgg.rank0.safetensors vgg.rank1.safetensors

Parameters are equal on all ranks. The running statistics of batch normalisation are not, since each
rank sees images of its own, unless the training has --sync-bn. Prints a line for each tensor that
differs and exits with 1 if there is one, with 2 on errors.

Options)";

struct Options {
  std::string a;
  std::string b;
  double tolerance = 0;
};

// Returns false when only help was asked for.
bool parse(int argc, char** argv, Options& options) {
  namespace po = boost::program_options;
  po::options_description description(kHelp, 100);
  auto add = description.add_options();
  add("help,h", "show this text");
  add("a", po::value(&options.a), "one file");
  add("b", po::value(&options.b), "the other file");
  add("tolerance", po::value(&options.tolerance)->default_value(0, "0"),
      "largest difference of two elements that does not count");
  po::positional_options_description files;
  files.add("a", 1).add("b", 1);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(description).positional(files).run(),
            values);
  po::notify(values);
  if (values.count("help") != 0) {
    std::cout << description;
    return false;
  }
  if (options.a.empty() || options.b.empty()) {
    throw hvd::InvalidArgumentError("give two files; --help tells more");
  }
  return true;
}

std::string kind_of(const Tensor& tensor) {
  return std::string(hvd::name_of(tensor.dtype())) + " " + hvd::to_string(tensor.shape());
}

// NaN and NaN are equal, NaN and a number infinitely different.
double largest_difference(const Tensor& a, const Tensor& b) {
  const auto left = a.to_vector(), right = b.to_vector();
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double difference = std::abs(left[i] - right[i]);
    largest = std::max(
        largest, std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference);
  }
  return largest;
}

// How the two differ; empty if they do not.
std::string difference(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    return kind_of(a) + " against " + kind_of(b);
  }
  const double largest = largest_difference(a, b);
  if (largest <= tolerance) return "";
  char text[64];
  std::snprintf(text, sizeof text, "largest difference %.3g", largest);
  return text;
}

// Returns how many tensors differ.
int compare(const Options& options) {
  const auto a = hvd::io::load(options.a).tensors;
  const auto b = hvd::io::load(options.b).tensors;
  std::map<std::string, Tensor> others(b.begin(), b.end());
  int differ = 0;
  const auto report = [&](const std::string& name, const std::string& how) {
    if (how.empty()) return;
    ++differ;
    std::printf("%-40s %s\n", name.c_str(), how.c_str());
  };
  for (const auto& [name, tensor] : a) {
    const auto other = others.find(name);
    if (other == others.end()) {
      report(name, "missing in " + options.b);
      continue;
    }
    report(name, difference(tensor, other->second, options.tolerance));
    others.erase(other);
  }
  for (const auto& [name, tensor] : others) report(name, "missing in " + options.a);
  std::printf("%d of %zu tensors differ\n", differ, a.size() + others.size());
  return differ;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    return parse(argc, argv, options) && compare(options) > 0 ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
