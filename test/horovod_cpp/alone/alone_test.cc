#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace hvd {
namespace {

// What `file`, a program or a library, defines for others to link with. Inline functions and what
// else any file may have a copy of (nm's W, V and u) do not count.
std::set<std::string> symbols_of(const std::string& file) {
  const std::string command = "nm --defined-only --format=posix '" + file + "'";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char part[4096];
  while (const std::size_t count = std::fread(part, 1, sizeof part, pipe.get())) {
    text.append(part, count);
  }
  std::set<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, kind;
    if (words >> name >> kind && std::string("TDBR").find(kind) != std::string::npos) {
      found.insert(name);
    }
  }
  return found;
}

std::vector<std::string> engine_libraries() {
  std::istringstream names(HVD_ENGINE_LIBRARIES);
  return {std::istream_iterator<std::string>(names), {}};
}

TEST(TrainingWithoutTheEngine, WorksInAProgramOfItsOwn) {
  EXPECT_EQ(std::system(HVD_TRAIN_ALONE), 0);
}

TEST(TrainingWithoutTheEngine, LinksNoSymbolOfIt) {
  const std::set<std::string> program = symbols_of(HVD_TRAIN_ALONE);
  EXPECT_THAT(program, ::testing::Contains(::testing::HasSubstr("hvd6Tensor")));
  EXPECT_GE(engine_libraries().size(), 10u);
  for (const std::string& library : engine_libraries()) {
    const std::set<std::string> engine = symbols_of(library);
    EXPECT_THAT(engine, ::testing::Not(::testing::IsEmpty())) << library;
    std::vector<std::string> both;
    std::set_intersection(program.begin(), program.end(), engine.begin(), engine.end(),
                          std::back_inserter(both));
    EXPECT_THAT(both, ::testing::IsEmpty()) << library;
  }
}

}  // namespace
}  // namespace hvd
