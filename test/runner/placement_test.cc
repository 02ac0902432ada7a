#include "runner/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::runner {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Pair;

const std::vector<HostSlots> kHosts = {{"a", 2}, {"b", 1}, {"c", 4}};
const MeetingChoice kMeeting = {"unix:name", "key"};
const std::vector<std::vector<int>> kAPerRank = {{0}, {1}};

HostFacts host(const std::string& name, const std::string& address,
               const std::string& own_address) {
  return {name, address, own_address, 29500, 29501, "boot"};
}

TEST(Placement, FillsHostsInTheirOrder) {
  EXPECT_THAT(place_ranks(5, kHosts),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4)));
  EXPECT_THAT(place_ranks(2, kHosts), ElementsAre(ElementsAre(0, 1)));
}

TEST(Placement, RanksOfOneHostMeetByAName) {
  const HostFacts here = host("a", "", "");
  const auto ranks = rank_variables(kAPerRank, std::vector{here, here}, kMeeting);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_THAT(ranks[1],
              IsSupersetOf({Pair("HOROVOD_RANK", "1"), Pair("HOROVOD_SIZE", "2"),
                            Pair("HOROVOD_LOCAL_RANK", "1"), Pair("HOROVOD_LOCAL_SIZE", "2"),
                            Pair("HOROVOD_CROSS_RANK", "0"), Pair("HOROVOD_CROSS_SIZE", "1"),
                            Pair("RANK", "1"), Pair("WORLD_SIZE", "2"), Pair("LOCAL_RANK", "1"),
                            Pair("LOCAL_WORLD_SIZE", "2"), Pair("GROUP_RANK", "0"),
                            Pair("TORCHELASTIC_RUN_ID", "hvdrun"), Pair("MASTER_ADDR", "127.0.0.1"),
                            Pair("MASTER_PORT", "29500"), Pair("HVD_RENDEZVOUS", "unix:name")}));
  EXPECT_FALSE(ranks[1].contains("HVD_RENDEZVOUS_KEY"));
}

TEST(Placement, RanksOfSeveralHostsMeetAtAPortOfTheFirst) {
  const std::vector<std::vector<int>> agents = {{0, 1}, {2}};
  const auto ranks = rank_variables(
      agents, std::vector{host("a", "10.0.0.1", "10.0.0.9"), host("b", "10.0.0.2", "10.0.0.9")},
      kMeeting);
  EXPECT_THAT(
      ranks[2],
      IsSupersetOf({Pair("LOCAL_RANK", "0"), Pair("LOCAL_WORLD_SIZE", "1"), Pair("GROUP_RANK", "1"),
                    Pair("HOROVOD_CROSS_RANK", "1"), Pair("HOROVOD_CROSS_SIZE", "2"),
                    Pair("MASTER_ADDR", "10.0.0.1"), Pair("HVD_RENDEZVOUS", "tcp://10.0.0.1:29501"),
                    Pair("HVD_RENDEZVOUS_KEY", "key")}));
  EXPECT_THAT(ranks[1], IsSupersetOf({Pair("LOCAL_RANK", "1"), Pair("HOROVOD_CROSS_RANK", "0"),
                                      Pair("HOROVOD_CROSS_SIZE", "1")}));
}

TEST(Placement, WhereHvdrunIsOnTheFirstHostTheOthersKnowAnAddressOfIt) {
  const auto ranks = rank_variables(
      kAPerRank, std::vector{host("a", "", ""), host("b", "fd00::2", "fd00::1")}, kMeeting);
  EXPECT_EQ(ranks[0].at("HVD_RENDEZVOUS"), "tcp://[fd00::1]:29501");
}

TEST(Placement, AnAddressOnWhichHvdrunsOwnHostCallsItIsNotTheOthers) {
  const auto ranks = rank_variables(
      kAPerRank,
      std::vector{host("a", "172.17.0.1", "172.17.0.1"), host("b", "10.0.0.2", "10.0.0.1")},
      kMeeting);
  EXPECT_EQ(ranks[1].at("MASTER_ADDR"), "10.0.0.1");
}

TEST(Placement, MachinesOfOneNameAreTwoHosts) {
  std::vector facts = {host("a", "10.0.0.1", "10.0.0.9"), host("a", "10.0.0.2", "10.0.0.9")};
  facts[1].boot = "another";
  const auto ranks = rank_variables(kAPerRank, facts, kMeeting);
  EXPECT_THAT(ranks[1], IsSupersetOf({Pair("LOCAL_RANK", "0"), Pair("HOROVOD_CROSS_SIZE", "2"),
                                      Pair("HVD_RENDEZVOUS", "tcp://10.0.0.1:29501")}));
}

TEST(Placement, WithMpiThereIsNoOtherMeeting) {
  const auto ranks = rank_variables(
      kAPerRank, std::vector{host("a", "10.0.0.1", "10.0.0.9"), host("b", "10.0.0.2", "10.0.0.9")},
      {});
  EXPECT_FALSE(ranks[0].contains("HVD_RENDEZVOUS"));
  EXPECT_EQ(ranks[1].at("GROUP_RANK"), "1");
}

}  // namespace
}  // namespace hvd::runner
