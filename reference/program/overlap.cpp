// Reductions leave the calculation stream; and what is needed for that to be right.
#include <algorithm>
#include <map>
#include <set>

#include "reference/program/pass.hpp"
#include "reference/program/steps.hpp"

namespace plumbline::program {

namespace {

Op wait(const char* type, RingId ring) { return {.type = type, .role = role::backward, .ring = ring}; }

// Each reduction waits for what is calculated ahead of it.
Program leave_calculation_stream(const Program& program, Convention convention) {
  Program result = program;
  result.ops.clear();
  for (int position = 0; const Op& op : program.ops) {
    if (is_data_parallel_reduction(op)) {
      if (!op.ring)  // a gradient's second one, at which the analysis does not look
        throw PassError(Stage::analyze, "AssertionError",
                        "op " + std::to_string(position) + " (" + op.type + ") has NOT ring id");
      // The source puts another one in when it is applied again.
      const bool waits = convention == Convention::plumbline && !result.ops.empty() &&
                         is_plain_wait(result.ops.back()) && result.ops.back().ring == op.ring;
      if (!waits) result.ops.push_back(wait("c_wait_compute", *op.ring));
    }
    result.ops.push_back(op);
    if (is_data_parallel_reduction(op)) result.ops.back().on_calculation_stream = false;
    ++position;
  }
  return result;
}

// Where a wait for what an op touches has to stand: a reduction's stream waits for the calculation, which has to have waited by then.
std::ptrdiff_t ahead_of(const Program& program, int position) {
  const auto at = static_cast<std::size_t>(position);
  const bool has_wait = at > 0 && is_data_parallel_reduction(program.ops[at]) && is_plain_wait(program.ops[at - 1]) &&
                        program.ops[at - 1].ring == program.ops[at].ring;
  return position - (has_wait ? 1 : 0);
}

bool touches(const Op& op, const std::set<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return reads(op, name) || writes(op, name); });
}

}  // namespace

std::vector<std::pair<int, RingId>> communication_waits(const Program& program) {
  std::map<RingId, std::set<std::string>> running;
  std::vector<std::pair<int, RingId>> waits;
  for (int position = 0; const Op& op : program.ops) {
    const bool is_reduction = is_data_parallel_reduction(op) && op.ring;
    if (op.type == "c_wait_comm" && op.ring) running[*op.ring].clear();
    for (auto& [ring, gradients] : running) {
      if (is_reduction && ring == *op.ring) continue;  // a stream keeps its order
      if (!touches(op, gradients)) continue;
      waits.emplace_back(position, ring);
      gradients.clear();
    }
    if (is_reduction) running[*op.ring].insert(first_name(op.outputs));
    ++position;
  }
  return waits;
}

Program overlap(const Program& program, const Analysis& analysis, const PassOptions& options) {
  if (!analysis.overlappable) return program;
  Program result = leave_calculation_stream(program, options.convention);
  // Where gradients are grouped, names order reductions and readers in the end; in the source always.
  if (options.convention == Convention::paddle || analysis.fusible) return result;
  const auto waits = communication_waits(result);
  for (auto one = waits.rbegin(); one != waits.rend(); ++one)
    result.ops.insert(result.ops.begin() + ahead_of(result, one->first), wait("c_wait_comm", one->second));
  return result;
}

}  // namespace plumbline::program
