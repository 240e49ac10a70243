#include "reference/program/validate.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::program {

std::string_view name_of(ProgramFault fault) {
  constexpr std::array<std::string_view, 8> kNames{
      "undeclared_variable", "shape",        "unknown_op",          "unknown_slot",
      "missing_ring",        "unknown_ring", "used_before_written", "cyclic_dependency"};
  return kNames[static_cast<std::size_t>(fault)];
}

namespace {

std::string name_of_op(const Program& program, int position) {
  return fmt::format("op {} ({})", position, program.ops[static_cast<std::size_t>(position)].type);
}

// ---- variables ----

void find_bad_shapes(const Program& program, std::vector<ProgramProblem>& problems) {
  for (const auto& [name, variable] : program.variables) {
    const auto add = [&](std::string_view words) {
      problems.push_back(
          {.fault = ProgramFault::shape,
           .variable = name,
           .message = fmt::format("variable '{}' has shape [{}], {}", name, fmt::join(variable.shape, ","), words)});
    };
    if (std::ranges::any_of(variable.shape, [](std::int64_t size) { return size < kUnknownDimension; })) {
      add("where a dimension is 0 or more, or -1 for one that is not known");
      continue;
    }
    try {
      (void)element_count(variable.shape);
    } catch (const OutOfRange&) {
      add("which are more elements than 64 bits count");
    }
  }
}

// ---- ops, one by one ----

void find_undeclared(const Program& program, int position, std::vector<ProgramProblem>& problems) {
  const Op& op = program.ops[static_cast<std::size_t>(position)];
  for (const Slots* slots : {&op.inputs, &op.outputs})
    for (const auto& [slot, names] : *slots)
      for (const std::string& name : names)
        if (!program.variables.contains(name))
          problems.push_back({.fault = ProgramFault::undeclared_variable,
                              .op = position,
                              .variable = name,
                              .message = fmt::format("{} names '{}' in slot {}, and there is no such variable",
                                                     name_of_op(program, position), name, slot)});
}

void find_unknown_slots(const Program& program, int position, std::vector<ProgramProblem>& problems) {
  const Op& op = program.ops[static_cast<std::size_t>(position)];
  const auto signature = op_signature(op.type);
  if (!signature) {
    problems.push_back({.fault = ProgramFault::unknown_op,
                        .op = position,
                        .message = fmt::format("op {} has the type '{}', which is not known", position, op.type)});
    return;
  }
  for (const auto& [slots, known, side] :
       {std::tuple{&op.inputs, &signature->inputs, "inputs"}, std::tuple{&op.outputs, &signature->outputs, "outputs"}})
    for (const auto& [slot, names] : *slots)
      if (std::ranges::find(*known, slot) == known->end())
        problems.push_back(
            {.fault = ProgramFault::unknown_slot,
             .op = position,
             .message = fmt::format("{} has {} '{}'; there are {}", name_of_op(program, position), side, slot,
                                    known->empty() ? "none" : fmt::format("{}", fmt::join(*known, ", ")))});
}

bool is_reduction(const Op& op) {
  return op.type == "all_reduce" || op.type == "reduce" || op.type.starts_with("c_allreduce_");
}

void find_bad_ring(const Program& program, const Rings& rings, int position, std::vector<ProgramProblem>& problems) {
  const Op& op = program.ops[static_cast<std::size_t>(position)];
  if (op.ring && !rings.contains(*op.ring))
    problems.push_back({.fault = ProgramFault::unknown_ring,
                        .op = position,
                        .message = fmt::format("{} runs over ring {}, and there is no such ring",
                                               name_of_op(program, position), *op.ring)});
  if (!op.ring && is_reduction(op))
    problems.push_back({.fault = ProgramFault::missing_ring,
                        .op = position,
                        .message = name_of_op(program, position) + " names no ring that it runs over"});
}

// ---- order ----

/// The first op that gives a variable a value, as far as that is not made of an older one.
std::map<std::string, int> first_writers(const Program& program) {
  std::map<std::string, int> writers;
  for (int position = 0; const Op& op : program.ops) {
    const std::vector<std::string> inputs = names_in(op.inputs);
    const std::set<std::string> read(inputs.begin(), inputs.end());
    for (const std::string& name : names_in(op.outputs))
      if (!read.contains(name)) writers.try_emplace(name, position);
    ++position;
  }
  return writers;
}

// Which ops need each other, each directly or by others: ops of one number do. A number is that of the circle's op that a
// walk along needs meets first (Tarjan, "Depth-first search and linear graph algorithms", 1972), without recursion.
class Circles {
 public:
  explicit Circles(const std::vector<std::vector<int>>& needs)
      : needs_(needs), met_(needs.size(), kNotMet), lowest_(needs.size()), circle_(needs.size(), kNotMet) {
    for (int op = 0; op < static_cast<int>(needs.size()); ++op)
      if (met_[index(op)] == kNotMet) walk_from(op);
  }
  [[nodiscard]] bool same(int a, int b) const { return circle_[index(a)] == circle_[index(b)]; }

 private:
  static constexpr int kNotMet = -1;
  static std::size_t index(int op) { return static_cast<std::size_t>(op); }

  void enter(int op) {
    met_[index(op)] = lowest_[index(op)] = count_++;
    walk_.emplace_back(op, 0);
    open_.push_back(op);
  }
  void walk_from(int begin) {
    for (enter(begin); !walk_.empty();) {
      auto& [op, next] = walk_.back();
      int& lowest = lowest_[index(op)];
      if (next == needs_[index(op)].size()) {
        leave(op);
        continue;
      }
      const int needed = needs_[index(op)][next++];
      if (met_[index(needed)] == kNotMet)
        enter(needed);
      else if (circle_[index(needed)] == kNotMet)
        lowest = std::min(lowest, met_[index(needed)]);
    }
  }
  void leave(int op) {
    walk_.pop_back();
    const int lowest = lowest_[index(op)];
    if (!walk_.empty()) {
      int& before = lowest_[index(walk_.back().first)];
      before = std::min(before, lowest);
    }
    if (lowest != met_[index(op)]) return;
    int closed = kNotMet;  // the whole circle of which this op was met first
    do {
      closed = open_.back();
      open_.pop_back();
      circle_[index(closed)] = op;
    } while (closed != op);
  }

