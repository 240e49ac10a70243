#include "harness/cli/pass_against.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/pass/oracles/interpreter.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::cli {

using program::Execution;
using program::Op;
using program::RingId;

namespace {

constexpr double kRoundingOfFactors = 1e-6;
constexpr double kRoundingOfSums = 1e-13;  // of the largest term, in float64: what another order of some hundred leaves
constexpr std::int64_t kMostElements = std::int64_t{1} << 26;  // of all variables of a side, on all ranks

// ---- collectives ----

bool is_collective(const Op& op) {
  static const std::set<std::string, std::less<>> others{"all_reduce", "reduce", "all_gather", "broadcast",
                                                         "c_broadcast"};
  return op.ring && (others.contains(op.type) || op.type.starts_with("c_allreduce_"));
}

struct Collective {
  std::size_t position = 0;
  RingId ring = 0;
  std::vector<int> ranks;  // of the ring
  std::string variable;
  std::string what;  // "all_reduce sum of 4 float32"
};

std::int64_t bytes_of(program::DataType type) {
  using enum program::DataType;
  switch (type) {
    case boolean:
    case u8:
    case i8:
      return 1;
    case i16:
    case f16:
    case bf16:
      return 2;
    case i32:
    case f32:
      return 4;
    case i64:
    case f64:
    case c64:
      return 8;
    case c128:
      break;
  }
  return 16;
}

// The elements of a fused variable, whose shape is open: its members, as the last coalesce_tensor before puts them.
std::optional<std::int64_t> fused_count(const program::Program& program, std::size_t position,
                                        const std::string& name) {
  constexpr std::int64_t kAlignmentBytes = 256;
  while (position-- > 0) {
    const Op& op = program.ops[position];
    const auto fused = op.outputs.find("FusedOutput"), members = op.outputs.find("Output");
    if (op.type != "coalesce_tensor" || fused == op.outputs.end() || members == op.outputs.end()) continue;
    if (std::ranges::find(fused->second, name) == fused->second.end()) continue;
    const auto aligned = op.attributes.find("use_align");
    const bool* const is_aligned = aligned == op.attributes.end() ? nullptr : std::get_if<bool>(&aligned->second);
    std::int64_t all = 0, step = 1;
    for (const std::string& member : members->second) {
      const auto variable = program.variables.find(member);
      if (variable == program.variables.end()) return std::nullopt;
      const auto count = program::element_count(variable->second.shape);
      if (!count || *count > kMostElements) return std::nullopt;
      if (all == 0 && is_aligned != nullptr && *is_aligned) step = kAlignmentBytes / bytes_of(variable->second.dtype);
      all += (*count + step - 1) / step * step;
    }
    return all;
  }
  return std::nullopt;
}

// What all ranks of a ring must do equally.
std::string collective_text(const program::Program& program, std::size_t position) {
  const Op& op = program.ops[position];
  const std::string& name = program::first_name(op.inputs);
  const auto variable = program.variables.find(name);
  std::optional<std::int64_t> count = fused_count(program, position, name);
  if (!count && variable != program.variables.end()) count = program::element_count(variable->second.shape);
  const std::string reduction = op.reduction ? fmt::format(" {}", comm::name_of(*op.reduction)) : "";
  if (!count || variable == program.variables.end()) return op.type + reduction;
  return fmt::format("{}{} of {} {}", op.type, reduction, *count, name_of(variable->second.dtype));
}

std::vector<Collective> collectives_of(const ProgramSide& side, int rank, int ranks) {
  const program::Program& program = side.of(rank);
  const program::Rings rings = program::rings_of_rank(side.rings, rank, ranks);
  std::vector<Collective> all;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!is_collective(op)) continue;
    const auto members = rings.find(*op.ring);
    all.push_back({.position = i,
                   .ring = *op.ring,
                   .ranks = members == rings.end() ? std::vector<int>{rank} : members->second,
                   .variable = program::first_name(op.inputs),
                   .what = collective_text(program, i)});
  }
  return all;
}

