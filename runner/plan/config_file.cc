#include "runner/plan/config_file.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  std::vector<ConfigEntry> read() {
    try {
      if (std::filesystem::is_directory(path_)) throw YAML::BadFile(path_);
      const YAML::Node root = YAML::LoadFile(path_);
      if (!root.IsNull()) read_map(root, "");
    } catch (const YAML::BadFile&) {
      throw InvalidArgumentError("--config-file: cannot read '" + path_ +
                                 "' (a file of 'key: value' lines)");
    } catch (const YAML::ParserException& error) {
      fail(error.mark, error.msg);
    }
    return std::move(entries_);
  }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& why) const {
    throw InvalidArgumentError(path_ + ":" + std::to_string(mark.line + 1) + ": " + why);
  }

  void read_map(const YAML::Node& map, const std::string& prefix) {
    if (!map.IsMap()) fail(map.Mark(), "expected 'key: value' lines");
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) fail(pair.first.Mark(), "a key must be a word");
      read_value(pair.second, prefix + pair.first.Scalar(), pair.first.Mark());
    }
  }

  void read_value(const YAML::Node& value, const std::string& key, const YAML::Mark& mark) {
    if (value.IsMap()) return read_map(value, key + ".");
    std::string text;
    if (value.IsSequence()) {
      for (const YAML::Node& element : value) {
        if (!element.IsScalar()) fail(mark, key + ": expected a list of plain values");
        text += (text.empty() ? "" : ",") + element.Scalar();
      }
    } else if (value.IsScalar()) {
      text = value.Scalar();
    } else {
      fail(mark, key + ": has no value");
    }
    for (const ConfigEntry& entry : entries_) {
      if (entry.key == key) {
        fail(mark, key + ": was already given in line " + std::to_string(entry.line));
      }
    }
    entries_.push_back({key, text, mark.line + 1});
  }

  const std::string& path_;
  std::vector<ConfigEntry> entries_;
};

}  // namespace

std::vector<ConfigEntry> read_config_file(const std::string& path) {
  return Reader(path).read();
}

}  // namespace hvd::runner
