#include "core/runtime/tensor_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/core/runtime/submissions.h"

namespace hvd {
namespace {

std::vector<Submission> named(const std::vector<std::string>& names) {
  std::vector<Submission> submissions;
  for (const std::string& name : names) {
    submissions.push_back(test::allreduce(name, test::shared<float>({1})));
  }
  return submissions;
}

std::vector<std::string> names_of(const std::vector<InFlightPtr>& entries) {
  std::vector<std::string> names;
  for (const InFlightPtr& entry : entries) names.push_back(entry->name());
  return names;
}

TEST(TensorTable, GivesWhatWasAddedOnceAndInOrder) {
  TensorTable table;
  table.add(named({"b", "a"}));
  table.add(named({"c"}));
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_TRUE(table.take_added().empty());
  EXPECT_FALSE(table.empty());
}

TEST(TensorTable, RefusesANameInFlightAndNamesIt) {
  TensorTable table;
  table.add(named({"a"}));
  try {
    table.add(named({"a"}));
    ADD_FAILURE() << "taken twice";
  } catch (const InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("'a'"), std::string::npos);
  }
}

TEST(TensorTable, AddsAllOrNone) {
  TensorTable table;
  table.add(named({"a"}));
  EXPECT_THROW(table.add(named({"b", "a"})), InvalidArgumentError);
  EXPECT_THROW(table.add(named({"c", "c"})), InvalidArgumentError);
  table.add(named({"b", "c"}));
  EXPECT_EQ(names_of(table.take_added()), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(TensorTable, RefusesWhatFollowsAJoinOfTheSameProcessSet) {
  TensorTable table;
  std::vector<Submission> joins;
  joins.push_back(test::join("join"));
  table.add(std::move(joins));
  EXPECT_THROW(table.add(named({"a"})), InvalidArgumentError);
  std::vector<Submission> elsewhere;
  elsewhere.push_back(test::in_set(2, test::allreduce("b", test::shared<float>({1}))));
  table.add(std::move(elsewhere));
  const auto added = table.take_added();
  ASSERT_EQ(names_of(added), (std::vector<std::string>{"join", "b@2"}));
  table.remove(added[0]->ticket);
  table.add(named({"a"}));
}

TEST(TensorTable, AJoinThatWasRefusedJoinsNothing) {
  TensorTable table;
  table.add(named({"a"}));
  std::vector<Submission> joins;
  joins.push_back(test::join("join"));
  joins.push_back(test::join("a"));
  EXPECT_THROW(table.add(std::move(joins)), InvalidArgumentError);
  table.add(named({"b"}));
}

TEST(TensorTable, ANameIsFreeOnceItWasRemoved) {
  TensorTable table;
  table.add(named({"a"}));
  const Ticket ticket = table.take_added().front()->ticket;
  EXPECT_EQ(table.find(ticket)->name(), "a");
  EXPECT_TRUE(table.remove(ticket));
  EXPECT_FALSE(table.remove(ticket));
  EXPECT_THROW(table.find(ticket), InternalError);
  table.add(named({"a"}));
  EXPECT_NE(table.take_added().front()->ticket, ticket);
}

TEST(TensorTable, FindsTheMembersOfABatchAndNothingForThoseWithoutATicket) {
  TensorTable table;
  table.add(named({"a", "b"}));
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

TEST(TensorTable, RemovesABatchAtOnceButForWhatHasLeftAlready) {
  TensorTable table;
  table.add(named({"a", "b", "c"}));
  const auto added = table.take_added();
  EXPECT_EQ(table.count(), 3u);
  table.remove(added[0]->ticket);
  table.remove(std::span(added).first(2));
  EXPECT_EQ(table.count(), 1u);
  table.add(named({"a", "b"}));
  EXPECT_THROW(table.add(named({"c"})), InvalidArgumentError);
}

TEST(TensorTable, ClosesOnceAndForAll) {
  TensorTable table;
  table.add(named({"b", "a"}));
  EXPECT_TRUE(table.closed().ok());
  EXPECT_EQ(names_of(table.close({StatusCode::kAborted, "rank 1 left"})),
            (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.take_added().empty());
  EXPECT_TRUE(table.close({StatusCode::kInternal, "later"}).empty());
  EXPECT_EQ(table.closed().message(), "rank 1 left");
  EXPECT_THROW(table.add(named({"c"})), AbortedError);
}

// Memory of users may need locks of theirs, or of ours: submit() from a deleter must not hang.
TEST(TensorTable, HoldsNoLockWhileMemoryIsFreed) {
  TensorTable table;
  auto submissions = named({"a"});
  submissions[0].parts[0].input.owner = std::shared_ptr<const void>(
      &table, [&](const void*) { table.add(named({"from a deleter"})); });
  table.add(std::move(submissions));
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
        table.add(named({std::to_string(thread) + "." + std::to_string(i)}));
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
}  // namespace hvd
