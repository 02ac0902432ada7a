#include "core/negotiate/decision.h"

#include "core/negotiate/messages/message.h"

namespace hvd::engine {
namespace {

template <typename Io>
void serialize(Io& io, Fields<Io, NegotiationSettings>& settings) {
  io.number(settings.fusion_threshold);
  io.number(settings.cache_capacity);
  io.number(settings.batches_in_flight);
  const bool some = settings.batches_in_flight >= 1;
  if (Io::kReads && !some) ByteReader::malformed("no batch may be in flight");
  io.duration(settings.batching_gap);
  io.duration(settings.stall_warning);
  io.duration(settings.stall_limit);
  io.flag(settings.deterministic);
  io.number(settings.eager_bytes);
  io.flag(settings.observed);
}

// The fields of one step of `decision`.
template <typename Io>
struct StepFields {
  Io& io;
  Fields<Io, Decision>& decision;

  void operator()(Fields<Io, ChangeSettings>& step) { serialize(io, step.settings); }
  void operator()(Fields<Io, DefineSlot>& step) {
    io.number(step.slot);
    io.flag(step.once);
    if constexpr (Io::kReads) {
      step.request = std::make_shared<const Request>(deserialize<Request>(io));
    } else {
      serialize(io, *step.request);
    }
  }
  void operator()(Fields<Io, RunSlots>& step) {
    if constexpr (Io::kReads) {
      step.first = static_cast<std::uint32_t>(decision.slots.size());
      step.count = static_cast<std::uint32_t>(io.get_count(sizeof(SlotNumber)));
      if (step.count == 0) ByteReader::malformed("an empty batch");
      decision.slots.resize(decision.slots.size() + step.count);
      io.get_all(std::span(decision.slots).subspan(step.first));
    } else {
      io.put(step.count);
      io.put_all(decision.slots_of(step));
    }
    io.bytes(step.result);
  }
  void operator()(Fields<Io, RejectName>& step) {
    io.number(step.set);
    io.text(step.name);
    serialize(io, step.why);
    io.number(step.others);
    if (step.others > kAllOthers) ByteReader::malformed("no dtype");
  }
  void operator()(Fields<Io, EvictSlot>& step) { io.number(step.slot); }
  void operator()(Fields<Io, JoinRank>& step) { serialize(io, step.joining); }
  void operator()(Fields<Io, Ask>&) {}
  void operator()(Fields<Io, Stop>& step) { serialize(io, step.why); }
};

// Appends an empty one. Its tag is its place in the variant.
template <std::size_t kTag = 0>
Step& append_step(std::vector<Step>& steps, std::size_t tag) {
  if constexpr (kTag == std::variant_size_v<Step>) {
    ByteReader::malformed("unknown step");
  } else {
    return tag == kTag ? steps.emplace_back(std::in_place_index<kTag>)
                       : append_step<kTag + 1>(steps, tag);
  }
}

}  // namespace

void Decision::clear() {
  steps.clear();
  slots.clear();
}

template <typename Io>
void serialize(Io& io, Fields<Io, Decision>& decision) {
  io.number(decision.number);
  if constexpr (Io::kReads) {
    decision.clear();
    for (std::size_t left = io.get_count(1); left > 0; --left) {
      Step& step = append_step(decision.steps, io.template get<std::uint8_t>());
      std::visit(StepFields<Io>{io, decision}, step);
    }
    io.expect_end();
  } else {
    io.put(static_cast<std::uint32_t>(decision.steps.size()));
    for (const Step& step : decision.steps) {
      io.put(static_cast<std::uint8_t>(step.index()));
      std::visit(StepFields<Io>{io, decision}, step);
    }
  }
}

template void serialize(ByteWriter& io, const Decision& decision);
template void serialize(ByteReader& io, Decision& decision);

}  // namespace hvd::engine
