#include "horovod_cpp/io/header_reader.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace io {
namespace {

// Takes the JSON event by event. The format is so narrow that each event is either the one thing
// that may come next or an error; nothing of the document but the result is kept.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override {
    unexpected("the number " + std::to_string(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + text);
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (numbers_ == nullptr) unexpected("the number " + std::to_string(value));
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
      throw InvalidArgumentError(top ? "the name '" + value + "' is there twice"
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
    throw InvalidArgumentError("the header is not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { kStart, kTop, kTensor, kMetadata, kEnd };

  [[noreturn]] void unexpected(const std::string& what) const {
    switch (place_) {
      case Place::kTensor:
      case Place::kMetadata:
        throw InvalidArgumentError("'" + name_ + "' has " + what + " at key '" + key_ +
                                   "', where none belongs");
      case Place::kTop:
        throw InvalidArgumentError("'" + name_ + "' is " + what + ", not an object");
      default:
        throw InvalidArgumentError("the header is " + what + ", not an object");
    }
  }

  void finish_tensor() {
    if (!dtype_ || !shape_ || !offsets_) {
      throw InvalidArgumentError("tensor '" + name_ +
                                 "' must have exactly dtype, shape and data_offsets");
    }
    if (offsets_->size() != 2) {
      throw InvalidArgumentError("tensor '" + name_ + "' has " + std::to_string(offsets_->size()) +
                                 " data_offsets, not 2");
    }
    HeaderEntry entry{name_, parse_code(*dtype_, name_), {}, (*offsets_)[0], (*offsets_)[1]};
    for (const std::uint64_t extent : *shape_) {
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw InvalidArgumentError("tensor '" + name_ + "' has extent " + std::to_string(extent));
      }
      entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    header_.entries.push_back(std::move(entry));
  }

  Place place_ = Place::kStart;
  std::string name_;  // key of the top level
  std::string key_;   // key inside of it
  std::set<std::string> names_;
  std::set<std::string> inner_keys_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_;
  std::optional<std::vector<std::uint64_t>> offsets_;
  std::vector<std::uint64_t>* numbers_ = nullptr;  // the array that is open
  Header header_;
};

}  // namespace

Header read_header_json(std::string_view json) {
  HeaderReader reader;
  nlohmann::json::sax_parse(json, &reader);
  return reader.take();
}

}  // namespace io
}  // namespace hvd
