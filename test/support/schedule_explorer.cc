#include "test/support/schedule_explorer.h"

#include <memory>
#include <unordered_set>

namespace hvd::engine::test {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);
constexpr int kWakeDelay = 100;  // seconds; warnings alone would go on forever

// A submission, an event, a rank that leaves, or a second that passes.
using Move = std::function<void(LockStepCluster&)>;

// The last move of a schedule, and those before it.
struct Schedule {
  Move last;
  std::shared_ptr<const Schedule> before;
};
using SchedulePtr = std::shared_ptr<const Schedule>;

class Explorer {
 public:
  Explorer(const SmallJob& job, std::size_t max_states) : job_(job), max_states_(max_states) {}

  // Follows first choices down; the other choices are reached by replaying their schedules.
  Exploration run(const std::function<void(const LockStepCluster&)>& check_end) {
    Exploration result;
    std::unordered_set<std::size_t> seen;
    std::vector<SchedulePtr> todo = {nullptr};
    while (!todo.empty() && seen.size() < max_states_) {
      SchedulePtr schedule = std::move(todo.back());
      todo.pop_back();
      LockStepCluster cluster = begin();
      replay(schedule.get(), cluster);
      while (seen.insert(state(cluster)).second) {
        std::vector<Move> next = moves(cluster);
        if (next.empty()) {
          ++result.ends;
          wait(cluster);
          check_end(cluster);
          break;
        }
        for (std::size_t choice = 1; choice < next.size(); ++choice) {
          todo.push_back(
              std::make_shared<const Schedule>(Schedule{std::move(next[choice]), schedule}));
        }
        next.front()(cluster);
        schedule = std::make_shared<const Schedule>(Schedule{std::move(next.front()), schedule});
      }
    }
    result.states = seen.size();
    result.complete = todo.empty();
    return result;
  }

 private:
  LockStepCluster begin() const {
    LockStepCluster cluster(trees_of(job_.parents), job_.settings);
    for (const std::string& name : job_.known) {
      for (Rank r = 0; r < cluster.size(); ++r) submit(job_.program, {r, "", name}, cluster);
      settle(cluster);
    }
    return cluster;
  }

  static void replay(const Schedule* schedule, LockStepCluster& cluster) {
    std::vector<const Move*> moves;
    for (; schedule != nullptr; schedule = schedule->before.get()) moves.push_back(&schedule->last);
    for (auto move = moves.rbegin(); move != moves.rend(); ++move) (**move)(cluster);
  }

  std::vector<Move> moves(const LockStepCluster& cluster) const {
    std::vector<Move> all;
    for (const Submission& one : possible_submissions(job_.program, cluster)) {
      all.push_back([this, one](LockStepCluster& c) { submit(job_.program, one, c); });
    }
    bool quiet = true;  // no message is on its way
    for (const LockStepCluster::Event& event : cluster.events()) {
      all.push_back([event](LockStepCluster& c) { c.perform(event); });
      quiet = quiet && event.kind != LockStepCluster::Event::Kind::kDeliver;
    }
    for (const Rank r : job_.leavers) {
      if (cluster.left(r) || cluster.stopped(r)) continue;
      all.push_back([r](LockStepCluster& c) { c.leave(r); });
    }
    if (quiet && timer_runs(cluster) && cluster.now() < TimePoint{} + job_.seconds * kSecond) {
      all.push_back([](LockStepCluster& c) { c.advance(kSecond); });
    }
    return all;
  }

  static void settle(LockStepCluster& cluster) {
    for (auto all = cluster.events(); !all.empty(); all = cluster.events()) {
      cluster.perform(all.front());
    }
  }

  static bool timer_runs(const LockStepCluster& cluster) {
    for (Rank r = 0; r < cluster.size(); ++r) {
      if (cluster.rank(r).next_deadline()) return true;
    }
    return false;
  }

  static void wait(LockStepCluster& cluster) {
    for (int second = 0; second < kWakeDelay && timer_runs(cluster); ++second) {
      cluster.advance(kSecond);
      settle(cluster);
    }
  }

  static std::size_t state(const LockStepCluster& cluster) {
    std::size_t hash = 0;
    for (Rank r = 0; r < cluster.size(); ++r) hash = hash * 0x9e3779b97f4a7c15 + cluster.history(r);
    return hash;
  }

  const SmallJob& job_;
  std::size_t max_states_;
};

}  // namespace

Exploration explore(const SmallJob& job, std::size_t max_states,
                    const std::function<void(const LockStepCluster&)>& check_end) {
  return Explorer(job, max_states).run(check_end);
}

}  // namespace hvd::engine::test