// The ranks on their way through their collectives.
class Crossing {
 public:
  Crossing(const ProgramSide& side, int ranks) : next_(static_cast<std::size_t>(ranks)), met_(next_.size()) {
    for (int rank = 0; rank < ranks; ++rank) all_.push_back(collectives_of(side, rank, ranks));
  }

  std::string run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < all_.size(); ++rank)
        while (current(rank) != nullptr && all_are_there(*current(rank))) {
          if (std::string words = disagreement(*current(rank), rank, &Collective::what); !words.empty()) return words;
          if (mixed_.empty()) mixed_ = disagreement(*current(rank), rank, &Collective::variable);
          const std::vector<int> ranks = current(rank)->ranks;
          for (const int member : ranks) {
            const auto at = static_cast<std::size_t>(member);
            ++met_[at][current(at)->ring];
            ++next_[at];
          }
          moved = true;
        }
    }
    return stuck();
  }
  // Where ranks reduce different variables of one size together: they all come to their ends.
  [[nodiscard]] const std::string& mixed() const { return mixed_; }

 private:
  [[nodiscard]] const Collective* current(std::size_t rank) const {
    return next_[rank] < all_[rank].size() ? &all_[rank][next_[rank]] : nullptr;
  }
  [[nodiscard]] bool all_are_there(const Collective& one) const {
    return std::ranges::all_of(one.ranks, [&](int member) {
      const auto at = static_cast<std::size_t>(member);
      return at < all_.size() && current(at) != nullptr && current(at)->ring == one.ring &&
             current(at)->ranks == one.ranks;
    });
  }
  [[nodiscard]] std::string disagreement(const Collective& one, std::size_t rank,
                                         std::string Collective::* part) const {
    for (const int member : one.ranks) {
      const Collective& other = *current(static_cast<std::size_t>(member));
      if (other.*part == one.*part) continue;
      const auto met = met_[rank].find(one.ring);
      return fmt::format("ring {}, its collective {}: rank {} has {} (op {}), rank {} {} (op {})", one.ring,
                         met == met_[rank].end() ? 0 : met->second, rank, one.*part, one.position, member, other.*part,
                         other.position);
    }
    return {};
  }
  // Of ranks that do not come to their ends, each with what it is at.
  [[nodiscard]] std::string stuck() const {
    constexpr std::size_t kShown = 4;
    std::vector<std::string> waiting;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < all_.size(); ++rank)
      if (const Collective* const one = current(rank); one != nullptr && ++count <= kShown)
        waiting.push_back(fmt::format("rank {} at op {}, {} over ring {} [{}]", rank, one->position, one->what,
                                      one->ring, fmt::join(one->ranks, " ")));
    if (count == 0) return {};
    return fmt::format("the order of collectives differs: {} wait{}: {}{}",
                       count == 1 ? "a rank" : fmt::format("{} ranks", count), count == 1 ? "s" : " for each other",
                       fmt::join(waiting, "; "), count > kShown ? "; ..." : "");
  }

  std::string mixed_;
  std::vector<std::vector<Collective>> all_;        // by rank
  std::vector<std::size_t> next_;                   // by rank
  std::vector<std::map<RingId, std::size_t>> met_;  // by rank: collectives of a ring that are over
};

// ---- runs ----

void require_affordable(const ProgramSide& side, int ranks) {
  std::int64_t elements = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto& [name, variable] : side.of(rank).variables) {
      const std::int64_t count = program::element_count(variable.shape).value_or(1);
      if (count > kMostElements || (elements += count) > kMostElements)
        throw InvalidArgument(fmt::format(
            "variables up to '{}' have more than {} elements on {} ranks; write the program with smaller shapes", name,
            kMostElements, ranks));
    }
}

