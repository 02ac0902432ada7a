#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <horovod_cpp/horovod.h>

// The images of cifar_vgg11, and who gets which of them.
namespace cifar {

struct Data {
  std::shared_ptr<const hvd::data::Dataset> train;  // cropped and flipped at random
  std::shared_ptr<const hvd::data::Dataset> test;
};

// CIFAR-10's binary files in `folder`, or in its sub-folder "cifar10" or "cifar-10-batches-bin".
// Throws InvalidArgumentError saying which files to get where, if they are not there.
Data load(const std::string& folder);

// `train` images to learn from and half as many to test with, made up: a colour and a stripe for
// each class, and noise.
Data synthetic(std::int64_t train, std::uint64_t seed);

// A part of every batch: of `global_batch` examples in the sampler's order the rows that rank
// `rank` of `size` works on. All ranks together see each batch once, in equal parts; examples that
// fill no batch are left out.
class PartOfBatches : public hvd::data::BatchSampler {
 public:
  PartOfBatches(std::shared_ptr<hvd::data::Sampler> sampler, std::int64_t global_batch, int rank,
                int size);
  std::int64_t size() const override;
  std::vector<std::vector<std::int64_t>> batches() override;

 private:
  std::int64_t global_batch_;
  std::int64_t part_;
  std::int64_t first_;
};

}  // namespace cifar
