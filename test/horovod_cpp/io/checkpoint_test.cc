#include "horovod_cpp/io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "core/base/status.h"
#include "horovod_cpp/tensor/random.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

Checkpoint example() {
  return {.parts = {{"model",
                     {{"0.weight", Tensor::arange(6, DType::kF32).reshape({2, 3})},
                      {"0.bias", Tensor::full({3}, 0.5, DType::kBF16)},
                      {"none", Tensor::empty({0, 2})}}},
                    {"sampler", integers({{"epoch", 3}, {"position", 128}})},
                    {"random", {{"state", get_rng_state()}}}},
          .metadata = {{"note", "after 3 epochs"}}};
}

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (const auto& [part, tensors] : a.parts) {
    ASSERT_EQ(tensors.size(), b.part(part).size()) << part;
    for (const auto& [name, tensor] : tensors) {
      EXPECT_TRUE(bitwise_equal(tensor, b.tensor(part, name))) << part << "." << name;
    }
  }
}

std::string error_of(const std::function<void()>& action) {
  return message_of<InvalidArgumentError>(action);
}

TEST(Checkpoint, ReturnsItsPartsAndMetadata) {
  const TemporaryFolder folder;
  const Checkpoint saved = example();
  save_checkpoint(folder.file("a"), saved);
  const Checkpoint loaded = load_checkpoint(folder.file("a"));
  expect_equal(saved, loaded);
  EXPECT_EQ(loaded.part("model")[0].first, "0.weight");
  EXPECT_THAT(integers_from(loaded.part("sampler")),
              ElementsAre(Pair("epoch", 3), Pair("position", 128)));
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(Checkpoint, KeepsPartsWithoutTensors) {
  const TemporaryFolder folder;
  save_checkpoint(folder.file("a"), {.parts = {{"empty", {}}, {"m", {{"w", Tensor::ones({1})}}}}});
  const Checkpoint loaded = load_checkpoint(folder.file("a"));
  EXPECT_TRUE(loaded.part("empty").empty());
  EXPECT_EQ(loaded.parts.size(), 2u);
  EXPECT_TRUE(loaded.metadata.empty());
}

TEST(Checkpoint, IsASafetensorsFileWithThePartBeforeEachName) {
  const TemporaryFolder folder;
  save_checkpoint(folder.file("a"), example());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : load(folder.file("a")).tensors) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("model.0.weight", "model.0.bias", "model.none", "random.state",
                                 "sampler.epoch", "sampler.position"));
}

TEST(Checkpoint, SaysWhatIsThereWhenAPartIsNot) {
  const Checkpoint checkpoint = example();
  EXPECT_EQ(error_of([&] { checkpoint.part("optimizer"); }),
            "checkpoint: no part 'optimizer'; there are: model, random, sampler");
  EXPECT_EQ(error_of([&] { checkpoint.tensor("random", "seed"); }),
            "checkpoint: no tensor 'seed' in part 'random'; there are: state");
}

TEST(Checkpoint, RefusesPartsAndMetadataThatItCouldNotTellApart) {
  const TemporaryFolder folder;
  const auto error = [&](const Checkpoint& checkpoint) {
    return error_of([&] { save_checkpoint(folder.file("a"), checkpoint); });
  };
  EXPECT_THAT(error({.parts = {{"a.b", {}}}}), HasSubstr("part 'a.b'"));
  EXPECT_THAT(error({.parts = {{"", {}}}}), HasSubstr("part ''"));
  EXPECT_THAT(error({.parts = {{"m", {{"w", Tensor()}}}}}), HasSubstr("'m.w' is undefined"));
  EXPECT_THAT(error({.parts = {}, .metadata = {{"checkpoint.crc32", "1"}}}), HasSubstr("reserved"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(Checkpoint, RefusesAFileThatIsNone) {
  const TemporaryFolder folder;
  save(folder.file("a"), {{"w", Tensor::ones({1})}});
  EXPECT_THAT(error_of([&] { load_checkpoint(folder.file("a")); }),
              HasSubstr("a: is not a checkpoint: its metadata has no 'checkpoint.crc32'"));
  EXPECT_THAT(error_of([] {
                integers_from({{"x", Tensor::ones({1})}});
              }),
              HasSubstr("'x' is not an int64 scalar"));
}

TEST(Checkpoint, NamesTheTensorThatWasAlteredAndItsPlace) {
  const TemporaryFolder folder;
  save_checkpoint(folder.file("a"), example());
  std::string bytes = folder.read("a");
  const std::size_t data = bytes.size() - (24 + 6 + 0 + 16 + 16);
  bytes[data + 25] ^= 1;
  EXPECT_THAT(error_of([&] { load_checkpoint(folder.write("b", bytes)); }),
              HasSubstr("b: tensor 'model.0.bias' at data bytes [24, 30) has checksum"));
}

// Whatever changes in the file: it is refused by name, or it says the same as before.
TEST(Checkpoint, NoticesEveryChangedByte) {
  const TemporaryFolder folder;
  const Checkpoint saved = example();
  save_checkpoint(folder.file("a"), saved);
  const std::string whole = folder.read("a");
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {1, 0x20, 0x80}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      const std::string path = folder.write("b", bytes);
      try {
        expect_equal(saved, load_checkpoint(path));
      } catch (const InvalidArgumentError& error) {
        EXPECT_THAT(error.what(), StartsWith(path + ": "));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()));
}

TEST(Checkpoint, NoticesBlocksThatWereExchangedOrCut) {
  const TemporaryFolder folder;
  const Checkpoint saved = example();
  save_checkpoint(folder.file("a"), saved);
  const std::string whole = folder.read("a");
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = whole;
    const std::size_t length = 1 + random() % 16;
    const std::size_t from = random() % (whole.size() - length);
    const std::size_t to = random() % (whole.size() - length);
    if (round % 2 == 0) {
      bytes.replace(to, length, whole.substr(from, length));
    } else {
      bytes.resize(whole.size() - length);
    }
    const std::string path = folder.write("b", bytes);
    try {
      expect_equal(saved, load_checkpoint(path));
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), StartsWith(path + ": "));
    }
  }
}

TEST(RngState, ReturnsToThePlaceItWasTakenAt) {
  Generator generator(0xFFFFFFFFFFFFFFFEu);
  generator.uniform();
  const Tensor state = get_rng_state(generator);
  const double next = generator.uniform();
  Generator other;
  set_rng_state(state, other);
  EXPECT_EQ(other.uniform(), next);
  EXPECT_EQ(other.state(), generator.state());
  manual_seed(7);
  const Tensor of_thread = get_rng_state();
  const Tensor drawn = rand({3});
  set_rng_state(of_thread);
  EXPECT_TRUE(bitwise_equal(rand({3}), drawn));
  EXPECT_THAT(error_of([] { set_rng_state(Tensor::zeros({2})); }),
              HasSubstr("set_rng_state: float32 [2], expected int64 [2]"));
  EXPECT_THAT(error_of([] { set_rng_state(Tensor::zeros({3}, DType::kI64)); }), HasSubstr("[3]"));
}

}  // namespace
}  // namespace io
}  // namespace hvd
