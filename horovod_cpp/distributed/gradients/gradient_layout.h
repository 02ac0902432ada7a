#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horovod_cpp/distributed/gradients/gradient_reduction.h"
#include "horovod_cpp/distributed/gradients/gradient_views.h"
#include "horovod_cpp/distributed/gradients/reduction_schedule.h"
#include "horovod_cpp/distributed/gradients/setup_agreement.h"

namespace hvd {

// What the ranks of a reducer agree on before they reduce: that their set-up is the same, over how
// many axes gradients are sparse, who takes part in the first rounds, and whether gradients lie in
// memory that the ranks share. One thread.
class GradientLayout {
 public:
  using Buckets = std::vector<std::unique_ptr<GradientReduction>>;

  // `name`: of the reducer, unique in the set and equal on all ranks. The others outlive it.
  GradientLayout(const std::string& name, const ReductionContext& context,
                 ReductionSchedule& schedule, const Buckets& buckets);

  // Null: there are no other ranks.
  SetupAgreement* agreement() const { return agreement_.get(); }
  // Parameters were appended: the ranks agree again.
  void parameters_added();
  // Collective, once, and after a join() with the ranks that had not taken a step before.
  void agree_on_setup();
  // The same, on the layout; whether there was anything to agree on.
  bool agree();
  // The ranks agree on the layout again: a gradient has turned out to be sparse on some.
  void forget() { agreement_->forget("layout"); }
  // Asks for what the above will wait for, while backward() runs, so that no rank waits for one
  // that does something else before step().
  void ask_ahead();
  // Asks for memory that the ranks share, if this rank wants it and has not asked before.
  void ask_for_views();
  // Gradients lie there from now on, if it was asked for. Waits.
  void move_to_views();
  // The bucket of the first parameter that does not travel as coordinates, by what the ranks have
  // agreed on; null if there is none.
  GradientReduction* first_dense() const;

 private:
  SetupAgreement::Setup setup() const;
  std::vector<std::int64_t> layout() const;

  const ReductionContext& context_;
  ReductionSchedule& schedule_;
  const Buckets& buckets_;
  const std::unique_ptr<SetupAgreement> agreement_;
  bool is_first_step_ = true;
  bool wants_views_;
  std::optional<GradientViews> views_;  // asked for, and not taken yet
  std::vector<std::size_t> viewed_;     // whose they are
  std::vector<std::int64_t> agreed_axes_;
};

}  // namespace hvd
