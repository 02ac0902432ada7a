// What a launcher or a user left incomplete: never a job of one rank that nobody asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "core/ports/rendezvous.h"
#include "ops/connect/backends.h"
#include "test/support/scoped_environment.h"

namespace hvd::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HalfAPlace : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) { environment_.set(name, value); }
  static std::string refusal() {
    try {
      connect(read_config());
    } catch (const Error& error) {
      return error.what();
    }
    return "connected";
  }

 private:
  ScopedEnvironment environment_;
};

TEST_F(HalfAPlace, ARankWithoutASizeIsRefused) {
  set("HOROVOD_RANK", "1");
  EXPECT_EQ(read_launch_info().launcher, "hvdrun");
  EXPECT_THAT(refusal(), StartsWith("hvdrun started this process (rank 1 of ?)"));
}

TEST_F(HalfAPlace, ASizeWithoutARankIsRefused) {
  set("HOROVOD_SIZE", "2");
  EXPECT_THAT(refusal(), StartsWith("hvdrun started this process (a rank it does not say of 2)"));
  set("HVD_RENDEZVOUS", "unix:half-a-place");
  EXPECT_THAT(refusal(), HasSubstr("as rank ? of 2: expected two whole numbers"));
}

TEST_F(HalfAPlace, ARendezvousWithoutEitherIsRefused) {
  set("HVD_RENDEZVOUS", "unix:half-a-place");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("HVD_RENDEZVOUS='unix:half-a-place'"),
                               HasSubstr("set HOROVOD_RANK and HOROVOD_SIZE")));
}

TEST_F(HalfAPlace, ARankByHandWithoutASizeIsRefused) {
  set("RANK", "1");
  EXPECT_EQ(refusal(), "connected");  // others use that name
  set("MASTER_ADDR", "127.0.0.1");
  EXPECT_EQ(refusal(), "connected");
  set("MASTER_PORT", "29555");
  EXPECT_THAT(refusal(), StartsWith("RANK is set, but WORLD_SIZE is not"));
  set("HVD_WORLD", "self");
  EXPECT_EQ(refusal(), "connected");
}

TEST_F(HalfAPlace, ASizeByHandWithoutARankIsRefused) {
  set("WORLD_SIZE", "2");
  EXPECT_EQ(refusal(), "connected");
  set("HVD_RENDEZVOUS_KEY", "0123456789abcdef0123");
  EXPECT_THAT(refusal(), StartsWith("WORLD_SIZE is set, but RANK is not"));
}

TEST_F(HalfAPlace, ARankBeyondAJobOfOneIsRefused) {
  set("RANK", "3");
  set("WORLD_SIZE", "1");
  EXPECT_THAT(refusal(),
              HasSubstr("whoever set RANK and WORLD_SIZE started this process as rank 3 of 1"));
  set("RANK", "0");
  EXPECT_EQ(refusal(), "connected");
}

TEST(MissingRanks, AreNotAllNamedWhereTheyAreMany) {
  std::vector<bool> here(1'000'000, false);
  here[0] = true;
  const std::string message = missing_ranks(here).message();
  EXPECT_THAT(message,
              AllOf(StartsWith("rank(s) 1, 2, 3, "), HasSubstr(" 32 and 999967 more did")));
}

}  // namespace
}  // namespace hvd::engine
