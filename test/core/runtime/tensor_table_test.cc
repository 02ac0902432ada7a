#include "core/runtime/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/core/runtime/submissions.h"
#include "test/support/message_of.h"

namespace hvd::engine {
namespace {

std::vector<Submission> named(const std::vector<std::string>& names) {
  std::vector<Submission> submissions;
  for (const std::string& name : names) {
    submissions.push_back(test::allreduce(name, test::shared<float>({1})));
  }
  return submissions;
}

// Their handles are dropped.
void add(TensorTable& table, std::vector<Submission> submissions) {
  std::vector<Handle> handles(submissions.size());
  table.add(submissions, handles);
}

// Their handles are held as long as the test lasts.
class TensorTableOfHeld : public testing::Test {
 protected:
  void add(TensorTable& table, std::vector<Submission> submissions) {
    std::vector<Handle> handles(submissions.size());
    table.add(submissions, handles);
    for (Handle& handle : handles) handles_.push_back(std::move(handle));
  }

 private:
  std::vector<Handle> handles_;
};

std::vector<std::string> names_of(const std::vector<InFlightPtr>& entries) {
  std::vector<std::string> names;
  for (const InFlightPtr& entry : entries) names.push_back(entry->name());
  return names;
}

TEST(TensorTable, GivesWhatWasAddedOnceAndInOrder) {
  TensorTable table;
  add(table, named({"b", "a"}));
  add(table, named({"c"}));
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_TRUE(table.take_added().empty());
  EXPECT_FALSE(table.empty());
}

TEST_F(TensorTableOfHeld, ReleasedNamesMayBeAddedWhileTheirFirstUsersAreInFlight) {
  TensorTable table;
  add(table, named({"a", "b"}));
  const auto first = table.take_added();
  table.release_names(first);
  add(table, named({"a"}));
  EXPECT_THROW(add(table, named({"a"})), InvalidArgumentError);
  EXPECT_EQ(table.count(), 3u);
  table.remove(first);  // takes no name from the second
  EXPECT_THROW(add(table, named({"a"})), InvalidArgumentError);
  add(table, named({"b"}));
  EXPECT_EQ(names_of(table.close({StatusCode::kAborted, "end"})),
            (std::vector<std::string>{"a", "b"}));
}

TEST_F(TensorTableOfHeld, RefusesANameInFlightAndNamesIt) {
  TensorTable table;
  add(table, named({"a"}));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { add(table, named({"a"})); }),
              testing::HasSubstr("'a'"));
}

TEST_F(TensorTableOfHeld, AddsAllOrNone) {
  TensorTable table;
  add(table, named({"a"}));
  EXPECT_THROW(add(table, named({"b", "a"})), InvalidArgumentError);
  EXPECT_THROW(add(table, named({"c", "c"})), InvalidArgumentError);
  add(table, named({"b", "c"}));
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(TensorTable, RefusesWhatFollowsAJoinOfTheSameProcessSet) {
  TensorTable table;
  std::vector<Submission> joins;
  joins.push_back(test::join("join"));
  add(table, std::move(joins));
  EXPECT_THROW(add(table, named({"a"})), InvalidArgumentError);
  std::vector<Submission> elsewhere;
  elsewhere.push_back(test::in_set(2, test::allreduce("b", test::shared<float>({1}))));
  add(table, std::move(elsewhere));
  const auto added = table.take_added();
  ASSERT_EQ(names_of(added), (std::vector<std::string>{"join", "b@2"}));
  table.remove(added[0]->ticket);
  add(table, named({"a"}));
}

TEST_F(TensorTableOfHeld, AJoinThatWasRefusedJoinsNothing) {
  TensorTable table;
  add(table, named({"a"}));
  std::vector<Submission> joins;
  joins.push_back(test::join("join"));
  joins.push_back(test::join("a"));
  EXPECT_THROW(add(table, std::move(joins)), InvalidArgumentError);
  add(table, named({"b"}));
}

TEST(TensorTable, ANameIsFreeOnceItWasRemoved) {
  TensorTable table;
  add(table, named({"a"}));
  const Ticket ticket = table.take_added().front()->ticket;
  EXPECT_EQ(table.find(ticket)->name(), "a");
  EXPECT_TRUE(table.remove(ticket));
  EXPECT_FALSE(table.remove(ticket));
  EXPECT_THROW(table.find(ticket), InternalError);
  add(table, named({"a"}));
  EXPECT_NE(table.take_added().front()->ticket, ticket);
}

TEST(TensorTable, ANameWhoseHandleIsDroppedIsGivenOneAfterTheOther) {
  TensorTable table;
  for (const char* name : {"a", "b", "a", "a"}) add(table, named({name}));
  const auto first = table.take_added();
  EXPECT_EQ(names_of(first), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table.count(), 4u);
  table.remove(first);
  const auto second = table.take_added();
  EXPECT_EQ(names_of(second), (std::vector<std::string>{"a"}));
  table.release_names(second);
  const auto third = table.take_added();
  EXPECT_EQ(names_of(third), (std::vector<std::string>{"a"}));
  table.remove(second);
  add(table, named({"a"}));
  EXPECT_TRUE(table.take_added().empty());
  table.remove(third);
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"a"}));
}

