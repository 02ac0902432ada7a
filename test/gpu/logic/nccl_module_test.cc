#include "ops/nccl/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "ops/connect/backends.h"
#include "ops/connect/libraries.h"

// The module itself, with the CUDA that it carries, on whatever machine this is.
namespace hvd::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

BackendInfo row(const std::string& name) {
  for (const BackendInfo& info : backends()) {
    if (info.name == name) return info;
  }
  ADD_FAILURE() << "no row " << name;
  return {};
}

NcclModule& module() {
  row("nccl");  // opens it
  const NcclLibrary& library = nccl_library();
  if (library.module == nullptr) throw InternalError(library.detail);
  return *library.module;
}

TEST(NcclModule, ShowsItsVersions) {
  EXPECT_THAT(row("nccl").detail, AllOf(HasSubstr("nccl"), HasSubstr("libhvd_nccl.so")));
  EXPECT_THAT(row("cuda").detail, HasSubstr("CUDA "));
}

TEST(NcclModule, IsUsableWhereADeviceAndNcclAre) {
  EXPECT_EQ(row("cuda").usable, module().devices() > 0);
  EXPECT_EQ(row("nccl").usable, module().devices() > 0 && module().has_nccl());
  const bool says_none = row("cuda").detail.find("no CUDA device: ") != std::string::npos;
  EXPECT_EQ(says_none, module().devices() == 0);
}

TEST(NcclModule, ADeviceThatIsNotThereIsRefusedByNumber) {
  const auto expect_refused = [](const auto& call) {
    try {
      call();
      FAIL() << "a collective without a device";
    } catch (const UnsupportedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("CUDA device 99: there are "));
    }
  };
  expect_refused([] { module().make_collective(std::string(128, '\0'), {.device = 99}); });
  expect_refused([] { module().device_identity(99); });
}

}  // namespace
}  // namespace hvd::engine
