#include "core/negotiate/messages/call_name.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

TEST(CallName, AGroupIsNamedAfterItsFirstTensorAndCountsTheOthers) {
  EXPECT_EQ(group_name("c1.weight", 1), "c1.weight");
  EXPECT_EQ(group_name("c1.weight", 8), "c1.weight and 7 more");
  EXPECT_EQ(quoted_name(group_name("c1.weight", 8)), "'c1.weight' and 7 more");
}

TEST(CallName, TheFirstOptimizerNeedsNoNumber) {
  EXPECT_EQ(unique_suffix("optimizer", 1), "");
  EXPECT_EQ(unique_suffix("optimizer", 3), " (optimizer 3)");
}

TEST(CallName, PeopleReadNameAndKind) {
  EXPECT_EQ(readable_name("allreduce.metric"), "'metric' (allreduce)");
  EXPECT_EQ(readable_name("allreduce.c1.weight and 7 more"), "'c1.weight' and 7 more (allreduce)");
  EXPECT_EQ(readable_name("set2.broadcast.x"), "'x' (broadcast of process set 2)");
  EXPECT_EQ(readable_name("add process set.noname.0"), "unnamed call 0 (add process set)");
  EXPECT_EQ(readable_name("set2.allreduce.noname.12"),
            "unnamed call 12 (allreduce of process set 2)");
  EXPECT_EQ(readable_name("broadcast.noname"), "an unnamed call (broadcast)");
  EXPECT_EQ(readable_name("broadcast.noname.x"), "'noname.x' (broadcast)");
  EXPECT_EQ(readable_name("broadcast.nonames"), "'nonames' (broadcast)");
  EXPECT_EQ(readable_name("allreduce.18.weight and 3 more (optimizer 2)"),
            "'18.weight' and 3 more (optimizer 2) (allreduce)");
  EXPECT_EQ(readable_name("allreduce.18.weight (optimizer 2)"),
            "'18.weight' (optimizer 2) (allreduce)");
  EXPECT_EQ(readable_name("allreduce.w and 2 more.float16"), "'w' and 2 more.float16 (allreduce)");
}

TEST(CallName, WhatSaysNoKindIsQuotedAsItIs) {
  EXPECT_EQ(readable_name("shared"), "'shared'");
  EXPECT_EQ(readable_name("set3.shared"), "'shared' (process set 3)");
  EXPECT_EQ(readable_name("setting.x"), "'setting.x'");
  EXPECT_EQ(readable_name("allreduce."), "'allreduce.'");
  EXPECT_EQ(readable_name("allreduces.x"), "'allreduces.x'");
  EXPECT_EQ(readable_name(""), "''");
}

TEST(CallName, WordsOfACallersNameStayInsideTheQuotes) {
  EXPECT_EQ(quoted_name("bread and more"), "'bread and more'");
  EXPECT_EQ(quoted_name(" and 7 more"), "' and 7 more'");
  EXPECT_EQ(quoted_name("x (copy)"), "'x (copy)'");
  EXPECT_EQ(quoted_name("seven more"), "'seven more'");
}

}  // namespace
}  // namespace hvd
