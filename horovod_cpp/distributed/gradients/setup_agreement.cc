#include "horovod_cpp/distributed/gradients/setup_agreement.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/config/log.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd {
namespace {

// What a maximum takes for no number, also from a rank that has joined.
constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();

// 63 bits: a number whose negative there is.
std::int64_t hash_of(std::span<const std::byte> bytes) {
  return static_cast<std::int64_t>(content_hash(bytes) >> 1);
}

std::int64_t hash_of(const std::string& text) {
  return hash_of(std::as_bytes(std::span(text)));
}

std::int64_t hash_of(const Tensor& value) {
  return hash_of({static_cast<const std::byte*>(value.data()), bytes_of(value)});
}

std::function<void(const std::string&)>& handler() {
  static std::function<void(const std::string&)> instance;
  return instance;
}

// What to ask for so that the least of each number is told too.
std::vector<std::int64_t> both_ways(std::span<const std::int64_t> numbers) {
  std::vector<std::int64_t> both(numbers.begin(), numbers.end());
  for (const std::int64_t number : numbers) both.push_back(number == kNothing ? kNothing : -number);
  return both;
}

}  // namespace

template <typename Number>
void SetupAgreement::submit(const std::string& what, const std::vector<Number>& numbers,
                            DType dtype, ReduceOp op) {
  if (asked_.contains(what)) return;
  const Tensor values = Tensor::empty({static_cast<std::int64_t>(numbers.size())}, dtype);
  std::ranges::copy(numbers, values.data<Number>());
  asked_[what] =
      allreduce_async_(values, {.op = op, .name = name_ + "." + what, .process_set = set_});
}

template <typename Number>
std::vector<Number> SetupAgreement::answer(const std::string& what) {
  while (!asked_.at(what).wait_for(std::chrono::hours(1))) {
  }
  const CollectiveHandle call = asked_.extract(what).mapped();
  const Tensor reduced = call.synchronize();
  const auto* data = reduced.data<Number>();
  return {data, data + reduced.numel()};
}

void SetupAgreement::ask(const std::string& what, const std::vector<std::int64_t>& numbers) {
  submit(what, numbers, DType::kI64, ReduceOp::kMax);
}

std::vector<std::int64_t> SetupAgreement::greatest(const std::string& what,
                                                   const std::vector<std::int64_t>& numbers) {
  const std::uint64_t joins = this->joins();
  ask(what, numbers);
  std::vector<std::int64_t> numbers_of_all = answer<std::int64_t>(what);
  agreed_[what] = joins;
  return numbers_of_all;
}

std::uint64_t SetupAgreement::joins() const {
  return set_.world()->joins(set_.id());
}

bool SetupAgreement::holds(const std::string& what) const {
  const auto known = agreed_.find(what);
  return known != agreed_.end() && known->second == joins();
}

void SetupAgreement::ask(const std::string& what, const std::vector<std::uint8_t>& bytes) {
  submit(what, bytes, DType::kU8, ReduceOp::kBitOr);
}

std::vector<std::uint8_t> SetupAgreement::bitwise_or(const std::string& what) {
  return answer<std::uint8_t>(what);
}

SetupAgreement::Difference SetupAgreement::difference(const std::string& what,
                                                      const std::string& text) {
  if (!asked_.contains(what)) {
    const std::string sent = std::to_string(set_.world()->topology().rank) + "\n" + text + '\0';
    const Tensor bytes = Tensor::empty({static_cast<std::int64_t>(sent.size())}, DType::kU8);
    std::ranges::copy(sent, bytes.data<std::uint8_t>());
    asked_[what] = allgather_async(bytes, {.name = name_ + "." + what, .process_set = set_});
  }
  const std::vector<std::uint8_t> all = answer<std::uint8_t>(what);
  // By what, in the order of the first rank: its values, with the ranks that have them.
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, std::vector<Rank>>> values;
  std::vector<Rank> ranks;
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find(begin, all.end(), 0);
    std::istringstream lines(std::string(begin, end));
    std::string line;
    std::getline(lines, line);
    ranks.push_back(std::stoi(line));
    while (std::getline(lines, line)) {
      const std::string key = line.substr(0, line.find('\t'));
      if (!values.contains(key)) order.push_back(key);
      values[key][line.substr(std::min(line.size(), key.size() + 1))].push_back(ranks.back());
    }
    begin = end + 1;
  }
  for (const std::string& key : order) {
    std::size_t with_value = 0;
    for (const auto& [value, who] : values[key]) with_value += who.size();
    if (values[key].size() == 1 && with_value == ranks.size()) continue;
    std::string told = key;
    for (const auto& [value, who] : values[key]) {
      told += (told == key ? " is " : ", ") + value + " on " + describe_ranks(who);
    }
    if (with_value < ranks.size()) told += ", and nothing on the others";
    return {told, ranks.front()};
  }
  return {"their options", ranks.front()};
}

SetupAgreement::Extremes SetupAgreement::extremes(const std::string& what,
                                                  std::span<const std::int64_t> numbers) {
  auto known = answers_.find(what);
  if (known == answers_.end()) {
    ask(what, both_ways(numbers));
    known = answers_.emplace(what, answer<std::int64_t>(what)).first;
  }
  const std::vector<std::int64_t>& both = known->second;
  const auto middle = both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2);
  Extremes result{{middle, both.end()}, {both.begin(), middle}};
  for (std::int64_t& least : result.least) least = least == kNothing ? kNothing : -least;
  return result;
}

std::string SetupAgreement::owner() const {
  return name_.substr(0, name_.find(' '));
}

