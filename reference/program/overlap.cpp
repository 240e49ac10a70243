// Reductions leave the calculation stream; and what is needed for that to be right.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

namespace plumbline::program {

namespace {

Op wait(const char* type, RingId ring) { return {.type = type, .role = role::backward, .ring = ring}; }

bool is_elsewhere(const Op& op) { return !op.stream.empty() && op.stream != "default"; }

bool is_wait_for_calculation(const Op& op, std::optional<RingId> ring) {
  return op.type == "c_wait_compute" && op.ring == ring;
}

// What ops of other streams than the default one touch. A wait is for the stream that it stands on, the default one:
// with those it is ordered by their names, so it has to have them.
std::set<std::string> touched_elsewhere(const Program& program) {
  std::set<std::string> touched;
  for (const Op& op : program.ops) {
    if (!is_elsewhere(op) || is_data_parallel_reduction(op)) continue;
    for (const Slots* slots : {&op.inputs, &op.outputs})
      for (std::string& name : names_in(*slots)) touched.insert(std::move(name));
  }
  return touched;
}

void give_names(Op& wait, const Op& reduction, const std::set<std::string>& elsewhere) {
  const auto give = [&](const Slots& of, Slots& to, const char* slot) {
    std::vector<std::string> names = names_in(of);
    std::erase_if(names, [&](const std::string& name) { return !elsewhere.contains(name); });
    if (!names.empty()) to[slot] = std::move(names);
  };
  give(reduction.inputs, wait.inputs, "X");
  give(reduction.outputs, wait.outputs, "Out");
}

// Each reduction waits for what is calculated before it: for the default stream, and for those that touch what is in
// `elsewhere`.
Program leave_calculation_stream(const Program& program, Convention convention,
                                 const std::set<std::string>& elsewhere) {
  Program result = program;
  result.ops.clear();
  const bool is_source = convention == Convention::paddle;
  const std::set<std::string> kept = is_source ? std::set<std::string>{} : kept_on_stream(program);
  for (int position = 0; const Op& op : program.ops) {
    const bool leaves = is_data_parallel_reduction(op) && !names_any(op, kept);
    if (leaves) {
      if (!op.ring)  // a gradient's second one, at which the analysis does not look
        throw PassError(Stage::overlap, "AssertionError",
                        "op " + std::to_string(position) + " (" + op.type + ") has NOT ring id");
      // The source puts another one in when it is applied again.
      const bool waits = !is_source && !result.ops.empty() && is_wait_for_calculation(result.ops.back(), op.ring);
      if (!waits) result.ops.push_back(wait("c_wait_compute", *op.ring));
      if (is_plain_wait(result.ops.back())) give_names(result.ops.back(), op, elsewhere);
    }
    result.ops.push_back(op);
    if (leaves) result.ops.back().on_calculation_stream = false;
    ++position;
  }
  return result;
}

// Where a wait for what an op touches has to stand: a reduction's stream waits for the calculation, which has to have
// waited by then. The op is not the first one: nothing runs before that.
std::ptrdiff_t ahead_of(const Program& program, int position) {
  const auto at = static_cast<std::size_t>(position);
  const Op& op = program.ops[at];
  const bool has_wait = is_data_parallel_reduction(op) && is_wait_for_calculation(program.ops[at - 1], op.ring);
  return has_wait ? position - 1 : position;
}

// What reductions of a ring write and, beside that, read. Others may read that, too.
struct Running {
  std::set<std::string> written, read;

  void add(const Op& reduction) {
    for (std::string& name : names_in(reduction.outputs)) written.insert(std::move(name));
    for (std::string& name : names_in(reduction.inputs)) read.insert(std::move(name));
  }
  [[nodiscard]] bool concerns(const Op& op) const {
    return names_any(op, written) ||
           std::ranges::any_of(read, [&](const std::string& name) { return writes(op, name); });
  }
  [[nodiscard]] std::vector<std::string> those_of(const std::set<std::string>& names) const {
    std::set<std::string> all = written;
    all.insert(read.begin(), read.end());
    std::vector<std::string> both;
    std::ranges::set_intersection(all, names, std::back_inserter(both));
    return both;
  }
};

}  // namespace

std::vector<CommunicationWait> communication_waits(const Program& program) {
  const std::set<std::string> elsewhere = touched_elsewhere(program);
  std::map<RingId, Running> running;
  std::vector<CommunicationWait> waits;
  // Whether no op has to wait for the gradient after a wait that the program has.
  const auto is_awaited = [&](const Op& wait, const std::string& gradient) {
    return writes(wait, gradient) || (!is_elsewhere(wait) && !elsewhere.contains(gradient));
  };
  for (int position = 0; const Op& op : program.ops) {
    const bool is_reduction = is_data_parallel_reduction(op) && op.on_calculation_stream == false;
    const bool is_wait = op.type == "c_wait_comm" || op.type == "c_wait_compute";
    if (op.type == "c_wait_comm" && op.ring)
      for (std::set<std::string>* names : {&running[*op.ring].written, &running[*op.ring].read})
        std::erase_if(*names, [&](const std::string& gradient) { return is_awaited(op, gradient); });
    for (auto& [ring, gradients] : running) {
      if ((is_reduction || is_wait) && op.ring == ring) continue;  // a stream keeps its order
      if (!gradients.concerns(op)) continue;
      waits.push_back({.position = position, .ring = ring, .gradients = gradients.those_of(elsewhere)});
      gradients = {};
    }
    if (is_reduction) running[*op.ring].add(op);
    ++position;
  }
  return waits;
}

Program overlap(const Program& program, const Analysis& analysis, const PassOptions& options) {
  if (!analysis.overlappable) return program;
  // Where gradients are grouped, names order reductions with others in the end; in the source they are taken to always.
  const bool has_names = options.convention == Convention::paddle || analysis.fusible;
  Program result = leave_calculation_stream(program, options.convention,
                                            has_names ? std::set<std::string>{} : touched_elsewhere(program));
  if (has_names) return result;
  const auto waits = communication_waits(result);
  for (auto one = waits.rbegin(); one != waits.rend(); ++one) {
    Op op = wait("c_wait_comm", one->ring);
    if (!one->gradients.empty()) op.outputs = {{"Out", one->gradients}};
    result.ops.insert(result.ops.begin() + ahead_of(result, one->position), std::move(op));
  }
  return result;
}

}  // namespace plumbline::program
