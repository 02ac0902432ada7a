#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hvd::engine::test {

// Events of one track in the order of the file, without metadata.
inline std::vector<nlohmann::json> track_of(const nlohmann::json& trace, int rank,
                                            const std::string& title) {
  int number = -1;
  for (const auto& event : trace) {
    if (event["pid"] == rank && event["name"] == "thread_name" && event["args"]["name"] == title) {
      number = event["tid"];
    }
  }
  std::vector<nlohmann::json> events;
  for (const auto& event : trace) {
    if (event["pid"] == rank && event["tid"] == number && event["ph"] != "M") {
      events.push_back(event);
    }
  }
  return events;
}

// Names of the spans on it, each once.
inline std::vector<std::string> spans_of(const nlohmann::json& trace, int rank,
                                         const std::string& title) {
  std::vector<std::string> names;
  for (const auto& event : track_of(trace, rank, title)) {
    const std::string& type = event["ph"].get_ref<const std::string&>();
    const std::string name = event["name"];
    const bool small = name == "PACK" || name == "UNPACK";
    if ((type == "B" || type == "X") && !small) names.push_back(name);
  }
  return names;
}

inline std::int64_t nanoseconds_of(const nlohmann::json& value) {
  return std::llround(value.get<double>() * 1000);
}

// What Perfetto insists on: an array of events with the fields of their types, times that are not
// negative, and on each track spans that do not overlap unless one is inside the other.
inline void check_trace(const nlohmann::json& trace) {
  ASSERT_TRUE(trace.is_array());
  std::map<std::pair<int, int>, std::vector<std::int64_t>> ends;  // of the spans we are in
  std::map<std::pair<int, int>, std::int64_t> latest;             // where they began
  std::map<std::pair<int, int>, std::vector<std::string>> begun;  // B without E
  for (const auto& event : trace) {
    ASSERT_TRUE(event["name"].is_string() && event["ph"].is_string()) << event;
    ASSERT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer()) << event;
    const std::string type = event["ph"];
    if (type == "M") continue;
    ASSERT_TRUE(event["ts"].is_number()) << event;
    const std::int64_t at = nanoseconds_of(event["ts"]);
    ASSERT_GE(at, 0) << event;
    const auto track = std::pair<int, int>(event["pid"], event["tid"]);
    if (type == "i") {
      ASSERT_TRUE(event["s"] == "g" || event["s"] == "p" || event["s"] == "t") << event;
      continue;
    }
    auto& open = ends[track];
    if (type == "B") {
      for (const std::int64_t end : open) ASSERT_LE(end, at) << event;
      ASSERT_GE(at, latest[track]) << event;
      ASSERT_TRUE(begun[track].empty()) << event;
      begun[track].push_back(event["name"]);
      open.clear();
    } else if (type == "E") {
      ASSERT_FALSE(begun[track].empty()) << event;
      ASSERT_EQ(begun[track].back(), event["name"]) << event;
      ASSERT_GE(at, latest[track]) << event;
      begun[track].pop_back();
    } else {
      ASSERT_EQ(type, "X") << event;
      ASSERT_TRUE(begun[track].empty()) << event;
      const std::int64_t end = at + nanoseconds_of(event["dur"]);
      ASSERT_GE(end, at) << event;
      std::erase_if(open, [&](std::int64_t outer) { return outer <= at; });
      for (const std::int64_t outer : open) ASSERT_LE(end, outer) << event;
      open.push_back(end);
    }
    latest[track] = at;
  }
}

}  // namespace hvd::engine::test
