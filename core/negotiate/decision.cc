#include "core/negotiate/decision.h"

#include <type_traits>

#include "core/negotiate/messages/message.h"

namespace hvd {
namespace {

// Wire tag of a step: its place in the variant.
template <typename T, std::size_t I = 0>
constexpr std::uint8_t tag_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Step>, T>) {
    return static_cast<std::uint8_t>(I);
  } else {
    return tag_of<T, I + 1>();
  }
}

void write_settings(ByteWriter& out, const NegotiationSettings& settings) {
  out.put(static_cast<std::uint64_t>(settings.fusion_threshold));
  out.put(static_cast<std::uint64_t>(settings.cache_capacity));
  out.put(static_cast<std::int32_t>(settings.batches_in_flight));
  write(out, settings.batching_gap);
  write(out, settings.stall_warning);
  write(out, settings.stall_limit);
  out.put(static_cast<std::uint8_t>(settings.deterministic ? 1 : 0));
  out.put(static_cast<std::uint8_t>(settings.observed ? 1 : 0));
}

NegotiationSettings read_settings(ByteReader& in) {
  NegotiationSettings settings;
  settings.fusion_threshold = in.get<std::uint64_t>();
  settings.cache_capacity = in.get<std::uint64_t>();
  settings.batches_in_flight = in.get<std::int32_t>();
  if (settings.batches_in_flight < 1) ByteReader::malformed("no batch may be in flight");
  settings.batching_gap = read_duration(in);
  settings.stall_warning = read_duration(in);
  settings.stall_limit = read_duration(in);
  settings.deterministic = in.get_flag();
  settings.observed = in.get_flag();
  return settings;
}

struct StepWriter {
  ByteWriter& out;
  const Decision& decision;

  void operator()(const ChangeSettings& step) { write_settings(out, step.settings); }
  void operator()(const DefineSlot& step) {
    out.put(step.slot);
    out.put(static_cast<std::uint8_t>(step.once ? 1 : 0));
    write(out, *step.request);
  }
  void operator()(const RunSlots& step) {
    out.put(step.count);
    out.put_all(decision.slots_of(step));
  }
  void operator()(const RejectName& step) {
    out.put(step.set);
    out.put_string(step.name);
    write(out, step.why);
  }
  void operator()(const EvictSlot& step) { out.put(step.slot); }
  void operator()(const JoinRank& step) { write(out, step.joining); }
  void operator()(const Ask&) {}
  void operator()(const Stop& step) { write(out, step.why); }
};

DefineSlot read_define(ByteReader& in) {
  DefineSlot step;
  step.slot = in.get<SlotNumber>();
  step.once = in.get_flag();
  step.request = std::make_shared<const Request>(read_request(in));
  return step;
}

RunSlots read_run(ByteReader& in, std::vector<SlotNumber>& slots) {
  RunSlots step{static_cast<std::uint32_t>(slots.size()), 0};
  step.count = static_cast<std::uint32_t>(in.get_count(sizeof(SlotNumber)));
  if (step.count == 0) ByteReader::malformed("an empty batch");
  slots.resize(slots.size() + step.count);
  in.get_all(std::span(slots).subspan(step.first));
  return step;
}

void read_step(ByteReader& in, Decision& decision) {
  switch (in.get<std::uint8_t>()) {
    case tag_of<ChangeSettings>():
      decision.steps.emplace_back(ChangeSettings{read_settings(in)});
      return;
    case tag_of<DefineSlot>():
      decision.steps.emplace_back(read_define(in));
      return;
    case tag_of<RunSlots>():
      decision.steps.emplace_back(read_run(in, decision.slots));
      return;
    case tag_of<RejectName>(): {
      const auto set = in.get<ProcessSetId>();
      std::string name = in.get_string();
      decision.steps.emplace_back(RejectName{set, std::move(name), read_status(in)});
      return;
    }
    case tag_of<EvictSlot>():
      decision.steps.emplace_back(EvictSlot{in.get<SlotNumber>()});
      return;
    case tag_of<JoinRank>():
      decision.steps.emplace_back(JoinRank{read_joining(in)});
      return;
    case tag_of<Ask>():
      decision.steps.emplace_back(Ask{});
      return;
    case tag_of<Stop>():
      decision.steps.emplace_back(Stop{read_status(in)});
      return;
    default:
      ByteReader::malformed("unknown step");
  }
}

}  // namespace

void Decision::clear() {
  steps.clear();
  slots.clear();
}

void write(ByteWriter& out, const Decision& decision) {
  out.put(decision.number);
  out.put(static_cast<std::uint32_t>(decision.steps.size()));
  for (const Step& step : decision.steps) {
    out.put(static_cast<std::uint8_t>(step.index()));
    std::visit(StepWriter{out, decision}, step);
  }
}

void read_decision(ByteReader& in, Decision& decision) {
  decision.clear();
  decision.number = in.get<std::uint64_t>();
  const std::size_t steps = in.get_count(1);
  for (std::size_t i = 0; i < steps; ++i) read_step(in, decision);
  in.expect_end();
}

}  // namespace hvd
