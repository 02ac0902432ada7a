// The rule of when gradients are reduced, tried on every small program: two ranks that make
// different passes, over different parameters, inside no_sync() or not, with parameters that are
// frozen and thawed anywhere, all in one bucket, in two, or with an optimizer of their own each.
#include "horovod_cpp/distributed/gradients/reduction_schedule.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace hvd {
namespace {

constexpr std::size_t kParams = 2;
constexpr std::size_t kRanks = 2;

// What a rank does in one backward(): bit p for each parameter that it uses.
struct Pass {
  unsigned uses = 0;
  bool held = false;
};

// When the last parameter changes between frozen and trained, on which ranks.
struct Freezing {
  enum class At { kNever, kBeforePasses, kBetweenPasses, kBeforeSynchronize };
  At at = At::kNever;
  bool begins_frozen = false;  // on all ranks
  bool on_all = true;          // else on rank 0
};

enum class Layout { kOneBucket, kTwoBuckets, kTwoOptimizers };

struct Program {
  Layout layout = Layout::kOneBucket;
  int passes_per_window = 1;
  Freezing freezing = {};
  std::array<std::array<Pass, 2>, kRanks> first_step = {};
  std::array<Pass, kRanks> then = {};
  // Whether what follows belongs to another step, or synchronize() comes twice in this one.
  bool begins_step = true;

  std::string text() const {
    std::ostringstream out;
    out << "layout " << static_cast<int>(layout) << ", window " << passes_per_window
        << ", freezing at " << static_cast<int>(freezing.at) << (freezing.on_all ? " on all" : "")
        << (freezing.begins_frozen ? ", begins frozen" : "");
    for (std::size_t r = 0; r < kRanks; ++r) {
      out << "; rank " << r << ":";
      for (const Pass& pass : {first_step[r][0], first_step[r][1], then[r]}) {
        out << " " << pass.uses << (pass.held ? " held" : "");
      }
    }
    out << (begins_step ? "; two steps" : "; synchronize() twice");
    return out.str();
  }
};

// A gradient that is taken, set aside and given back as GradientAccess has it.
struct Gradient {
  double now = 0;
  double taken = 0;
  bool is_taken = false;
  double done = 0;
};

// One reduction of one rank.
struct Call {
  std::string name;
  std::map<std::size_t, double*> members;
};

// One optimizer of one rank.
class Reducer {
 public:
  Reducer(std::vector<std::size_t> params, bool one_bucket, int passes_per_window,
          const std::vector<bool>& trained)
      : params_(std::move(params)), schedule_(passes_per_window, true), gradients_(params_.size()) {
    schedule_.add_parameters(trained);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      all.push_back(i);
      if (!one_bucket) schedule_.add_bucket({i});
    }
    if (one_bucket) schedule_.add_bucket(all);
    buckets_ = one_bucket ? 1 : params_.size();
  }

  void gradient(std::size_t param, double value) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      if (params_[i] != param) continue;
      if (schedule_.before_gradient(i) == ReductionSchedule::Before::kMakeRoom) make_room(i);
      gradients_[i].now += value;
      if (const auto bucket = schedule_.on_gradient(i)) start(*bucket);
    }
  }
  void start_rest() {
    for (std::size_t b = 0; !schedule_.reduced() && b < buckets_; ++b) {
      if (!schedule_.taken(b)) start(b);
    }
  }
  void start_late(const std::vector<std::uint8_t>& votes) {
    for (const std::size_t i : ReductionSchedule::late(votes)) {
      if (schedule_.needs_room(i)) make_room(i);
      set_aside(i);
      take(i);
      calls_.push_back({"late " + std::to_string(params_[i]), {{i, &gradients_[i].taken}}});
    }
  }
  void finish(const std::vector<std::uint8_t>& votes) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      set_aside(i);
      gradients_[i].now += std::exchange(gradients_[i].done, 0);
    }
    schedule_.finish(votes);
  }
  std::vector<Call> take_calls() { return std::exchange(calls_, {}); }
  ReductionSchedule& schedule() { return schedule_; }
  double result(std::size_t i) const { return gradients_[i].now; }
  void zero() {
    for (Gradient& each : gradients_) each = {};
  }

 private:
  void make_room(std::size_t i) {
    Gradient& gradient = gradients_[i];
    if (!gradient.is_taken) gradient.done += std::exchange(gradient.now, 0);
  }
  void take(std::size_t i) {
    Gradient& gradient = gradients_[i];
    gradient.taken = std::exchange(gradient.now, 0);
    gradient.is_taken = true;
  }
  void set_aside(std::size_t i) {
    Gradient& gradient = gradients_[i];
    gradient.done += std::exchange(gradient.taken, 0);
    gradient.is_taken = false;
  }
  void start(std::size_t bucket) {
    Call call{"bucket " + std::to_string(bucket), {}};
    for (const std::size_t i : schedule_.members(bucket)) {
      take(i);
      call.members[i] = &gradients_[i].taken;
    }
    schedule_.take(bucket);
    calls_.push_back(call);
  }

  const std::vector<std::size_t> params_;
  ReductionSchedule schedule_;
  std::size_t buckets_ = 0;
  std::vector<Gradient> gradients_;
  std::vector<Call> calls_;
};