std::vector<Execution> runs_of(const ProgramSide& side, int ranks, std::uint64_t seed, bool exact) {
  std::vector<Execution> runs(static_cast<std::size_t>(ranks));
  program::ExecutionOptions options{.seed = seed, .in_double = !exact};
  for (const program::Program& program : side.programs)
    options.stands_in_for_peers |=
        std::ranges::any_of(program.ops, [](const Op& op) { return op.type == "send_v2" || op.type == "recv_v2"; });
  comm::run_ranks(ranks,
                  [&](comm::Communicator& world) {
                    const int rank = world.rank();
                    runs[static_cast<std::size_t>(rank)] =
                        execute(side.of(rank), program::rings_of_rank(side.rings, rank, ranks), world, options);
                  },
                  {.cores = 1});  // ranks that wait let others run
  return runs;
}

// ---- values ----

// The op that made what an optimizer takes for the parameter's gradient, or the variable's last value.
int maker_of(const program::Program& program, const std::string& variable, bool is_gradient) {
  std::string name = variable;
  std::size_t end = program.ops.size();
  if (is_gradient)
    for (std::size_t i = program.ops.size(); i-- > 0;) {
      const auto parameter = program.ops[i].inputs.find("Param"), gradient = program.ops[i].inputs.find("Grad");
      if (parameter == program.ops[i].inputs.end() || gradient == program.ops[i].inputs.end()) continue;
      if (parameter->second.empty() || gradient->second.empty() || parameter->second.front() != variable) continue;
      name = gradient->second.front();
      end = i;
      break;
    }
  for (std::size_t i = end; i-- > 0;)
    if (program::writes(program.ops[i], name)) return static_cast<int>(i);
  return -1;
}

bool is_same_value(double expected, double got, double allowed) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  return expected == got || std::abs(expected - got) <= allowed;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

// What a step leaves: what persists, and what optimizers write.
bool is_left(const program::Program& program, const std::string& name, const program::Variable& variable) {
  return variable.persistable || std::ranges::any_of(program.ops, [&](const Op& op) {
           const auto outputs = op.outputs.find("ParamOut");
           return outputs != op.outputs.end() && std::ranges::find(outputs->second, name) != outputs->second.end();
         });
}

class RankComparison {
 public:
  RankComparison(const ProgramSide& before, const ProgramSide& after, int rank, std::uint64_t seed, bool exact)
      : before_(before.of(rank)), after_(after.of(rank)), rank_(rank), seed_(seed), exact_(exact) {}

  void compare(const Execution& before, const Execution& after, AgainstReport& report) {
    values_before_ = &before.variables, values_after_ = &after.variables;
    for (const auto& [parameter, values] : before.gradients)
      compare_values(parameter, true, values, after.gradients, report);
    for (const auto& [name, variable] : before_.variables)
      if (const auto values = before.variables.find(name);
          values != before.variables.end() && is_left(before_, name, variable))
        compare_values(name, false, values->second, after.variables, report);
  }

 private:
  using Values = decltype(Execution::variables);

  // Of what the op reads, as the step leaves it.
  static double largest_term(const program::Program& program, const Values* values, int position) {
    double largest = 0;
    if (position < 0) return largest;
    for (const auto& [slot, names] : program.ops[static_cast<std::size_t>(position)].inputs)
      for (const std::string& name : names)
        if (const auto found = values->find(name); found != values->end())
          largest = std::max(largest, largest_of(found->second));
    return largest;
  }

