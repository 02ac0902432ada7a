#include "horovod_cpp/io/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/base/unique_fd.h"
#include "core/system/files.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/memory.h"

namespace hvd::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// The header's bound in the format's reference implementation, in bytes.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct HeaderEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
};

constexpr std::string_view kMetadataKey = "__metadata__";

// A regular file, read from its beginning. Every failure throws InvalidArgumentError naming path
// and reason.
class InputFile {
 public:
  explicit InputFile(std::string path) : path_(std::move(path)) {
    // Non-blocking: opening a pipe must not wait for a writer.
    fd_ = UniqueFd(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd_) fail("cannot be opened: ", std::strerror(errno));
    struct stat status {};
    if (fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) fail("is not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::uint64_t size() const { return size_; }
  void read(void* to, std::size_t bytes) {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = ::read(fd_.get(), at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        fail("cannot be read at byte ", offset_, ": ", std::strerror(errno));
      }
      if (got == 0) fail("ended at byte ", offset_, " while it was being read");
      at += got;
      offset_ += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
  }
  // Throws InvalidArgumentError("<path>: <what>").
  [[noreturn]] void fail(const auto&... what) const {
    throw InvalidArgumentError(path_, ": ", what...);
  }

 private:
  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
};

// Indexed by DType; empty where the format has no code.
constexpr std::array<std::string_view, kDTypeCount> kDTypeCodes = {
    "U8", "I32", "I64", "F16", "BF16", "F32", "F64", "I8", "U16", "I16", "BOOL", "", ""};

std::string_view code_of(const HeaderEntry& entry) {
  const std::string_view code = kDTypeCodes[static_cast<std::size_t>(entry.dtype)];
  if (code.empty()) {
    throw InvalidArgumentError("tensor '", entry.name, "' has dtype ", entry.dtype,
                               ", which the safetensors format cannot hold");
  }
  return code;
}

// JSON, filled up with spaces to a multiple of 8 bytes. Throws InvalidArgumentError when a string
// is not UTF-8.
std::string write_header(const Header& header) {
  using Json = nlohmann::ordered_json;
  Json::object_t top;
  if (!header.metadata.empty()) top.emplace_back(kMetadataKey, header.metadata);
  for (const HeaderEntry& entry : header.entries) {
    top.emplace_back(entry.name, Json{{"dtype", code_of(entry)},
                                      {"shape", entry.shape},
                                      {"data_offsets", {entry.begin, entry.end}}});
  }
  try {
    std::string json = Json(std::move(top)).dump();
    json.resize((json.size() + 7) / 8 * 8, ' ');
    return json;
  } catch (const Json::exception&) {
    throw InvalidArgumentError("a name or metadata string is not UTF-8");
  }
}

// The dtype of a code such as "F32". Throws InvalidArgumentError naming tensor `name` and the code.
DType parse_code(const std::string& code, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < kDTypeCodes.size(); ++i) {
    if (kDTypeCodes[i].empty()) continue;
    if (kDTypeCodes[i] == code) return static_cast<DType>(i);
    known += (i == 0 ? "" : ", ") + std::string(kDTypeCodes[i]);
  }
  throw InvalidArgumentError("tensor '", name, "' has dtype '", code, "'; known: ", known);
}

// Takes the JSON event by event. The format is so narrow that each event is either the one thing
// that may come next or an error; nothing of the document but the result is kept.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { unexpected("the number ", value); }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number ", text);
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (numbers_ == nullptr) unexpected("the number ", value);
    numbers_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = value;
    } else if (place_ == Place::kTensor && numbers_ == nullptr && key_ == "dtype") {
      dtype_ = value;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = name_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
      inner_keys_.clear();
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    const bool top = place_ == Place::kTop;
    if (!(top ? names_ : inner_keys_).insert(value).second) {
      throw InvalidArgumentError(top ? "the name '" + value + "' appears twice"
                                     : "'" + name_ + "' has the key '" + value + "' twice");
    }
    (top ? name_ : key_) = value;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) finish_tensor();
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || numbers_ != nullptr) unexpected("an array");
    if (key_ == "shape") {
      numbers_ = &shape_.emplace();
    } else if (key_ == "data_offsets") {
      numbers_ = &offsets_.emplace();
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    numbers_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw InvalidArgumentError("the header is not valid JSON at byte ", position);
  }

 private:
  enum class Place { kStart, kTop, kTensor, kMetadata, kEnd };

  [[noreturn]] void unexpected(const auto&... what) const {
    switch (place_) {
      case Place::kTensor:
      case Place::kMetadata:
        throw InvalidArgumentError("'", name_, "' has ", what..., " at key '", key_,
                                   "', where none belongs");
      case Place::kTop:
        throw InvalidArgumentError("'", name_, "' is ", what..., ", not an object");
      default:
        throw InvalidArgumentError("the header is ", what..., ", not an object");
    }
  }

  void finish_tensor() {
    if (!dtype_ || !shape_ || !offsets_) {
      throw InvalidArgumentError("tensor '", name_,
                                 "' must have exactly dtype, shape and data_offsets");
    }
    if (offsets_->size() != 2) {
      throw InvalidArgumentError("tensor '", name_, "' has ", offsets_->size(),
                                 " data_offsets, not 2");
    }
    HeaderEntry entry{name_, parse_code(*dtype_, name_), {}, (*offsets_)[0], (*offsets_)[1]};
    for (const std::uint64_t extent : *shape_) {
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw InvalidArgumentError("tensor '", name_, "' has extent ", extent);
      }
      entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    header_.entries.push_back(std::move(entry));
  }

  Place place_ = Place::kStart;
  std::string name_;  // key of the top level
  std::string key_;   // key inside it
  std::set<std::string> names_;
  std::set<std::string> inner_keys_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::vector<std::uint64_t>> offsets_;
  std::vector<std::uint64_t>* numbers_ = nullptr;  // the array that is open
  Header header_;
};