class Job {
 public:
  explicit Job(const Program& program) : program_(program) {
    for (auto& trained : trained_) trained.assign(kParams, true);
    if (program.freezing.begins_frozen) {
      for (auto& trained : trained_) trained.back() = false;
    }
    for (std::size_t r = 0; r < kRanks; ++r) {
      if (program.layout == Layout::kTwoOptimizers) {
        for (std::size_t p = 0; p < kParams; ++p) {
          reducers_[r].emplace_back(std::vector{p}, true, program.passes_per_window,
                                    std::vector<bool>{trained_[r][p]});
        }
      } else {
        reducers_[r].emplace_back(std::vector<std::size_t>{0, 1},
                                  program.layout == Layout::kOneBucket, program.passes_per_window,
                                  trained_[r]);
      }
    }
  }

  // How often no rank had news.
  std::size_t quiet() const { return quiet_; }

  void run() {
    change_at(Freezing::At::kBeforePasses);
    for (std::size_t r = 0; r < kRanks; ++r) backward(r, program_.first_step[r][0]);
    change_at(Freezing::At::kBetweenPasses);
    for (std::size_t r = 0; r < kRanks; ++r) backward(r, program_.first_step[r][1]);
    change_at(Freezing::At::kBeforeSynchronize);
    synchronize();
    if (program_.begins_step) begin_step();
    for (std::size_t r = 0; r < kRanks; ++r) backward(r, program_.then[r]);
    synchronize();
  }

 private:
  void change_at(Freezing::At at) {
    if (program_.freezing.at != at) return;
    for (std::size_t r = 0; r < kRanks; ++r) {
      if (r == 0 || program_.freezing.on_all) trained_[r].back() = !trained_[r].back();
    }
  }
  // Each gradient has a value of its own, so that a sum tells what is in it.
  void backward(std::size_t rank, const Pass& pass) {
    for (Reducer& each : reducers_[rank]) {
      if (pass.held) each.schedule().hold();
    }
    for (std::size_t p = 0; p < kParams; ++p) {
      if ((pass.uses >> p & 1) == 0 || !trained_[rank][p]) continue;
      expected_[p] += next_;
      for (Reducer& each : reducers_[rank]) each.gradient(p, next_);
      next_ *= 2;
    }
    for (Reducer& each : reducers_[rank]) {
      if (pass.held) each.schedule().release();
    }
  }
  void begin_step() {
    expected_ = {};
    for (auto& reducers : reducers_) {
      for (Reducer& each : reducers) {
        each.schedule().begin_step();
        each.schedule().drop();
        each.zero();
      }
    }
  }
  void synchronize() {
    for (std::size_t o = 0; o < reducers_[0].size(); ++o) {
      std::vector<std::uint8_t> votes;
      bool news = false;
      for (std::size_t r = 0; r < kRanks; ++r) {
        Reducer& reducer = reducers_[r][o];
        reducer.start_rest();
        const bool alone = program_.layout == Layout::kTwoOptimizers;
        const auto own =
            reducer.schedule().vote(alone ? std::vector<bool>{trained_[r][o]} : trained_[r]);
        news = news || reducer.schedule().has_news(own);
        votes.resize(own.size());
        for (std::size_t i = 0; i < own.size(); ++i) votes[i] |= own[i];
      }
      if (!news) take_for_granted(o, votes);
      reduce(o);
      for (std::size_t r = 0; r < kRanks; ++r) reducers_[r][o].start_late(votes);
      reduce(o);
      for (std::size_t r = 0; r < kRanks; ++r) reducers_[r][o].finish(votes);
    }
    for (std::size_t r = 0; r < kRanks; ++r) {
      for (std::size_t p = 0; p < kParams; ++p) {
        const bool alone = program_.layout == Layout::kTwoOptimizers;
        const double result = alone ? reducers_[r][p].result(0) : reducers_[r][0].result(p);
        ASSERT_EQ(result, expected_[p]) << "parameter " << p << " on rank " << r;
      }
    }
  }
  // Ranks that have no news go on as if they had voted.
  void take_for_granted(std::size_t optimizer, std::vector<std::uint8_t>& votes) {
    ++quiet_;
    const std::vector<std::uint8_t> voted = std::exchange(votes, {});
    for (std::size_t r = 0; r < kRanks; ++r) {
      const ReductionSchedule& schedule = reducers_[r][optimizer].schedule();
      votes = schedule.quiet();
      for (std::size_t i = 0; i < voted.size(); ++i) {
        const bool member = schedule.is_member(i);
        ASSERT_EQ(votes[i], member ? voted[i] & ~ReductionSchedule::kUsed : voted[i]) << i;
      }
    }
  }
  // Adds up what the ranks have submitted: the engine pairs calls by their names, in order.
  void reduce(std::size_t optimizer) {
    std::array<std::map<std::string, Call>, kRanks> calls;
    for (std::size_t r = 0; r < kRanks; ++r) {
      for (Call& call : reducers_[r][optimizer].take_calls()) {
        const std::string name = call.name;
        ASSERT_TRUE(calls[r].emplace(name, std::move(call)).second) << name << " twice";
      }
    }
    ASSERT_EQ(calls[0].size(), calls[1].size()) << "a rank waits forever";
    for (auto& [name, call] : calls[0]) {
      ASSERT_TRUE(calls[1].contains(name)) << name;
      const Call& other = calls[1].at(name);
      ASSERT_EQ(call.members.size(), other.members.size()) << name;
      for (auto& [member, value] : call.members) {
        ASSERT_TRUE(other.members.contains(member)) << name;
        *value = *other.members.at(member) = *value + *other.members.at(member);
      }
    }
  }

