#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hvd {

// When gradients are reduced: the one rule, which every rank follows alike. Pure; GradientReducer
// does what it says.
// A diagram is in horovod_cpp/README.md.
//
// A step ends with step() or zero_grad(), which all ranks call: begin_step(). In it
//
// 1. each bucket takes part in one first round, with the gradients of its members: parameters that
//    any rank trained when the step before ended. A rank may start it before synchronize(), as soon
//    as it expects no more; that is a guess of this rank alone and changes no result;
// 2. gradients that come when the bucket's round was started are late: they stay on this rank;
// 3. at each synchronize() the ranks vote, for each parameter, whether it is late on any of them. A
//    late round then reduces those parameters, and its results are added.
//
// A vote that says nothing new need not be sent: if no rank has_news(), the votes are quiet().
//
// So which reductions there are follows from the calls of synchronize() and begin_step() and from
// the votes, all of which the ranks have in common, and never from passes that a rank has counted
// by itself: ranks may make different numbers of them, inside no_sync() or not, with different
// parameters.
//
// Averaging over passes is local: passes of a parameter form windows, see close_window().
class ReductionSchedule {
 public:
  using Indices = std::span<const std::size_t>;

  // What a rank says of a parameter at synchronize(). The vote is the ranks' bitwise or.
  enum Vote : std::uint8_t {
    kTrained = 1,  // it is not frozen
    kUsed = 2,     // a gradient has come in this step
    kLate = 4,     // one has come that no round has taken
  };

  // `starts_early`: whether rounds may start before synchronize().
  ReductionSchedule(int passes_per_window, bool starts_early)
      : passes_per_window_(passes_per_window),
        next_passes_per_window_(passes_per_window),
        starts_early_(starts_early) {}

  // Buckets hold each parameter once; parameters are numbered in the order in which they are added.
  void add_parameters(const std::vector<bool>& trained);
  void add_bucket(std::vector<std::size_t> params);

  // Before a gradient is added to what is there: what must be done with that first.
  enum class Before {
    kNothing,
    kMakeRoom,     // a round has taken it, or given it back: the new gradient is apart from it
    kCloseWindow,  // it is a whole window: averaged on its own
  };
  Before before_gradient(std::size_t param);
  // A gradient has come. Returns a bucket whose round may start now.
  std::optional<std::size_t> on_gradient(std::size_t param);

  // Begins a window after one that is closed; returns the number of passes that one has.
  int close_window(std::size_t param);

  // The first round of a bucket has started: its members' gradients are taken.
  void take(std::size_t bucket);
  bool taken(std::size_t bucket) const { return buckets_[bucket].taken; }
  std::vector<std::size_t> members(std::size_t bucket) const;
  bool is_member(std::size_t param) const { return parameters_[param].member; }
  std::size_t bucket_of(std::size_t param) const { return parameters_[param].bucket; }
  // Whether all buckets were reduced in this step.
  bool reduced() const { return reduced_; }
  // A parameter of which a gradient has come since the step began or was reduced.
  std::optional<std::size_t> first_unreduced() const;

  std::vector<std::uint8_t> vote(const std::vector<bool>& trained);
  // Whether this rank's votes are more than quiet().
  bool has_news(std::span<const std::uint8_t> votes) const;
  // What all ranks' votes come to if no rank has_news(), except kUsed of members.
  std::vector<std::uint8_t> quiet() const;
  // Those for a late round, in order.
  static std::vector<std::size_t> late(std::span<const std::uint8_t> votes);
  // Whether what is there is the result of another round, and no gradient has come here since.
  bool needs_room(std::size_t param) const {
    return parameters_[param].member && !parameters_[param].apart;
  }

  // The rounds of a synchronize() are over.
  void finish(std::span<const std::uint8_t> votes);
  // They failed on this rank: the step has not reduced anything.
  void fail();
  void begin_step();
  // What has come of a parameter was reduced elsewhere.
  void forget(std::size_t param);
  // zero_grad(): gradients do not count, and another step begins.
  void drop();
  // Who takes part in the next first rounds: agreed by all ranks.
  void set_members(std::span<const std::uint8_t> votes);

  void hold() { ++holds_; }  // gradients come, and no round starts, until release()
  void release() { --holds_; }
  bool held() const { return holds_ > 0; }
  // What was set last.
  int passes_per_window() const { return next_passes_per_window_; }
  // From the next step on: from this one if no gradient has come in it.
  void set_passes_per_window(int passes);

 private:
  struct Parameter {
    std::size_t bucket = 0;
    bool member = true;
    bool trained = true;  // when last looked at
    int passes = 0;       // in the open window
    bool whole = false;   // the window is closed
    int seen = 0;         // gradients in this step
    int expected = 0;     // in the step before
    bool ready = false;   // no further one is expected
    bool apart = false;   // room was made
    bool late = false;
  };
  struct Bucket {
    std::vector<std::size_t> params;
    bool taken = false;
  };
  bool is_ready(const Bucket& bucket) const;
  void forget_all();

  int passes_per_window_;
  int next_passes_per_window_;
  const bool starts_early_;
  int holds_ = 0;
  bool reduced_ = false;
  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
};

}  // namespace hvd
