// How many CIFAR-10 images a second does a DataLoader give, cropped (padding 4), flipped and
// normalized, in batches of 128 of float32? The median of five passes for each number of workers.
//
//   build/cpu/test/bench/data_bench [FOLDER] [--json FILE]
//
// FOLDER has data_batch_*.bin; without it 10,000 made-up images are used.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/transforms.h"
#include "horovod_cpp/tensor/random.h"

namespace {

using namespace hvd::data;  // NOLINT: a program
using hvd::DType;
using hvd::Tensor;

constexpr double kTarget = 20000;  // images a second with two workers
constexpr int kPasses = 5;

std::shared_ptr<Dataset> images_from(const std::string& folder) {
  if (!folder.empty()) return std::make_shared<CIFAR10>(folder, true, PixelFormat::kU8);
  const Tensor images = hvd::randint(0, 256, {10000, 3, 32, 32}).to(DType::kU8);
  return std::make_shared<ImageDataset>(images, Tensor::zeros({10000}, DType::kI64),
                                        PixelFormat::kU8);
}

double images_per_second(const std::shared_ptr<Dataset>& dataset, int workers) {
  DataLoader loader(dataset, {.batch_size = 128, .shuffle = true, .num_workers = workers});
  std::vector<double> rates;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    std::int64_t images = 0;
    for (const Sample& batch : loader) images += batch[0].size(0);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    rates.push_back(static_cast<double>(images) / seconds.count());
  }
  std::ranges::nth_element(rates, rates.begin() + kPasses / 2);
  return rates[kPasses / 2];
}

void write_row(const std::string& path, double rate) {
  std::ofstream(path) << R"([{"what": "DataLoader, CIFAR with crop, flip, normalize, 2 workers", )"
                      << R"("unit": "images/s", "ours": )" << rate
                      << R"(, "theirs": null, "ratio": null, "target": )" << kTarget
                      << R"(, "met": )" << (rate >= kTarget ? "true" : "false") << "}]\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else {
      folder = argv[i];
    }
  }
  using namespace transforms;  // NOLINT: a program
  const auto dataset = std::make_shared<TransformDataset>(
      images_from(folder),
      std::make_shared<Compose>(RandomCrop(32, 4), RandomHorizontalFlip(), ToTensor(),
                                Normalize({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616})));
  double rate = 0;
  for (const int workers : {0, 1, 2}) {
    rate = images_per_second(dataset, workers);
    std::printf("%d workers: %8.0f images/s\n", workers, rate);
  }
  if (!json.empty()) write_row(json, rate);
}