  const Program& program_;
  std::array<std::vector<bool>, kRanks> trained_;
  std::array<std::vector<Reducer>, kRanks> reducers_;
  std::array<double, kParams> expected_ = {};
  double next_ = 1;
  std::size_t quiet_ = 0;
};

std::vector<Pass> all_passes() {
  std::vector<Pass> passes = {{}};
  for (const unsigned uses : {1u, 2u, 3u}) {
    for (const bool held : {false, true}) passes.push_back({uses, held});
  }
  return passes;
}

std::vector<Freezing> all_freezings() {
  using At = Freezing::At;
  std::vector<Freezing> all = {{}};
  for (const At at : {At::kBeforePasses, At::kBetweenPasses, At::kBeforeSynchronize}) {
    for (const bool begins_frozen : {false, true}) {
      for (const bool on_all : {false, true}) all.push_back({at, begins_frozen, on_all});
    }
  }
  return all;
}

class Explorer : public ::testing::TestWithParam<Layout> {};

TEST_P(Explorer, EverySmallProgramGivesEqualSumsOnAllRanks) {
  const std::vector<Pass> passes = all_passes();
  const std::vector<Pass> then = {{}, {1, false}, {3, false}};
  std::size_t programs = 0;
  std::size_t quiet = 0;
  for (const Freezing& freezing : all_freezings()) {
    for (std::size_t code = 0; code < 7 * 7 * 7 * 7 * 9 * 4; ++code) {
      std::size_t rest = code;
      const auto choose = [&rest](std::size_t count) {
        return std::exchange(rest, rest / count) % count;
      };
      Program program{.layout = GetParam(), .freezing = freezing};
      for (auto& rank : program.first_step) {
        for (Pass& pass : rank) pass = passes[choose(passes.size())];
      }
      for (Pass& pass : program.then) pass = then[choose(then.size())];
      program.passes_per_window = 1 + static_cast<int>(choose(2));
      program.begins_step = choose(2) == 0;
      Job job(program);
      job.run();
      quiet += job.quiet();
      ASSERT_FALSE(HasFatalFailure()) << program.text();
      ++programs;
    }
  }
  EXPECT_EQ(programs, 13u * 86436u);
  EXPECT_GT(quiet, programs / 4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Explorer,
                         ::testing::Values(Layout::kOneBucket, Layout::kTwoBuckets,
                                           Layout::kTwoOptimizers));

TEST(ReductionSchedule, StartsABucketWhenAllItsParametersHaveTheirPasses) {
  ReductionSchedule schedule(2, true);
  schedule.add_parameters({true, true});
  schedule.add_bucket({0, 1});
  EXPECT_FALSE(schedule.on_gradient(0));
  EXPECT_FALSE(schedule.on_gradient(1));
  EXPECT_FALSE(schedule.on_gradient(0));
  EXPECT_EQ(schedule.on_gradient(1), 0u);
}

// A program that makes two passes without saying so pays for it once.
TEST(ReductionSchedule, ExpectsAsManyPassesAsInTheStepBefore) {
  ReductionSchedule schedule(1, true);
  schedule.add_parameters({true});
  schedule.add_bucket({0});
  EXPECT_EQ(schedule.on_gradient(0), 0u);
  schedule.take(0);
  EXPECT_FALSE(schedule.on_gradient(0));
  EXPECT_EQ(schedule.first_unreduced(), 0u);
  schedule.finish(schedule.vote({true}));
  schedule.begin_step();
  EXPECT_FALSE(schedule.on_gradient(0));
  EXPECT_EQ(schedule.on_gradient(0), 0u);
}

TEST(ReductionSchedule, StartsWithAPassAfterThoseOfNoSync) {
  ReductionSchedule schedule(1, true);
  schedule.add_parameters({true, true});
  schedule.add_bucket({0, 1});
  schedule.hold();
  EXPECT_FALSE(schedule.on_gradient(0));
  EXPECT_FALSE(schedule.on_gradient(1));
  schedule.release();
  EXPECT_FALSE(schedule.on_gradient(0));
  EXPECT_EQ(schedule.on_gradient(1), 0u);
}

}  // namespace
}  // namespace hvd
