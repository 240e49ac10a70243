#include "reference/program/validate.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/program/detail/steps.hpp"

namespace plumbline::program {

std::string_view name_of(ProgramFault fault) {
  constexpr std::array<std::string_view, 9> kNames{
      "undeclared_variable", "shape",        "unknown_op",          "unknown_slot",
      "missing_ring",        "unknown_ring", "used_before_written", "cyclic_dependency",
      "not_copied"};
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

constexpr std::string_view kCoalesceType = "coalesce_tensor";

// What an op reads: a variable by its own name, or by that of the fused one that it is a part of.
struct ReadName {
  std::string name, whole;  // whole is empty: by its own
};
std::string words_of(const ReadName& read) {
  return read.whole.empty() ? fmt::format("'{}'", read.name)
                            : fmt::format("'{}', which is a part of '{}',", read.name, read.whole);
}

// Dependency ops and waits are there for their names; coalesce_tensor names the memory that it makes one.
bool reads_and_writes(const Op& op) {
  return op.type != kCoalesceType && op.type != "nop" && op.type != "c_wait_compute" && op.type != "c_wait_comm";
}

bool copies_members(const Op& coalesce) {
  const auto found = coalesce.attributes.find("copy_data");
  const bool* const value = found == coalesce.attributes.end() ? nullptr : std::get_if<bool>(&found->second);
  return value != nullptr && *value;
}

// A variable that is read although its value stayed where it was when its memory became a part of another one.
struct NotCopied {
  int reader = 0, coalesce = 0, writer = 0;
  ReadName read;
};

// One walk through the ops: who is the first to give a variable a value that is not made of an older one, which parts
// an op reads by the names of fused variables, and which values are lost.
class MemoryWalk {
 public:
  explicit MemoryWalk(const Program& program) : program_(program) {
    for (const Op& op : program.ops) {
      take(op);
      ++position_;
    }
  }
  [[nodiscard]] const std::map<std::string, int>& writers() const { return writers_; }
  [[nodiscard]] const std::vector<ReadName>& parts_read(int position) const {
    static const std::vector<ReadName> kNone;
    const auto found = parts_read_.find(position);
    return found == parts_read_.end() ? kNone : found->second;
  }
  [[nodiscard]] const std::vector<NotCopied>& not_copied() const { return not_copied_; }

 private:
  void take(const Op& op) {
    parts_.see(op);
    if (op.type == kCoalesceType) empty_members(op);
    const bool touches = reads_and_writes(op);
    std::set<std::string> read;
    for (const std::string& name : names_in(op.inputs)) {
      read.insert(name);
      if (!touches) continue;
      note_read({.name = name, .whole = {}});
      for (const std::string& part : parts_.of(name)) {
        read.insert(part);
        note_read({.name = part, .whole = name});
        parts_read_[position_].push_back({.name = part, .whole = name});
      }
    }
    if (!touches && op.type != kCoalesceType) return;
    for (const std::string& name : names_in(op.outputs)) {
      note_written(name, read);
      if (touches)
        for (const std::string& part : parts_.of(name)) note_written(part, read);
    }
  }
  void empty_members(const Op& coalesce) {
    const auto members = coalesce.outputs.find("Output");
    if (members == coalesce.outputs.end() || copies_members(coalesce)) return;
    for (const std::string& name : members->second)
      if (writers_.contains(name) && !persists(name)) emptied_by_[name] = position_;
  }
  void note_read(const ReadName& read) {
    const auto found = emptied_by_.find(read.name);
    if (found == emptied_by_.end()) return;
    not_copied_.push_back(
        {.reader = position_, .coalesce = found->second, .writer = writers_.at(read.name), .read = read});
    emptied_by_.erase(found);
  }
  void note_written(const std::string& name, const std::set<std::string>& read) {
    if (read.contains(name)) return;
    writers_.try_emplace(name, position_);
    if (program_.ops[static_cast<std::size_t>(position_)].type != kCoalesceType) emptied_by_.erase(name);
  }
  [[nodiscard]] bool persists(const std::string& name) const {
    const auto variable = program_.variables.find(name);
    return variable != program_.variables.end() && variable->second.persistable;
  }

  const Program& program_;
  int position_ = 0;
  Parts parts_;
  std::map<std::string, int> writers_, emptied_by_;
  std::map<int, std::vector<ReadName>> parts_read_;  // by op
  std::vector<NotCopied> not_copied_;                // in the order of their readers
};

// Which ops need each other, each directly or by others: ops of one number do. A number is that of the cycle's op that
// a walk along needs meets first (Tarjan, "Depth-first search and linear graph algorithms", 1972), without recursion.
class Cycles {
 public:
  explicit Cycles(const std::vector<std::vector<int>>& needs)
      : needs_(needs), met_(needs.size(), kNotMet), lowest_(needs.size()), cycle_(needs.size(), kNotMet) {
    for (int op = 0; op < static_cast<int>(needs.size()); ++op)
      if (met_[index(op)] == kNotMet) walk_from(op);
  }
  [[nodiscard]] bool same(int a, int b) const { return cycle_[index(a)] == cycle_[index(b)]; }

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
      else if (cycle_[index(needed)] == kNotMet)
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
    int closed = kNotMet;  // the whole cycle of which this op was met first
    do {
      closed = open_.back();
      open_.pop_back();
      cycle_[index(closed)] = op;
    } while (closed != op);
  }

  const std::vector<std::vector<int>>& needs_;  // by op
  std::vector<int> met_, lowest_, cycle_;       // by op: when it was met, the earliest that it leads back to, its cycle
  std::vector<std::pair<int, std::size_t>> walk_;  // an op, and how many of its needs were looked at
  std::vector<int> open_;                          // met, and in no cycle yet
  int count_ = 0;
};

class Order {
 public:
  explicit Order(const Program& program)
      : program_(program), memory_(program), writers_(memory_.writers()), needs_(needs()), cycles_(needs_) {}