  void compare_values(const std::string& name, bool is_gradient, const std::vector<double>& expected,
                      const Values& others, AgainstReport& report) {
    ++report.compared;
    ValueDifference difference{.seed = seed_,
                               .rank = rank_,
                               .variable = name,
                               .is_gradient = is_gradient,
                               .problem = {},
                               .before = maker_of(before_, name, is_gradient),
                               .after = maker_of(after_, name, is_gradient)};
    const auto found = others.find(name);
    if (found == others.end()) {
      // Only read before, and not even that after it: nothing is trained differently.
      if (difference.before < 0 && !is_gradient) return;
      difference.problem = is_gradient ? "no optimizer updates it any more" : "it is not written any more";
      return report.differences.push_back(std::move(difference));
    }
    const std::vector<double>& got = found->second;
    if (expected.size() != got.size()) {
      difference.problem = fmt::format("it has {} elements in place of {}", got.size(), expected.size());
      return report.differences.push_back(std::move(difference));
    }
    const double terms = std::max({1.0, largest_term(before_, values_before_, difference.before),
                                   largest_term(after_, values_after_, difference.after)});
    const double allowed = std::max(kRoundingOfFactors * largest_of(expected), kRoundingOfSums * terms);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (is_same_value(expected[i], got[i], exact_ ? 0 : allowed)) continue;
      difference.index = i;
      difference.expected = expected[i];
      difference.got = got[i];
      return report.differences.push_back(std::move(difference));
    }
  }

  const program::Program& before_;
  const program::Program& after_;
  int rank_;
  std::uint64_t seed_;
  bool exact_;
  const Values* values_before_ = nullptr;  // all of its run's variables
  const Values* values_after_ = nullptr;
};

int ranks_of_sides(const ProgramSide& before, const ProgramSide& after) {
  int ranks = 1;
  for (const ProgramSide* const side : {&before, &after})
    for (const program::Program& program : side->programs)
      ranks = std::max(ranks, program::world_size_of(program, side->rings));
  for (const ProgramSide* const side : {&before, &after})
    if (side->programs.size() != 1 && std::cmp_not_equal(side->programs.size(), ranks))
      throw InvalidArgument(
          fmt::format("{} programs for {} ranks; one for all, or one for each", side->programs.size(), ranks));
  return ranks;
}

}  // namespace

std::string collectives_that_hang(const ProgramSide& side, int ranks) { return Crossing(side, ranks).run(); }

AgainstReport compare_programs(const ProgramSide& before, const ProgramSide& after, const AgainstOptions& options) {
  AgainstReport report{.ranks = ranks_of_sides(before, after), .differences = {}, .collectives = {}};
  constexpr int kMostRanksRun = 64;
  if (report.ranks > kMostRanksRun)
    throw InvalidArgument(fmt::format("the rings have {} ranks; {} at most are run", report.ranks, kMostRanksRun));
  for (const ProgramSide* const side : {&before, &after}) require_affordable(*side, report.ranks);
  if (const std::string words = collectives_that_hang(before, report.ranks); !words.empty())
    throw InvalidArgument("the first program cannot run: " + words);
  Crossing crossing(after, report.ranks);
  report.collectives = crossing.run();
  if (!report.collectives.empty()) return report;
  report.mixed = crossing.mixed();
  for (int input = 0; input < options.inputs && report.differences.empty(); ++input) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(input);
    std::vector<Execution> first, second;
    try {
      first = runs_of(before, report.ranks, seed, options.exact);
    } catch (const comm::MismatchError& error) {
      throw InvalidArgument(fmt::format("the first program cannot run: {}", error.what()));
    }
    try {
      second = runs_of(after, report.ranks, seed, options.exact);
    } catch (const comm::MismatchError& error) {
      report.collectives = error.what();
      return report;
    }
    report.compared = 0;
    for (int rank = 0; rank < report.ranks; ++rank)
      RankComparison(before, after, rank, seed, options.exact)
          .compare(first[static_cast<std::size_t>(rank)], second[static_cast<std::size_t>(rank)], report);
  }
  // A gradient comes before the parameter that it changes.
  std::ranges::stable_sort(report.differences, {}, [](const ValueDifference& one) {
    return std::tuple(!one.is_gradient, std::max(one.after, one.before), one.rank);
  });
  return report;
}

}  // namespace plumbline::cli