void SetupAgreement::differ(const std::string& what, const std::string& here,
                            const std::string& advice) const {
  throw MismatchError(owner() + ": the ranks differ in " + what + "; rank " +
                      std::to_string(set_.world()->topology().rank) + " has " + here + ". " +
                      advice);
}

std::vector<std::int64_t> SetupAgreement::numbers_of(const GradientAccess& gradients,
                                                     const Setup& setup) {
  std::vector<std::int64_t> numbers;
  for (const Term& each : setup.terms) {
    numbers.push_back(each.compared ? hash_of(each.value) : kNothing);
  }
  numbers.push_back(hash_values(gradients, setup.compares_values));
  return numbers;
}

std::int64_t SetupAgreement::hash_values(const GradientAccess& gradients, bool compared) {
  hashes_.assign(gradients.parameters().size(), kNothing);
  if (!compared) return kNothing;
  std::string values;
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    hashes_[i] = hash_of(gradients.value(i));
    values += std::to_string(hashes_[i]) + "\n";
  }
  return hash_of(values);
}

void SetupAgreement::ask(const GradientAccess& gradients, const Setup& setup) {
  if (!asked_.contains("setup") && !answers_.contains("setup"))
    ask("setup", both_ways(numbers_of(gradients, setup)));
}

void SetupAgreement::compare(const GradientAccess& gradients, const Setup& setup) {
  const std::uint64_t joins = this->joins();
  std::optional<std::string> warning;
  ask(gradients, setup);
  // An interruption leaves answers for the next attempt, an error ends this one.
  try {
    const Extremes all = extremes("setup", {});
    for (std::size_t i = 0; i < setup.terms.size(); ++i) {
      if (all.least[i] == all.most[i]) continue;
      differ(setup.terms[i].what, setup.terms[i].here,
             "Make the same model and optimizer on every rank");
    }
    if (all.least.back() != all.most.back()) warning = difference_of_values(gradients, 0);
  } catch (const Error&) {
    answers_.clear();
    throw;
  }
  answers_.clear();
  agreed_["setup"] = joins;
  if (warning) warn(*warning);
}

void SetupAgreement::compare(const std::string& what, std::int64_t number,
                             const std::string& here) {
  const auto all = greatest(what, both_ways(std::vector<std::int64_t>{number}));
  if (all[0] != -all[1]) differ(what, here, "Give all ranks the same");
}

void SetupAgreement::compare_values(const std::vector<std::string>& names,
                                    std::span<const Tensor> values) {
  hashes_.clear();
  for (const Tensor& value : values) hashes_.push_back(hash_of(value));
  if (const auto warning = difference_of_hashes(names, 0)) warn(*warning);
}

std::optional<std::string> SetupAgreement::difference_of_values(const GradientAccess& gradients,
                                                                std::uint64_t steps) {
  std::vector<std::string> names;
  for (const GradientParameter& each : gradients.parameters()) names.push_back(each.name);
  return difference_of_hashes(names, steps);
}

std::optional<std::string> SetupAgreement::difference_of_hashes(
    const std::vector<std::string>& names, std::uint64_t steps) {
  const Extremes all = extremes("parameters", hashes_);
  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    if (all.least[i] != all.most[i]) different.push_back(i);
  }
  const std::vector<Rank> ranks = set_.ranks();
  std::optional<std::string> warning;
  if (!different.empty()) {  // two that differ in all may look alike in none
    values_differed_ = true;
    std::vector<std::int64_t> own(ranks.size(), kNothing);
    own[static_cast<std::size_t>(set_.rank())] = hashes_[different.front()];
    const std::vector<std::int64_t> by_rank = extremes("parameters.ranks", own).most;
    const auto first = std::ranges::find_if(by_rank, [](auto hash) { return hash != kNothing; });
    const Rank teller = ranks[static_cast<std::size_t>(first - by_rank.begin())];
    std::vector<Rank> others;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (by_rank[i] != kNothing && by_rank[i] != *first) others.push_back(ranks[i]);
    }
    if (teller == set_.world()->topology().rank) {
      warning = describe_values(names, different, teller, others, steps);
    }
  }
  answers_.erase("parameters");
  answers_.erase("parameters.ranks");
  return warning;
}

std::string SetupAgreement::describe_values(const std::vector<std::string>& names,
                                            const std::vector<std::size_t>& different, Rank teller,
                                            const std::vector<Rank>& others,
                                            std::uint64_t steps) const {
  std::ostringstream text;
  text << owner() << ": parameters differ between rank " << teller << " and "
       << describe_ranks(others)
       << (steps == 0 ? " at the first step" : " after step " + std::to_string(steps)) << ": '"
       << names[different.front()] << "'";
  if (different.size() > 1) {
    text << " and " << different.size() - 1 << " more of " << names.size();
  }
  if (steps == 0) {
    text << ". Each rank would train another model: call "
            "hvd.broadcast_parameters(model.state_dict(), root_rank="
         << teller << (set_.id() == kWorldSet ? "" : ", process_set=process_set")
         << ") before the first step (with Keras, BroadcastGlobalVariablesCallback). ";
  } else {
    text << ". Each rank trains another model now: what it does to parameters differs, or to "
            "gradients after step() or synchronize() has reduced them, or before that, while they "
            "are being reduced. ";
  }
  text << "HVD_CHECK_PARAMETERS=0 turns this check off";
  return text.str();
}

void warn(const std::string& text) {
  if (handler()) return handler()(text);
  log(LogLevel::kWarning, text);
}

void set_warning_handler(std::function<void(const std::string&)> new_handler) {
  handler() = std::move(new_handler);
}

}  // namespace hvd
