#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/process_set.h"
#include "horovod_cpp/distributed/gradients/gradient_access.h"

namespace hvd {

// What the ranks of one optimizer compare before they reduce. All ranks of the set ask the same
// questions in the same order. One thread.
class SetupAgreement {
 public:
  // `name`: of the optimizer, unique in the set and equal on all ranks.
  SetupAgreement(std::string name, ProcessSet set) : name_(std::move(name)), set_(std::move(set)) {}

  // What must be equal on all ranks; equally many terms in one order on each.
  struct Term {
    std::string what;
    std::string here;      // what this rank has, in words
    std::string value;     // ... in full
    bool compared = true;  // by this rank
  };
  struct Setup {
    std::vector<Term> terms;
    // Whether this rank compares the values of its parameters too; it need not say so to others.
    bool compares_values = false;
  };
  // Asks what compare() will, and does not wait.
  void ask(const GradientAccess& gradients, const Setup& setup);
  // Collective. Throws MismatchError on every rank, naming the first term that differs and what
  // this rank has. If values differ between ranks that compare them, the first of those ranks
  // warns, naming the first parameter that does.
  void compare(const GradientAccess& gradients, const Setup& setup);
  // Collective; of tensors of these names, on the CPU, the same on every rank. If values differ,
  // the first rank of the set warns, naming the first tensor.
  void compare_values(const std::vector<std::string>& names, std::span<const Tensor> values);
  // A hash of all values of the parameters, if this rank compares them with others'.
  std::int64_t hash_values(const GradientAccess& gradients, bool compared);
  // Collective, where those hashes differ after so many steps: on the first rank that compares what
  // to warn of, which names the first parameter; nothing on the others. Interrupted, it may be
  // called again.
  std::optional<std::string> difference_of_values(const GradientAccess& gradients,
                                                  std::uint64_t steps);
  // Whether there was one; the same on all ranks.
  bool values_differed() const { return values_differed_; }
  // Whether compare() ("setup") or greatest() succeeded, and no rank has come back from a join()
  // since: who had joined before its first step knows nothing of what the others agreed on.
  bool holds(const std::string& what) const;
  void forget(const std::string& what) { agreed_.erase(what); }
  // Collective; for one number, such as a switch.
  void compare(const std::string& what, std::int64_t number, const std::string& here);

  // For each number the greatest of all ranks'. ask() does not wait; greatest() does, for what was
  // asked, and asks if it was not. Interrupted (Ctrl-C), it may be called again, and waits for the
  // same.
  void ask(const std::string& what, const std::vector<std::int64_t>& numbers);
  std::vector<std::int64_t> greatest(const std::string& what,
                                     const std::vector<std::int64_t>& numbers);
  // Collective. Of texts with lines "what\tvalue" the first difference, in words, and the rank that
  // is to tell it.
  struct Difference {
    std::string text;
    Rank teller = 0;
  };
  Difference difference(const std::string& what, const std::string& text);
  // The same as greatest() for bytes and their bitwise or.
  void ask(const std::string& what, const std::vector<std::uint8_t>& bytes);
  std::vector<std::uint8_t> bitwise_or(const std::string& what);

 private:
  // Of those numbers that no rank left out.
  struct Extremes {
    std::vector<std::int64_t> least;
    std::vector<std::int64_t> most;
  };
  Extremes extremes(const std::string& what, std::span<const std::int64_t> numbers);
  std::uint64_t joins() const;
  template <typename Number>
  void submit(const std::string& what, const std::vector<Number>& numbers, DType dtype,
              ReduceOp op);
  template <typename Number>
  std::vector<Number> answer(const std::string& what);
  std::vector<std::int64_t> numbers_of(const GradientAccess& gradients, const Setup& setup);
  std::optional<std::string> difference_of_hashes(const std::vector<std::string>& names,
                                                  std::uint64_t steps);
  std::string describe_values(const std::vector<std::string>& names,
                              const std::vector<std::size_t>& different, Rank teller,
                              const std::vector<Rank>& others, std::uint64_t steps) const;
  [[noreturn]] void differ(const std::string& what, const std::string& here,
                           const std::string& advice) const;
  std::string owner() const;

  const std::string name_;
  const ProcessSet set_;
  std::map<std::string, CollectiveHandle> asked_;
  std::map<std::string, std::uint64_t> agreed_;  // on what, and how often ranks had joined by then
  std::map<std::string, std::vector<std::int64_t>> answers_;  // of a comparison that goes on
  std::vector<std::int64_t> hashes_;                          // of the values that are compared
  bool values_differed_ = false;
};

// Tells the user of what is probably a mistake: as a line of the log, unless a front end has a way
// of its own. May throw what that throws (Python's warnings may be errors). Any thread.
void warn(const std::string& text);

// Set once, before other threads warn.
void set_warning_handler(std::function<void(const std::string&)> handler);

}  // namespace hvd
