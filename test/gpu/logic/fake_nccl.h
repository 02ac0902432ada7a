#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ops/nccl/api.h"

namespace hvd::engine::test {

// A call of one of the functions of NcclApi, with those of these arguments that it has.
struct NcclCall {
  std::string name;  // "ncclAllReduce"
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = -1;  // or root
  std::vector<int> without = {};

  friend bool operator==(const NcclCall&, const NcclCall&) = default;
};

// A table of functions that note how they are called; one at a time.
class FakeNccl {
 public:
  FakeNccl();
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  const NcclApi& api() const { return api_; }

  std::atomic<ncclResult_t> state = ncclSuccess;  // of ncclCommGetAsyncError
  std::map<std::string, ncclResult_t> results;    // of functions, by name; else ncclSuccess
  bool registers = true;        // memory: else handles are null, as with NCCL_LOCAL_REGISTER=0
  bool copies = false;          // a world of one rank: collectives copy from input to output
  double scale = 0;             // the scalar given to ncclRedOpCreatePreMulSum
  int blocking = -1;            // of the last configuration
  std::vector<NcclCall> calls;  // except those of version, errors and states

  std::vector<std::string> names() const;
  std::vector<NcclCall> named(const std::string& name) const;

  // As a library without these functions.
  void drop_registration();

  ncclResult_t note(NcclCall call);

 private:
  std::mutex mutex_;  // of what note() changes
  NcclApi api_;
};

}  // namespace hvd::engine::test