// The entries and metadata of a header, in the order of the JSON; offsets and sizes are not yet
// checked. Throws InvalidArgumentError on whatever is not in the format.
Header read_header_json(std::string_view json) {
  HeaderReader reader;
  nlohmann::json::sax_parse(json, &reader);
  return reader.take();
}

void check_size(const HeaderEntry& entry) {
  const auto bytes = checked_bytes(entry.shape, entry.dtype);
  if (!bytes) {
    throw InvalidArgumentError("tensor '", entry.name, "' of shape ", entry.shape,
                               " has more than 2^63 bytes");
  }
  if (static_cast<std::uint64_t>(*bytes) != entry.end - entry.begin) {
    throw InvalidArgumentError("tensor '", entry.name, "' of shape ", entry.shape, " and dtype ",
                               entry.dtype, " needs ", *bytes, " bytes, its data_offsets give ",
                               entry.end - entry.begin);
  }
}

void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes) {
  std::ranges::stable_sort(
      entries, {}, [](const HeaderEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t expected = 0;
  for (const HeaderEntry& entry : entries) {
    const std::string range =
        "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
    if (entry.begin > entry.end || entry.end > data_bytes) {
      throw InvalidArgumentError("tensor '", entry.name, "' lies at ", range, " of ", data_bytes,
                                 " data bytes");
    }
    if (entry.begin != expected) {
      throw InvalidArgumentError(
          "tensor '", entry.name, "' lies at ", range, ", which ",
          (entry.begin < expected ? "overlaps the one before" : "leaves a hole before it"),
          ": expected to begin at ", expected);
    }
    check_size(entry);
    expected = entry.end;
  }
  if (expected != data_bytes) {
    throw InvalidArgumentError("the tensors end at byte ", expected, " of ", data_bytes,
                               " data bytes");
  }
}

// Checks everything against the format and `data_bytes`, the bytes that follow the header: the
// entries come back sorted by offset, together covering the data exactly. Throws
// InvalidArgumentError saying what is wrong.
Header parse_header(std::string_view json, std::uint64_t data_bytes) {
  if (json.empty() || json.front() != '{')
    throw InvalidArgumentError("the header does not begin with '{'");
  Header header = read_header_json(json);
  check_layout(header.entries, data_bytes);
  return header;
}

// Runs `action`; what it finds wrong gets the path in front.
template <typename Action>
auto naming(const std::string& path, Action action) {
  try {
    return action();
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(path, ": ", error.what());
  } catch (const std::bad_alloc& error) {
    throw OutOfMemoryError(path + ": " + error.what());
  }
}

Header describe(const NamedTensors& tensors, const Metadata& metadata) {
  Header header{{}, metadata};
  std::set<std::string> names = {std::string(kMetadataKey)};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) {
      throw InvalidArgumentError("the name '", name, "' appears twice or is reserved");
    }
    if (!tensor.defined()) throw InvalidArgumentError("tensor '", name, "' is undefined");
    const std::uint64_t end = offset + bytes_of(tensor);
    header.entries.push_back({name, tensor.dtype(), tensor.shape(), offset, end});
    offset = end;
  }
  return header;
}

// Other bytes than 0 and 1 would count and compare as the numbers they are.
void check_bools(const std::string& name, const Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return;
  const std::span bytes(static_cast<const std::uint8_t*>(tensor.data()), bytes_of(tensor));
  const auto wrong = std::ranges::find_if(bytes, [](std::uint8_t byte) { return byte > 1; });
  if (wrong == bytes.end()) return;
  throw InvalidArgumentError("tensor '", name, "' has the byte ", int{*wrong}, " as element ",
                             wrong - bytes.begin(), ": a BOOL is 0 or 1");
}

std::string header_of(const NamedTensors& tensors, const Metadata& metadata) {
  std::string json = write_header(describe(tensors, metadata));
  if (json.size() > kMaxHeaderBytes) {
    throw InvalidArgumentError("the header would have ", json.size(), " bytes; the format allows ",
                               kMaxHeaderBytes);
  }
  return json;
}

}  // namespace

void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  const std::string json = naming(path, [&] { return header_of(tensors, metadata); });
  const std::uint64_t length = json.size();
  engine::AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(json.data(), json.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = kernels::contiguous(kernels::to_device(tensor, {}));
    file.write(dense.data(), bytes_of(dense));
  }
  file.commit();
}

StateFile load(const std::string& path) {
  InputFile file(path);
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    file.fail("has ", file.size(), " bytes, too few for a header length");
  }
  file.read(&length, sizeof length);
  const std::uint64_t rest = file.size() - sizeof length;
  if (length > rest || length > kMaxHeaderBytes) {
    file.fail("the header claims ", length, " bytes, but ", rest, " follow and ", kMaxHeaderBytes,
              " are allowed");
  }
  std::string json(length, '\0');
  file.read(json.data(), json.size());
  Header header = naming(path, [&] { return parse_header(json, rest - length); });
  StateFile state{{}, std::move(header.metadata)};
  for (HeaderEntry& entry : header.entries) {
    Tensor tensor = naming(path, [&] { return Tensor::empty(entry.shape, entry.dtype); });
    file.read(tensor.data(), bytes_of(tensor));
    naming(path, [&] { check_bools(entry.name, tensor); });
    state.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return state;
}

}  // namespace hvd::io
