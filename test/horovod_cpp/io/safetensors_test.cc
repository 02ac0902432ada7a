#include "horovod_cpp/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "core/base/status.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The file that a header and data bytes make; `length` overrides what the header claims.
std::string file_of(std::string json, const std::string& data, std::int64_t length = -1) {
  const std::uint64_t claimed = length < 0 ? json.size() : static_cast<std::uint64_t>(length);
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &claimed, 8);
  return bytes + json + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

std::string error_of(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("bad.safetensors", bytes);
  const std::string text = message_of<InvalidArgumentError>([&] { load(path); });
  EXPECT_THAT(text, StartsWith(path + ": "));
  return text.substr(path.size() + 2);
}

// One tensor of each dtype that the format has, with values that all of them have.
NamedTensors one_of_each() {
  NamedTensors tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (is_complex(dtype)) continue;
    tensors.emplace_back("t." + std::string(name_of(dtype)),
                         Tensor::arange(6).reshape({2, 3}).to(dtype));
  }
  return tensors;
}

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(bitwise_equal(a[i].second, b[i].second)) << a[i].first;
  }
}

TEST(Safetensors, ReturnsEveryDtypeBitForBitInOrder) {
  const TemporaryFolder folder;
  NamedTensors tensors = one_of_each();
  tensors.emplace_back("a scalar", Tensor::scalar(0.1));
  tensors.emplace_back("nothing \"quoted\" \n \xc3\xa4", Tensor::empty({3, 0, 2}, DType::kF16));
  tensors.emplace_back("first name last", Tensor::ones({1}));
  const Metadata metadata = {{"epoch", "3"}, {"weird \" key", "line\nbreak"}};
  save(folder.file("a"), tensors, metadata);
  const StateFile state = load(folder.file("a"));
  expect_equal(state.tensors, tensors);
  EXPECT_EQ(state.metadata, metadata);
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(Safetensors, WritesTheCodesThatOthersRead) {
  const TemporaryFolder folder;
  for (const auto& [dtype, code] : {std::pair{DType::kI8, "I8"},
                                    {DType::kU16, "U16"},
                                    {DType::kI16, "I16"},
                                    {DType::kBool, "BOOL"}}) {
    save(folder.file("a"), {{"x", Tensor::ones({1}, dtype)}});
    EXPECT_THAT(folder.read("a"), HasSubstr("\"dtype\":\"" + std::string(code) + "\""));
  }
}

TEST(Safetensors, RefusesABoolThatIsNeither0Nor1) {
  const TemporaryFolder folder;
  save(folder.file("a"), {{"mask", Tensor::ones({2}, DType::kBool)}});
  std::string bytes = folder.read("a");
  bytes.back() = 7;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { load(folder.write("b", bytes)); }),
              HasSubstr("b: tensor 'mask' has the byte 7 as element 1: a BOOL is 0 or 1"));
}

TEST(Safetensors, ReturnsAnEmptyState) {
  const TemporaryFolder folder;
  save(folder.file("a"), {});
  EXPECT_TRUE(load(folder.file("a")).tensors.empty());
  EXPECT_TRUE(load(folder.file("a")).metadata.empty());
}

TEST(Safetensors, WritesTheBytesOfTheFormat) {
  const TemporaryFolder folder;
  const float values[] = {1, 2};
  save(folder.file("a"), {{"w", Tensor::from(values, {2})}}, {{"k", "v"}});
  std::string json =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(folder.read("a"), file_of(json, std::string("\x00\x00\x80\x3f\x00\x00\x00\x40", 8)));
}

