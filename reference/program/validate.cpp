#include "reference/program/validate.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

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

class Order {
 public:
  explicit Order(const Program& program) : program_(program), writers_(first_writers(program)) {}

  void find_problems(int position, std::vector<ProgramProblem>& problems) const {
    for (const std::string& name : needed_names(position)) {
      const int writer = writers_.at(name);
      if (writer <= position) continue;
      const std::vector<int> way = way_to(writer, position);
      ProgramProblem problem{.fault = ProgramFault::used_before_written, .op = position, .variable = name};
      problem.message = fmt::format("{} reads '{}' ahead of {}, the first to write it", name_of_op(program_, position),
                                    name, name_of_op(program_, writer));
      if (!way.empty()) {
        problem.fault = ProgramFault::cyclic_dependency;
        problem.message += ", which needs what it makes itself: ops " + fmt::format("{}", fmt::join(way, " <- "));
      }
      problems.push_back(std::move(problem));
    }
  }

 private:
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

  // The ops from `from` to what it needs, and on, until `to`; empty when it does not need it.
  [[nodiscard]] std::vector<int> way_to(int from, int to) const {
    std::map<int, int> reached_from{{from, -1}};
    for (std::vector<int> next{from}; !next.empty();) {
      const int position = next.back();
      next.pop_back();
      for (const std::string& name : needed_names(position)) {
        const int writer = writers_.at(name);
        if (reached_from.try_emplace(writer, position).second) next.push_back(writer);
      }
    }
    std::vector<int> way;
    if (reached_from.contains(to))
      for (int position = to; position != -1; position = reached_from.at(position)) way.push_back(position);
    return way;
  }

  const Program& program_;
  std::map<std::string, int> writers_;
};

}  // namespace

std::vector<ProgramProblem> find_problems(const Program& program, const Rings& rings, const ValidationRules& rules) {
  std::vector<ProgramProblem> problems;
  find_bad_shapes(program, problems);
  const std::optional<Order> order = rules.order ? std::optional<Order>(program) : std::nullopt;
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
