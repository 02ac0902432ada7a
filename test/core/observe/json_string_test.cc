#include "core/observe/json_string.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace hvd::engine {
namespace {

TEST(JsonString, EveryCharacterOfAsciiSurvivesARealParser) {
  std::string text;
  for (int code = 0; code < 128; ++code) text += static_cast<char>(code);
  EXPECT_EQ(nlohmann::json::parse(json_string(text)).get<std::string>(), text);
}

TEST(JsonString, Utf8OfEveryLengthSurvives) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf";
  EXPECT_EQ(nlohmann::json::parse(json_string(text)).get<std::string>(), text);
}

TEST(JsonString, WhatIsNotUtf8BecomesTheReplacementCharacter) {
  const std::string replacement = "\xef\xbf\xbd";
  // A lone continuation, a cut character, an overlong one, a surrogate, one above U+10FFFF.
  for (const auto& [bad, count] : {std::pair<std::string, int>("\x80", 1),
                                   {"\xe2\x82", 1},
                                   {"\xc0\xaf", 2},
                                   {"\xed\xa0\x80", 3},
                                   {"\xf4\x90\x80\x80", 4}}) {
    std::string expected = "<";
    for (int i = 0; i < count; ++i) expected += replacement;
    expected += ">";
    EXPECT_EQ(nlohmann::json::parse(json_string("<" + bad + ">")).get<std::string>(), expected);
  }
}

TEST(JsonString, RandomBytesAlwaysMakeValidJson) {
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& character : text) character = static_cast<char>(random());
    EXPECT_TRUE(nlohmann::json::accept(json_string(text)));
  }
}

}  // namespace
}  // namespace hvd::engine
