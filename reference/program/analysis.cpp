// Which gradients are reduced over which rings, and what may be done about it.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/program/detail/steps.hpp"
#include "reference/program/pass.hpp"

namespace plumbline::program {

std::optional<RingId> Analysis::find(std::string_view gradient) const {
  const auto found = std::ranges::find(ring_of, gradient, &std::pair<std::string, RingId>::first);
  return found == ring_of.end() ? std::nullopt : std::optional(found->second);
}

namespace {

class GradientWalk {
 public:
  GradientWalk(const Rings& rings, Convention convention) : rings_(rings), convention_(convention) {}

  void see(const Op& op, int position) {
    if (convention_ == Convention::plumbline) see_memory(op);
    if (is_data_parallel_reduction(op))
      see_reduction(op, position);
    else if (is_data_parallel_scale(op))
      scaled_.push_back(first_name(op.outputs));
    else if ((op.role & role::optimize) != 0 && takes_rescale(op.type, convention_))
      found_.supports_rescale = true;
  }

  [[nodiscard]] Analysis finish() {
    std::vector<std::string> lost;
    for (const std::string& gradient : scaled_)
      if (!known_.contains(gradient)) lost.push_back(gradient);
    if (!lost.empty())
      throw PassError(Stage::analyze, "AssertionError",
                      fmt::format("gradients [['{}']] is scaled BUT NOT synchronized", fmt::join(lost, "', '")));
    return std::move(found_);
  }

 private:
  // Who reduces the fused variable reduces its members.
  void see_memory(const Op& op) {
    const auto fused = op.outputs.find("FusedOutput"), members = op.outputs.find("Output");
    if (fused == op.outputs.end() || members == op.outputs.end()) return;
    for (const std::string& name : fused->second) members_[name] = members->second;
  }

  // The source looks at the ring of a gradient's first reduction alone.
  void see_reduction(const Op& op, int position) {
    const std::string& gradient = first_name(op.outputs);
    const bool is_new = known_.insert(gradient).second;
    if (const auto members = members_.find(gradient); members != members_.end())
      known_.insert(members->second.begin(), members->second.end());
    if (!is_new && convention_ == Convention::paddle) return;
    if (!op.ring)
      throw PassError(Stage::analyze, "AssertionError",
                      fmt::format("op {} ({} of '{}') has NOT ring id", position, op.type, gradient));
    if (!rings_.contains(*op.ring))
      throw PassError(Stage::analyze, "AssertionError",
                      fmt::format("data parallel group of [{}] from op {} ({} over ring {}) is None", gradient,
                                  position, op.type, *op.ring));
    if (is_new) found_.ring_of.emplace_back(gradient, *op.ring);
    auto ring = std::ranges::find(found_.grads_of, *op.ring, &std::pair<RingId, std::vector<std::string>>::first);
    if (ring == found_.grads_of.end()) ring = found_.grads_of.insert(ring, {*op.ring, {}});
    if (std::ranges::find(ring->second, gradient) == ring->second.end()) ring->second.push_back(gradient);
  }

  const Rings& rings_;
  Convention convention_;
  Analysis found_;
  std::map<std::string, std::vector<std::string>> members_;  // of fused variables
  std::set<std::string> known_;
  std::vector<std::string> scaled_;
};

bool have_one_degree(const Analysis& analysis, const Rings& rings) {
  std::set<std::size_t> degrees;
  for (const auto& [ring, gradients] : analysis.grads_of) degrees.insert(rings.at(ring).size());
  return degrees.size() == 1;
}

void list_refused(Analysis& analysis, const Program& program, const PassOptions& options) {
  const auto add = [&](std::string line) { analysis.refused.push_back(std::move(line)); };
  const auto rings = analysis.grads_of.size();
  if (!options.gradient_scale)
    add("pruning: it is not wanted");
  else if (!analysis.prunable && options.convention == Convention::paddle)
    add("pruning: rings differ in size, and no optimizer takes a factor");
  else if (!analysis.prunable)
    add(std::ranges::none_of(program.ops, is_data_parallel_scale)
            ? "pruning: there is nothing to prune"
            : "pruning: neither the loss nor optimizers can hold the factors without a difference");
  if (static_cast<std::int64_t>(rings) > options.max_overlap_rings)
    add(fmt::format("overlap: {} rings, at most {}", rings, options.max_overlap_rings));
  if (options.use_sharding) add("overlap: parameters are sharded");
  if (options.use_sharding) add("fusion: parameters are sharded");
  if (has_higher_order_gradients(program)) add("fusion: gradients are differentiated");
}

}  // namespace

Analysis analyze(const Program& program, const Rings& rings, const PassOptions& options) {
  GradientWalk walk(rings, options.convention);
  for (int position = 0; const Op& op : program.ops) walk.see(op, position++);
  Analysis analysis = walk.finish();
  analysis.is_applied = !analysis.grads_of.empty();
  analysis.same_degree = have_one_degree(analysis, rings);
  analysis.overlappable =
      static_cast<int>(analysis.grads_of.size()) <= options.max_overlap_rings && !options.use_sharding;
  analysis.fusible = !has_higher_order_gradients(program) && !options.use_sharding;
  analysis.prunable = options.gradient_scale &&
                      (options.convention == Convention::paddle ? analysis.supports_rescale || analysis.same_degree
                                                                : can_fold_scaling(program));
  if (analysis.is_applied) list_refused(analysis, program, options);
  return analysis;
}

}  // namespace plumbline::program