  const std::vector<std::vector<int>>& needs_;  // by op
  std::vector<int> met_, lowest_, circle_;  // by op: when it was met, the earliest that it leads back to, its circle
  std::vector<std::pair<int, std::size_t>> walk_;  // an op, and how many of its needs were looked at
  std::vector<int> open_;                          // met, and in no circle yet
  int count_ = 0;
};

class Order {
 public:
  explicit Order(const Program& program)
      : program_(program), writers_(first_writers(program)), needs_(needs()), circles_(needs_) {}

  void find_problems(int position, std::vector<ProgramProblem>& problems) {
    for (const std::string& name : needed_names(position)) {
      const int writer = writers_.at(name);
      if (writer <= position) continue;
      const bool cyclic = circles_.same(position, writer);
      ProgramProblem problem{
          .fault = cyclic ? ProgramFault::cyclic_dependency : ProgramFault::used_before_written,
          .op = position,
          .variable = name,
          .message = fmt::format("{} reads '{}' ahead of {}, the first to write it", name_of_op(program_, position),
                                 name, name_of_op(program_, writer))};
      if (cyclic) problem.message += ", which needs what it makes itself";
      if (cyclic && ways_told_++ < kMostWays) problem.message += ": ops " + text_of(way_to(writer, position));
      problems.push_back(std::move(problem));
    }
  }

 private:
  static constexpr std::size_t kMostWays = 16;  // each is looked for anew
  static constexpr std::size_t kMostOfWay = 16;

  // What an op reads that another op writes first, each once.
  [[nodiscard]] std::vector<std::string> needed_names(int position) const {
    const Op& op = program_.ops[static_cast<std::size_t>(position)];
    std::vector<std::string> needed;
    if (op.type == "coalesce_tensor") return needed;  // memory that is made one is named as input, and not read
    std::set<std::string> seen;
    for (const std::string& name : names_in(op.inputs)) {
      const auto writer = writers_.find(name), none = writers_.end();
      const auto variable = program_.variables.find(name);
      const bool persists = variable != program_.variables.end() && variable->second.persistable;
      if (writer != none && writer->second != position && !persists && seen.insert(name).second) needed.push_back(name);
    }
    return needed;
  }
  // Of each op the ops that write what it needs.
  [[nodiscard]] std::vector<std::vector<int>> needs() const {
    std::vector<std::vector<int>> needs(program_.ops.size());
    for (std::size_t op = 0; op < needs.size(); ++op)
      for (const std::string& name : needed_names(static_cast<int>(op))) needs[op].push_back(writers_.at(name));
    return needs;
  }

  // A shortest way from `from` to what it needs, and on, until `to`, which is of the same circle; the last comes first.
  [[nodiscard]] std::vector<int> way_to(int from, int to) const {
    std::map<int, int> reached_from{{from, -1}};
    std::vector<int> reached{from};
    for (std::size_t i = 0; i < reached.size() && !reached_from.contains(to); ++i)
      for (const int needed : needs_[static_cast<std::size_t>(reached[i])])
        if (reached_from.try_emplace(needed, reached[i]).second) reached.push_back(needed);
    std::vector<int> way;
    for (int position = to; position != -1; position = reached_from.at(position)) way.push_back(position);
    return way;
  }
  [[nodiscard]] static std::string text_of(const std::vector<int>& way) {
    if (way.size() <= kMostOfWay) return fmt::format("{}", fmt::join(way, " <- "));
    const auto end = way.end(), begin = way.begin();
    constexpr auto kHalf = static_cast<std::ptrdiff_t>(kMostOfWay / 2);
    return fmt::format("{} <- ... {} more ... <- {}", fmt::join(begin, begin + kHalf, " <- "), way.size() - kMostOfWay,
                       fmt::join(end - kHalf, end, " <- "));
  }

  const Program& program_;
  std::map<std::string, int> writers_;
  std::vector<std::vector<int>> needs_;
  Circles circles_;
  std::size_t ways_told_ = 0;
};

}  // namespace

std::vector<ProgramProblem> find_problems(const Program& program, const Rings& rings, const ValidationRules& rules) {
  std::vector<ProgramProblem> problems;
  find_bad_shapes(program, problems);
  std::optional<Order> order = rules.order ? std::optional<Order>(program) : std::nullopt;
  for (int position = 0; position < static_cast<int>(program.ops.size()); ++position) {
    find_undeclared(program, position, problems);
    if (rules.known_ops) find_unknown_slots(program, position, problems);
    if (rules.rings_exist) find_bad_ring(program, rings, position, problems);
    if (order) order->find_problems(position, problems);
  }
  return problems;
}

InvalidProgram::InvalidProgram(std::vector<ProgramProblem> problems)
    : InvalidArgument(problems.empty() ? "the program is refused"
                      : problems.size() == 1
                          ? problems.front().message
                          : fmt::format("{} (and {} more)", problems.front().message, problems.size() - 1)),
      problems_(std::move(problems)) {}

void require_valid(const Program& program, const Rings& rings, const ValidationRules& rules) {
  std::vector<ProgramProblem> problems = find_problems(program, rings, rules);
  if (!problems.empty()) throw InvalidProgram(std::move(problems));
}

}  // namespace plumbline::program
