#include <utility>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/gpu/cases/contract_cases.h"

namespace hvd::engine::test {
namespace {

std::vector<Slice> without_places(std::span<const Slice> slices) {
  std::vector<Slice> mine(slices.begin(), slices.end());
  for (Slice& slice : mine) slice.place.reset();
  return mine;
}

class OrOnHost final : public ForwardingCollective {
 public:
  OrOnHost(std::unique_ptr<Collective> nccl, std::unique_ptr<Collective> host)
      : ForwardingCollective(std::move(nccl)), host_(std::move(host)) {}

  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    try {
      return ForwardingCollective::all_reduce(slices, reduction);
    } catch (const UnsupportedError&) {
      return host_->all_reduce(without_places(slices), reduction);
    }
  }
  std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                            const Reduction& reduction) override {
    try {
      return ForwardingCollective::reduce_scatter(slices, reduction);
    } catch (const UnsupportedError&) {
      return host_->reduce_scatter(slices, reduction);
    }
  }
  std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) override {
    return host_->send(tensor, to, tag);
  }
  std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) override {
    return host_->receive(tensor, from, tag);
  }
  std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) override {
    auto nccl = ForwardingCollective::subset(number, ranks);
    return or_on_host(std::move(nccl), host_->subset(number, ranks));
  }
  void abort() noexcept override {
    ForwardingCollective::abort();
    host_->abort();
  }

 private:
  std::unique_ptr<Collective> host_;
};

}  // namespace

std::unique_ptr<Collective> or_on_host(std::unique_ptr<Collective> nccl,
                                       std::unique_ptr<Collective> host) {
  return std::make_unique<OrOnHost>(std::move(nccl), std::move(host));
}

std::vector<CollectiveCase> nccl_contract() {
  std::vector<CollectiveCase> cases = collective_contract();
  std::erase_if(cases, [](const CollectiveCase& each) {
    return each.name == "SubsetsThatOverlapDoNotDeadlock" || each.name == "SubsetsHaveSubsets" ||
           each.name == "AllReduceBoundsTheRoundingOfHalves";
  });
  return cases;
}

}  // namespace hvd::engine::test
