// Which modules a program opens, wherever it and they are.
#include "ops/connect/libraries.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/temporary_folder.h"

namespace hvd::engine::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uid_t kSomebody = 12'345;

class ModuleFiles : public ::testing::Test {
 protected:
  // A copy of the program, of a given name in the folder.
  void SetUp() override {
    fs::create_directories(folder_.file("tree/bin"));
    fs::copy_file(HVD_MODULE_PROBE, program_);
  }
  std::string put(const std::string& place, const char* module = HVD_TEST_MODULE) {
    const fs::path path = folder_.file(place);
    fs::create_directories(path.parent_path());
    fs::copy_file(module, path);
    return fs::canonical(path);
  }
  std::string run(const std::string& variables = "") const { return run(variables, program_); }
  std::string run(const std::string& variables, const std::string& program) const {
    std::FILE* const pipe = popen(("env " + variables + " " + program + " 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 256> part;
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) output += part.data();
    pclose(pipe);
    return output;
  }

  TemporaryFolder folder_;
  const std::string program_ = folder_.file("tree/bin/program");
};

TEST_F(ModuleFiles, AreFoundBesideTheCodeAndInTheLibraryFolderOfItsTree) {
  EXPECT_THAT(run(), AllOf(StartsWith("0 libhvd_test.so is not installed"), HasSubstr("make one")));
  const std::string in_tree = put("tree/lib/horovod_cpp/libhvd_test.so");
  EXPECT_EQ(run(), "42 " + in_tree + "\n");
  const std::string beside = put("tree/bin/libhvd_test.so");
  EXPECT_EQ(run(), "42 " + beside + "\n");
}

// As users call hvdrun.
TEST_F(ModuleFiles, AreFoundByAProgramThatIsCalledByItsNameAlone) {
  const std::string module = put("tree/bin/libhvd_test.so");
  const fs::path program = program_;
  EXPECT_EQ(run("PATH=" + program.parent_path().string(), program.filename()),
            "42 " + module + "\n");
}

TEST_F(ModuleFiles, AreFoundInThePackageOfAPythonEnvironment) {
  const std::string module = put("tree/lib/python3.11/site-packages/horovod_cpp/libhvd_test.so");
  EXPECT_EQ(run(), "42 " + module + "\n");
}

TEST_F(ModuleFiles, AreFoundWhereTheUserSaysTheLinkerLooks) {
  const std::string module = put("elsewhere/libhvd_test.so");
  EXPECT_EQ(run("LD_LIBRARY_PATH=" + folder_.file("elsewhere")), "42 " + module + "\n");
}

TEST_F(ModuleFiles, AreNotLookedForInFoldersOfTheProgramsName) {
  put("tree/bin/horovod_cpp/libhvd_test.so");
  put("tree/lib/libhvd_test.so");
  put("tree/libhvd_test.so");
  EXPECT_THAT(run(), StartsWith("0 libhvd_test.so is not installed"));
}

TEST_F(ModuleFiles, OfAnotherUserAreNotOpened) {
  if (geteuid() != 0) GTEST_SKIP() << "gives a file to another user, which needs root";
  const std::string module = put("tree/bin/libhvd_test.so");
  ASSERT_EQ(chown(module.c_str(), kSomebody, kSomebody), 0);
  EXPECT_THAT(run(),
              AllOf(StartsWith("0 "), HasSubstr(module + " is not opened, because another")));
  // The owner of the program could have changed that as well.
  ASSERT_EQ(chown(program_.c_str(), kSomebody, kSomebody), 0);
  EXPECT_EQ(run(), "42 " + module + "\n");
}

TEST_F(ModuleFiles, ThatAnybodyCanReplaceAreNotOpened) {
  const std::string module = put("tree/bin/libhvd_test.so");
  fs::permissions(module, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(run(), HasSubstr(module + " is not opened"));
  fs::permissions(module, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder_.file("tree/bin"), fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(run(), HasSubstr(module + " is not opened"));
  // As /tmp is: who put it there is its owner.
  fs::permissions(folder_.file("tree/bin"), fs::perms::sticky_bit, fs::perm_options::add);
  EXPECT_EQ(run(), "42 " + module + "\n");
}

TEST_F(ModuleFiles, OfAnotherBuildAreNotUsed) {
  const std::string module = put("tree/bin/libhvd_test.so", HVD_OTHER_MODULE);
  EXPECT_THAT(run(), AllOf(StartsWith("0 " + module + " is of another build"),
                           HasSubstr("0.0.9-000000000000")));
}

}  // namespace
}  // namespace hvd::engine::test