TEST(TensorTable, WhatIsRefusedLeavesThoseWhoWaitForANameAsTheyAre) {
  TensorTable table;
  add(table, named({"a"}));
  const auto first = table.take_added();
  EXPECT_THROW(add(table, named({"a", "b", "b"})), InvalidArgumentError);
  EXPECT_THROW(add(table, named({"a", "a"})), InvalidArgumentError);
  add(table, named({"a"}));
  table.remove(first);
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"a"}));
  EXPECT_EQ(table.count(), 1u);
}

TEST(TensorTable, AJoinWaitsForThoseOfItsSetThatWaitForANameAndForNoOthers) {
  TensorTable table;
  add(table, named({"a"}));
  add(table, named({"a"}));
  std::vector<Submission> joins;
  joins.push_back(test::in_set(2, test::join("other")));
  joins.push_back(test::join("join"));
  std::vector<Handle> handles(2);
  table.add(joins, handles);
  const auto first = table.take_added();
  EXPECT_EQ(names_of(first), (std::vector<std::string>{"a", "other@2"}));
  table.remove(first.front()->ticket);
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"a", "join"}));
}

TEST(TensorTable, WhatWaitsForANameIsClosedToo) {
  TensorTable table;
  for (int i = 0; i < 3; ++i) add(table, named({"a"}));
  const auto first = table.take_added();
  EXPECT_EQ(table.close({StatusCode::kAborted, "end"}).size(), 3u);
  table.release_names(first);
  EXPECT_TRUE(table.take_added().empty());
}

TEST(TensorTable, FindsTheMembersOfABatchAndNothingForThoseWithoutATicket) {
  TensorTable table;
  add(table, named({"a", "b"}));
  const auto added = table.take_added();
  const std::vector<BatchMember> members = {
      {added[1]->ticket, {}}, {0, {}}, {added[0]->ticket, {}}};
  const std::vector<InFlightPtr> found = table.find(members);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], added[1]);
  EXPECT_EQ(found[1], nullptr);
  EXPECT_EQ(found[2], added[0]);
  EXPECT_THROW(table.find(std::vector<BatchMember>{{added[1]->ticket + 1, {}}}), InternalError);
}

TEST_F(TensorTableOfHeld, RemovesABatchAtOnceButForWhatHasLeftAlready) {
  TensorTable table;
  add(table, named({"a", "b", "c"}));
  const auto added = table.take_added();
  EXPECT_EQ(table.count(), 3u);
  table.remove(added[0]->ticket);
  table.remove(std::span(added).first(2));
  EXPECT_EQ(table.count(), 1u);
  add(table, named({"a", "b"}));
  EXPECT_THROW(add(table, named({"c"})), InvalidArgumentError);
}

TEST(TensorTable, ClosesOnceAndForAll) {
  TensorTable table;
  add(table, named({"b", "a"}));
  EXPECT_TRUE(table.closed().ok());
  EXPECT_EQ(names_of(table.close({StatusCode::kAborted, "rank 1 left"})),
            (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.take_added().empty());
  EXPECT_TRUE(table.close({StatusCode::kInternal, "later"}).empty());
  EXPECT_EQ(table.closed().message(), "rank 1 left");
  EXPECT_THROW(add(table, named({"c"})), AbortedError);
}

// Memory of users may need locks of theirs, or of ours: submit() from a deleter must not hang.
TEST(TensorTable, HoldsNoLockWhileMemoryIsFreed) {
  TensorTable table;
  auto submissions = named({"a"});
  submissions[0].parts[0].input.owner = std::shared_ptr<const void>(
      &table, [&](const void*) { add(table, named({"from a deleter"})); });
  add(table, std::move(submissions));
  const Ticket ticket = table.take_added().front()->ticket;
  table.remove(ticket);
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"from a deleter"}));
}

TEST(TensorTable, ServesSeveralThreads) {
  TensorTable table;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&table, thread] {
      for (int i = 0; i < 200; ++i) {
        add(table, named({std::to_string(thread) + "." + std::to_string(i)}));
      }
    });
  }
  std::size_t seen = 0;
  while (seen < 800) {
    for (const InFlightPtr& entry : table.take_added()) {
      EXPECT_TRUE(table.remove(entry->ticket));
      ++seen;
    }
  }
  EXPECT_TRUE(table.empty());
}

}  // namespace
}  // namespace hvd::engine