TEST(Safetensors, WritesTensorsThatAreNotContiguousAsIfTheyWere) {
  const TemporaryFolder folder;
  const Tensor matrix = Tensor::arange(6).reshape({2, 3});
  Tensor trained = Tensor::ones({2});
  trained.requires_grad_();
  save(folder.file("a"), {{"t", matrix.t()}, {"s", matrix.slice(1, 1, 3)}, {"p", trained}});
  const StateFile state = load(folder.file("a"));
  EXPECT_EQ(state.tensors[0].second.shape(), (Shape{3, 2}));
  EXPECT_THAT(state.tensors[0].second.to_vector(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(state.tensors[1].second.to_vector(), ElementsAre(1, 2, 4, 5));
  EXPECT_FALSE(state.tensors[2].second.requires_grad());
}

TEST(Safetensors, ReadsWhatOthersWriteInAnyOrderOfTheHeader) {
  const TemporaryFolder folder;
  const std::string json = " {" + entry("b", "U8", "[2]", "[1, 3]") + ",\n" +
                           R"("a":{"data_offsets":[0,1],"shape":[],"dtype":"U8"}})";
  const StateFile state =
      load(folder.write("a", file_of(json.substr(1) + "   ", std::string("\x05\x06\x07"))));
  ASSERT_EQ(state.tensors.size(), 2u);
  EXPECT_EQ(state.tensors[0].first, "a");
  EXPECT_EQ(state.tensors[0].second.item(), 5);
  EXPECT_THAT(state.tensors[1].second.to_vector(), ElementsAre(6, 7));
}

TEST(Safetensors, ReplacesAFileOnlyByACompleteOne) {
  const TemporaryFolder folder;
  save(folder.file("a"), {{"old", Tensor::ones({1})}});
  save(folder.file("a"), {{"new", Tensor::ones({1})}});
  EXPECT_EQ(load(folder.file("a")).tensors[0].first, "new");

  // Writes past this size fail half-way, as on a full disk.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction previous {};
  sigaction(SIGXFSZ, &ignore, &previous);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto attempt = [&] { save(folder.file("a"), {{"large", Tensor::ones({4096})}}); };
  const std::string text = message_of<InvalidArgumentError>(attempt);
  setrlimit(RLIMIT_FSIZE, &before);
  sigaction(SIGXFSZ, &previous, nullptr);

  EXPECT_THAT(text, HasSubstr("cannot be written: File too large"));
  EXPECT_EQ(load(folder.file("a")).tensors[0].first, "new");
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(Safetensors, LeavesNothingBehindWhereItCannotWrite) {
  const TemporaryFolder folder;
  const NamedTensors tensors = {{"a", Tensor::ones({1})}};
  const auto error = [&](const std::string& path) {
    return message_of<InvalidArgumentError>([&] { save(path, tensors); });
  };
  EXPECT_THAT(error(folder.file("no/such/folder")), HasSubstr("No such file or directory"));
  EXPECT_THAT(error(folder.write("plain", "") + "/x"), HasSubstr("Not a directory"));
  std::filesystem::create_directories(folder.file("taken/inside"));
  EXPECT_THAT(error(folder.file("taken")), HasSubstr("cannot take the place of what is there"));
  EXPECT_THAT(folder.names(), ElementsAre("plain", "taken"));
}

TEST(Safetensors, DoesNotTakeThePlaceOfADeviceOrAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const auto error = message_of<InvalidArgumentError>([&] {
    save(folder.file("pipe"), {{"a", Tensor::ones({1})}});
  });
  EXPECT_THAT(error, HasSubstr("pipe: is a device, a pipe or a socket, not a file"));
  EXPECT_TRUE(std::filesystem::is_fifo(folder.file("pipe")));
  EXPECT_THAT(folder.names(), ElementsAre("pipe"));
}

TEST(Safetensors, RefusesToWriteWhatTheFormatDoesNotHave) {
  const TemporaryFolder folder;
  const Tensor one = Tensor::ones({1});
  const auto error = [&](const NamedTensors& tensors, const Metadata& metadata = {}) {
    return message_of<InvalidArgumentError>([&] { save(folder.file("a"), tensors, metadata); });
  };
  EXPECT_THAT(error({{"x", one}, {"x", one}}), HasSubstr("a: the name 'x' appears twice"));
  EXPECT_THAT(error({{"__metadata__", one}}), HasSubstr("reserved"));
  EXPECT_THAT(error({{"x", Tensor()}}), HasSubstr("'x' is undefined"));
  EXPECT_THAT(error({{"\xff", one}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error({}, {{"k", "\xff"}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(error({{"x", Tensor::ones({1}, DType::kC64)}}),
              HasSubstr("'x' has dtype complex64, which the safetensors format cannot hold"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(LoadSafetensors, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  const auto error = [](const std::string& path) {
    return message_of<InvalidArgumentError>([&] { load(path); });
  };
  EXPECT_THAT(error(folder.file("none")), HasSubstr("none: cannot be opened: No such file"));
  EXPECT_THAT(error(folder.path()), HasSubstr("is not a regular file"));
}

TEST(LoadSafetensors, RefusesAHeaderLengthThatLies) {
  EXPECT_THAT(error_of(""), HasSubstr("has 0 bytes, too few for a header length"));
  EXPECT_THAT(error_of("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(error_of(file_of("{}", "", 3)), HasSubstr("claims 3 bytes, but 2 follow"));
  EXPECT_THAT(error_of(file_of("{}", "", std::numeric_limits<std::int64_t>::max())),
              HasSubstr("claims 9223372036854775807 bytes"));
  EXPECT_THAT(error_of(std::string(8, '\xff') + "{}"), HasSubstr("claims 18446744073709551615"));
  EXPECT_THAT(error_of(file_of("", "")), HasSubstr("does not begin with '{'"));
}

TEST(LoadSafetensors, RefusesJsonThatIsNoHeader) {
  EXPECT_THAT(error_of(file_of("[1]", "")), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_of(file_of("{\"a\":", "")), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(error_of(file_of("{} {}", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(file_of("{\"\xff\":1}", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(file_of(R"({"a":null})", "")), HasSubstr("'a' is null, not an object"));
  EXPECT_THAT(error_of(file_of(R"({"a":[]})", "")), HasSubstr("'a' is an array, not an object"));
  EXPECT_THAT(error_of(file_of(R"({"a":3})", "")), HasSubstr("'a' is the number 3"));
  EXPECT_THAT(error_of(file_of(R"({"a":{}})", "")), HasSubstr("exactly dtype, shape and"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":{}}})", "")),
              HasSubstr("an object at key 'dtype'"));
  EXPECT_THAT(
      error_of(file_of(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":"y"}})", "1")),
      HasSubstr("a string at key 'x'"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":{"k":1}})", "")),
              HasSubstr("'__metadata__' has the number 1 at key 'k'"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":"k"})", "")), HasSubstr("is a string"));
  EXPECT_THAT(error_of(file_of("{" + std::string(1000, '['), "")), HasSubstr("not valid JSON"));
}

TEST(LoadSafetensors, RefusesNamesThatAreThereTwice) {
  EXPECT_THAT(error_of(file_of("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                                   entry("a", "U8", "[1]", "[1,2]") + "}",
                               "12")),
              HasSubstr("the name 'a' appears twice"));
  EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","dtype":"U8"}})", "")),
              HasSubstr("'a' has the key 'dtype' twice"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", "")),
              HasSubstr("'__metadata__' has the key 'k' twice"));
}

TEST(LoadSafetensors, RefusesShapesAndDtypesThatDoNotFitTheBytes) {
  const auto error = [](const char* dtype, const char* shape, const char* offsets) {
    return error_of(file_of("{" + entry("a", dtype, shape, offsets) + "}", "12345678"));
  };
  EXPECT_THAT(error("F32", "[3]", "[0,8]"), HasSubstr("needs 12 bytes, its data_offsets give 8"));
  EXPECT_THAT(error("F64", "[]", "[0,7]"), HasSubstr("needs 8 bytes, its data_offsets give 7"));
  EXPECT_THAT(error("F8", "[8]", "[0,8]"), HasSubstr("'a' has dtype 'F8'; known: U8"));
  EXPECT_THAT(error("f32", "[2]", "[0,8]"), HasSubstr("'a' has dtype 'f32'"));
  EXPECT_THAT(error("F32", "[-2]", "[0,8]"), HasSubstr("the number -2 at key 'shape'"));
  EXPECT_THAT(error("F32", "[2.0]", "[0,8]"), HasSubstr("the number 2.0 at key 'shape'"));
  EXPECT_THAT(error("F32", "[\"2\"]", "[0,8]"), HasSubstr("a string at key 'shape'"));
  EXPECT_THAT(error("F32", "[[2]]", "[0,8]"), HasSubstr("an array at key 'shape'"));
  EXPECT_THAT(error("F32", "[18446744073709551615]", "[0,8]"), HasSubstr("has extent 1844674407"));
  EXPECT_THAT(error("F32", "[4294967296,4294967296]", "[0,8]"), HasSubstr("more than 2^63 bytes"));
  EXPECT_THAT(error("F32", "[4611686018427387904,2]", "[0,8]"), HasSubstr("more than 2^63 bytes"));
  // Nothing is in it, but its strides would overflow, in whatever order.
  for (const char* shape : {"[0,4611686018427387904,4]", "[4611686018427387904,4,0]"}) {
    EXPECT_THAT(error("F32", shape, "[0,0]"), HasSubstr("more than 2^63 bytes")) << shape;
  }
}

TEST(LoadSafetensors, RefusesOffsetsThatDoNotCoverTheData) {
  const auto error = [](const std::string& a, const std::string& b) {
    return error_of(
        file_of("{" + entry("a", "U8", "[2]", a) + "," + entry("b", "U8", "[2]", b) + "}", "1234"));
  };
  EXPECT_THAT(error("[0,2]", "[1,3]"), HasSubstr("'b' lies at [1, 3), which overlaps"));
  EXPECT_THAT(error("[0,2]", "[0,2]"), HasSubstr("'b' lies at [0, 2), which overlaps"));
  EXPECT_THAT(error("[0,1]", "[2,4]"), HasSubstr("needs 2 bytes, its data_offsets give 1"));
  EXPECT_THAT(error("[1,3]", "[3,5]"), HasSubstr("'a' lies at [1, 3), which leaves a hole"));
  EXPECT_THAT(error("[0,2]", "[3,5]"), HasSubstr("'b' lies at [3, 5) of 4 data bytes"));
  EXPECT_THAT(error("[2,0]", "[2,4]"), HasSubstr("'a' lies at [2, 0) of 4 data bytes"));
  EXPECT_THAT(error("[0,2,3]", "[2,4]"), HasSubstr("'a' has 3 data_offsets, not 2"));
  EXPECT_THAT(error_of(file_of("{" + entry("a", "U8", "[2]", "[0,2]") + "}", "123")),
              HasSubstr("the tensors end at byte 2 of 3 data bytes"));
  EXPECT_THAT(error_of(file_of("{}", "123")), HasSubstr("end at byte 0 of 3"));
}

TEST(LoadSafetensors, RefusesEveryTruncationOfAFile) {
  const TemporaryFolder folder;
  save(folder.file("a"), one_of_each(), {{"k", "v"}});
  const std::string whole = folder.read("a");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of(whole.substr(0, length)), "") << length << " bytes";
  }
}

// Whatever the bytes: either the loader refuses them by name, or what it returns fits the file.
TEST(LoadSafetensors, SurvivesMutatedFiles) {
  const TemporaryFolder folder;
  save(folder.file("a"), one_of_each(), {{"k", "v"}});
  const std::string whole = folder.read("a");
  std::mt19937 random(1);
  int refused = 0;
  int loaded = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = "0123456789[]{}\",:"[random() % 17];
          break;
        case 2:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 8));
      }
    }
    const std::string path = folder.write("b", bytes);
    try {
      std::size_t total = 0;
      for (const auto& [name, tensor] : load(path).tensors) {
        total += bytes_of(tensor);
      }
      EXPECT_LT(total, bytes.size());
      ++loaded;
    } catch (const InvalidArgumentError& error) {
      EXPECT_THAT(error.what(), StartsWith(path + ": "));
      ++refused;
    }
  }
  // Both happen, or the loop has lost its meaning.
  EXPECT_GT(refused, 1000);
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace io
}  // namespace hvd
