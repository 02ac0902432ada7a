#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/nccl/api.h"

namespace hvd::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OpenNccl, AnOlderLibraryIsRefusedWithBothVersions) {
  const NcclFile file = open_nccl(HVD_OLD_NCCL);
  EXPECT_EQ(file.api, nullptr);
  EXPECT_THAT(file.detail, AllOf(HasSubstr("NCCL 2.18.5 (" HVD_OLD_NCCL ")"),
                                 HasSubstr("built for " + nccl_version_text(NCCL_VERSION_CODE))));
}

TEST(OpenNccl, OneThatLacksAFunctionIsRefusedByItsName) {
  const NcclFile file = open_nccl(HVD_HALF_NCCL);
  EXPECT_EQ(file.api, nullptr);
  EXPECT_THAT(file.detail, HasSubstr("has no ncclGetErrorString"));
}

TEST(OpenNccl, AnotherLibraryIsNone) {
  EXPECT_THAT(open_nccl("libc.so.6").detail, HasSubstr("libc.so.6 does not tell its version"));
}

TEST(OpenNccl, AMissingFileIsToldInTheLinkersWords) {
  EXPECT_THAT(open_nccl("/nowhere/libnccl.so").detail, HasSubstr("/nowhere/libnccl.so"));
}

TEST(OpenNccl, WhatThisMachineHasIsFoundOrNot) {
  const NcclFile& file = nccl_file();
  EXPECT_THAT(file.detail, HasSubstr("nccl"));
  if (file.api == nullptr) return;
  int version = 0;
  EXPECT_EQ(file.api->get_version(&version), ncclSuccess);
  EXPECT_THAT(file.detail, HasSubstr("NCCL " + nccl_version_text(version)));
}

TEST(OpenNccl, VersionsReadAsNcclCountsThem) {
  EXPECT_EQ(nccl_version_text(22809), "2.28.9");
}

}  // namespace
}  // namespace hvd::engine
