#include "horovod_cpp/distributed/gradients/gradient_layout.h"

#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {
namespace {

std::string on_or_off(bool is_on) {
  return is_on ? "it on" : "it off";
}

std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& each : texts) lines += each + "\n";
  return lines;
}

std::string described(const std::optional<ClipGradNorm>& clip) {
  if (!clip) return "none";
  const bool before = clip->when == ClipGradNorm::When::kBeforeReduction;
  return shortest_text(clip->max_norm) + (before ? ", before" : ", after") + " the reduction";
}

}  // namespace

GradientLayout::GradientLayout(const std::string& name, const ReductionContext& context,
                               ReductionSchedule& schedule, const Buckets& buckets)
    : context_(context),
      schedule_(schedule),
      buckets_(buckets),
      agreement_(has_other_ranks(context.options)
                     ? std::make_unique<SetupAgreement>(name, context.options.process_set)
                     : nullptr),
      wants_views_(context.over_ranks && context.options.gradient_as_bucket_view &&
                   context.options.compression.is_none()) {}

void GradientLayout::parameters_added() {
  is_first_step_ = true;
  if (agreement_ == nullptr) return;
  agreement_->forget("setup");
  agreement_->forget("layout");
}

SetupAgreement::Setup GradientLayout::setup() const {
  const DistributedOptions& options = context_.options;
  const std::vector<GradientParameter>& parameters = context_.gradients->parameters();
  std::vector<std::string> names, buckets, frozen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    names.push_back(parameters[i].name);
    if (!schedule_.is_member(i)) frozen.push_back(parameters[i].name);
  }
  for (const auto& bucket : buckets_) buckets.push_back(bucket->name());
  const auto same = [](const std::string& what, const std::string& value) {
    return SetupAgreement::Term{what, value, value};
  };
  SetupAgreement::Setup setup;
  setup.terms = {
      {"parameters: their number, names or order",
       names.empty() ? "none"
                     : std::to_string(names.size()) + ", from '" + names.front() + "' to '" +
                           names.back() + "'",
       lines_of(names)},
      {"buckets, by groups or by shapes of parameters", std::to_string(buckets.size()) + " of them",
       lines_of(buckets)},
      same("backward_passes_per_step", std::to_string(schedule_.passes_per_window())),
      {"which parameters were frozen when the optimizer was made",
       frozen.empty()
           ? "none"
           : std::to_string(frozen.size()) + " of them, from '" + frozen.front() + "' on",
       lines_of(frozen), is_first_step_},
      same("op", std::string(name_of(options.op))),
      same("overlap_step", on_or_off(options.overlap_step)),
      same("average_aggregated_gradients", on_or_off(options.average_aggregated_gradients)),
      same("clip_grad_norm", described(options.clip_grad_norm))};
  setup.compares_values = is_first_step_ && options.process_set.world()->options().check_parameters;
  return setup;
}

void GradientLayout::agree_on_setup() {
  if (agreement_ == nullptr || agreement_->holds("setup")) return;
  agreement_->compare(*context_.gradients, setup());
  is_first_step_ = false;
}

// For each parameter over how many axes it is sparse, then whether it takes part in the first
// round; at last whether this rank wants views.
std::vector<std::int64_t> GradientLayout::layout() const {
  std::vector<std::int64_t> layout = context_.gradients->sparse_axes();
  const std::size_t parameters = layout.size();
  for (std::size_t i = 0; i < parameters; ++i) layout.push_back(schedule_.is_member(i) ? 1 : 0);
  layout.push_back(wants_views_ ? 1 : 0);
  return layout;
}

// A rank that has no gradient yet must send what the others do.
bool GradientLayout::agree() {
  if (!context_.over_ranks || agreement_->holds("layout")) return false;
  const std::vector<std::int64_t> agreed = agreement_->greatest("layout", layout());
  const auto trained = agreed.begin() + static_cast<std::ptrdiff_t>(agreed.size() / 2);
  agreed_axes_.assign(agreed.begin(), trained);
  context_.gradients->set_sparse_axes(agreed_axes_);
  schedule_.set_members(std::vector<std::uint8_t>(trained, agreed.end() - 1));
  wants_views_ = agreed.back() == 1;
  return true;
}

void GradientLayout::ask_ahead() {
  if (!context_.over_ranks) return;
  ask_for_views();
  if (!agreement_->holds("setup")) agreement_->ask(*context_.gradients, setup());
  if (!agreement_->holds("layout")) agreement_->ask("layout", layout());
}

// While backward() runs, or before gradients are submitted: then every rank asks before the others
// can leave the job. And not before the ranks agreed on the layout, so from the second step on.
void GradientLayout::ask_for_views() {
  if (!wants_views_ || !agreement_->holds("layout")) return;
  wants_views_ = false;
  const std::vector<GradientParameter>& parameters = context_.gradients->parameters();
  std::vector<GradientParameter> places;
  viewed_.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {  // by what the ranks have agreed on alone
    if (!schedule_.is_member(i) || agreed_axes_[i] > 0) continue;
    viewed_.push_back(i);
    places.push_back(parameters[i]);
  }
  if (places.empty()) return;
  views_.emplace(places, context_.options.process_set, parameters.front().name + context_.suffix);
}

void GradientLayout::move_to_views() {
  if (!views_) return;
  const std::vector<Tensor> views = views_->take();
  views_.reset();
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].defined()) context_.gradients->move_to(viewed_[i], views[i]);
  }
}

GradientReduction* GradientLayout::first_dense() const {
  for (std::size_t i = 0; i < agreed_axes_.size(); ++i) {
    if (schedule_.is_member(i) && agreed_axes_[i] == 0)
      return buckets_[schedule_.bucket_of(i)].get();
  }
  return nullptr;
}

}  // namespace hvd