  void find_problems(int position, std::vector<ProgramProblem>& problems) {
    find_not_copied(position, problems);
    for (const ReadName& read : needed_names(position)) {
      const int writer = writers_.at(read.name);
      if (writer <= position) continue;
      const bool cyclic = cycles_.same(position, writer);
      ProgramProblem problem{
          .fault = cyclic ? ProgramFault::cyclic_dependency : ProgramFault::used_before_written,
          .op = position,
          .variable = read.name,
          .message = fmt::format("{} reads {} before {}, the first to write it", name_of_op(program_, position),
                                 words_of(read), name_of_op(program_, writer))};
      if (cyclic) problem.message += ", which needs what it makes itself";
      if (cyclic && ways_told_++ < kMostWays) problem.message += ": ops " + text_of(way_to(writer, position));
      problems.push_back(std::move(problem));
    }
  }

 private:
  static constexpr std::size_t kMostWays = 16;  // each is searched for again
  static constexpr std::size_t kMostOfWay = 16;

  // What an op reads that an op writes first, each once.
  [[nodiscard]] std::vector<ReadName> needed_names(int position) const {
    const Op& op = program_.ops[static_cast<std::size_t>(position)];
    std::vector<ReadName> needed;
    if (op.type == kCoalesceType) return needed;  // memory that is made one is named as input, and not read
    std::set<std::string> seen;
    const auto need = [&](const ReadName& read) {
      const auto writer = writers_.find(read.name), none = writers_.end();
      const auto variable = program_.variables.find(read.name);
      const bool persists = variable != program_.variables.end() && variable->second.persistable;
      if (writer != none && !persists && seen.insert(read.name).second) needed.push_back(read);
    };
    for (const std::string& name : names_in(op.inputs)) need({.name = name, .whole = {}});
    for (const ReadName& part : memory_.parts_read(position)) need(part);
    return needed;
  }
  void find_not_copied(int position, std::vector<ProgramProblem>& problems) {
    const std::vector<NotCopied>& all = memory_.not_copied();
    for (; next_not_copied_ < all.size() && all[next_not_copied_].reader == position; ++next_not_copied_) {
      const auto& [reader, coalesce, writer, read] = all[next_not_copied_];
      problems.push_back({.fault = ProgramFault::not_copied,
                          .op = position,
                          .variable = read.name,
                          .message = fmt::format("{} reads {} after {}, which does not copy what {} wrote",
                                                 name_of_op(program_, position), words_of(read),
                                                 name_of_op(program_, coalesce), name_of_op(program_, writer))});
    }
  }
  // Of each op the ops that write what it needs.
  [[nodiscard]] std::vector<std::vector<int>> needs() const {
    std::vector<std::vector<int>> needs(program_.ops.size());
    for (int position = 0; std::vector<int>& of : needs)
      for (const ReadName& read : needed_names(position++)) of.push_back(writers_.at(read.name));
    return needs;
  }

  // A shortest way from `from` to what it needs, and on, until `to`, which is of the same cycle; the last comes first.
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
  MemoryWalk memory_;
  const std::map<std::string, int>& writers_;
  std::vector<std::vector<int>> needs_;
  Cycles cycles_;
  std::size_t ways_told_ = 0;
  std::size_t next_not_copied_ = 0;
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
