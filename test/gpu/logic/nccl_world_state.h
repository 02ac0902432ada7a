#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "test/gpu/logic/nccl_world.h"

// What the files of NcclWorld share.
namespace hvd::test {

inline constexpr int kLooks = 2;  // until a call was taken

struct Group;

struct Communicator {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t calls = 0;  // collectives
  int looks = 0;            // until what was asked for is under way
  std::vector<std::function<void()>> launches;
  std::map<const std::byte*, std::size_t> registered;
  std::vector<double> scales;  // of operations made here
  std::map<std::vector<int>, int> children;
  bool aborted = false;
};

struct Call {
  std::string name;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int op = 0;
  int peer = 0;  // or root
  Communicator* communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::uint64_t number = 0;
  bool arrived = false;
  bool done = false;
};

using CallPtr = std::shared_ptr<Call>;

struct Group {
  int size = 0;
  int joined = 0;
  std::map<std::uint64_t, std::vector<CallPtr>> meetings;  // by number; by order of arrival
  std::map<std::pair<int, int>, std::deque<CallPtr>> sends;
  std::map<std::pair<int, int>, std::deque<CallPtr>> receives;
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<Group>> children;
};

DType dtype_of(ncclDataType_t type);

// But for its mutex, which is held whenever anything else is used.
struct NcclWorld::State {
  NcclApi api;
  mutable std::mutex mutex;
  std::deque<Communicator> communicators;
  std::map<std::string, std::shared_ptr<Group>> groups;
  std::vector<std::string> problems;
  std::map<std::string, int> counts;
  std::optional<int> full_device;
  int ids = 0;

  Communicator* add(const std::shared_ptr<Group>& group, int rank) {
    Communicator& made = communicators.emplace_back();
    made.group = group;
    made.rank = rank;
    made.looks = kLooks;
    ++group->joined;
    return &made;
  }

  bool attempt(const CallPtr& call);
  bool attempt_transfer(const CallPtr& call);
  void match(Group& group, const std::pair<int, int>& pair);
  void compute(std::vector<CallPtr> calls);
  void move(const std::vector<CallPtr>& by_rank);
  void reduce(const std::vector<CallPtr>& by_rank);
  void check_alike(const std::vector<CallPtr>& by_rank);
  void check_registration(const std::vector<CallPtr>& by_rank);
};

}  // namespace hvd::test
