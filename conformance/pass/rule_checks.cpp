// What the pass makes of a training step, rule by rule, on steps that are drawn.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/question.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

using Groups = std::vector<std::vector<std::size_t>>;
using Judge = std::string (*)(const PassQuestion& question, const json& args, const json& result);

std::size_t number_of(const std::string& gradient) {
  std::size_t number = 0;
  const char* end = gradient.data() + gradient.size();
  if (std::from_chars(gradient.data() + 1, end, number).ec != std::errc() || PassQuestion::name_of(number) != gradient)
    throw std::out_of_range(gradient);
  return number;
}

Groups groups_in(const json& result) {
  Groups groups;
  for (const json& group : result.at("groups")) {
    groups.emplace_back();
    for (const json& name : group.at("gradients")) groups.back().push_back(number_of(name));
  }
  return groups;
}

json names_of(const std::vector<std::size_t>& group) {
  json names = json::array();
  for (const std::size_t gradient : group) names.push_back(PassQuestion::name_of(gradient));
  return names;
}

bool keeps_scales(const PassQuestion& question) { return question.has_scales && !question.is_prunable(); }

// Whether an op between the reductions of two gradients, after the first one's, touches it.
bool is_touched_between(const PassQuestion& question, std::size_t gradient, std::size_t until) {
  const int after = question.gradients[gradient].touched_after;
  return (after != -1 && after < static_cast<int>(until)) || keeps_scales(question);
}

// The number of the ring over which the program that is asked about reduces a gradient.
int ring_number(const PassQuestion& question, std::size_t gradient) {
  return 10 + question.gradients.at(gradient).ring;
}

// ---- analysis ----

std::string analysed(const PassQuestion& question, const json&, const json& result) {
  json ring_of = json::array(), rings = json::array();
  std::vector<int> order;
  for (std::size_t i = 0; i < question.gradients.size(); ++i) {
    const int ring = question.gradients[i].ring;
    ring_of.push_back(json::array({PassQuestion::name_of(i), 10 + ring}));
    if (std::ranges::find(order, ring) == order.end()) order.push_back(ring);
  }
  for (const int ring : order) {
    json names = json::array();
    for (std::size_t i = 0; i < question.gradients.size(); ++i)
      if (question.gradients[i].ring == ring) names.push_back(PassQuestion::name_of(i));
    rings.push_back(json::array({10 + ring, names}));
  }
  return first_difference({{"grad_to_ring", ring_of},
                           {"ring_to_grads", rings},
                           {"support_rescale_grad", question.optimizer == "momentum"},
                           {"data_parallel_applied", true},
                           {"all_dp_groups_same_degree", question.has_one_degree()},
                           {"could_be_overlap", question.is_overlapped()},
                           {"could_be_fuse", question.is_fusible()}},
                          result.at("analysis"), "analysis");
}

// ---- pruning ----

json ops_of_type(const json& program, const char* type) {
  json ops = json::array();
  for (const json& op : program.at("ops"))
    if (op.at("type") == type) ops.push_back(op);
  return ops;
}

double divided(double value, int by) { return static_cast<double>(static_cast<float>(value / by)); }

std::string pruned(const PassQuestion& question, const json& args, const json& result) {
  const json program = program_at(args, result, "final");
  const bool into_loss = question.is_prunable() && question.has_one_degree();
  const double expected = into_loss ? divided(question.loss_value, question.size_of_ring(0)) : question.loss_value;
  const double value = ops_of_type(program, "fill_constant").at(0).at("attrs").at("value");
  if (value != expected) return fmt::format("the gradient of the loss is {}, it is {}", value, expected);
  for (const json& op : ops_of_type(program, "momentum")) {
    const std::string gradient = op.at("inputs").at("Grad").at(0);
    const bool into_optimizer = question.is_prunable() && !into_loss;
    const double factor = into_optimizer ? divided(1, question.size_of_ring(number_of(gradient))) : 1;
    const double got = op.at("attrs").at("rescale_grad");
    if (got != factor) return fmt::format("rescale_grad of '{}' is {}, it is {}", gradient, got, factor);
  }
  const auto scales = std::ranges::count_if(program.at("ops"), is_scale);
  const auto left = keeps_scales(question) ? static_cast<std::ptrdiff_t>(question.gradients.size()) : 0;
  return scales == left ? "" : fmt::format("{} scale ops are left, there are {}", scales, left);
}

// ---- overlap ----

bool is_plain_wait(const json& op) {
  return op.at("type") == "c_wait_compute" && op.at("inputs").empty() && op.at("outputs").empty();
}

std::string overlapped(const PassQuestion& question, const json& args, const json& result) {
  const json program = program_at(args, result, "after_overlap");
  const json& ops = program.at("ops");
  std::size_t reductions = 0;
  for (std::size_t i = 1; i < ops.size(); ++i) {
    if (!is_reduction(ops[i])) {
      if (is_plain_wait(ops[i]) && (i + 1 == ops.size() || !is_reduction(ops[i + 1])))
        return fmt::format("op {} waits for the calculation, and no reduction follows", i);
      continue;
    }
    const json& attributes = ops[i].at("attrs");
    const int ring = ring_number(question, reductions++);
    const bool waits = is_plain_wait(ops[i - 1]) && ops[i - 1].at("attrs").at("ring_id") == ring;
    if (waits != question.is_overlapped())
      return fmt::format("op {}, a reduction, has {} wait of its ring before it", i, waits ? "a" : "no");
    const bool has_left = attributes.contains("use_calc_stream") && attributes.at("use_calc_stream") == false;
    if (has_left != question.is_overlapped())
      return fmt::format("op {}, a reduction, is {} the calculation stream", i, has_left ? "off" : "on");
  }
  return {};
}

// ---- groups ----

std::string covered(const PassQuestion& question, const json&, const json& result) {
  std::size_t next = 0;
  for (const auto& group : groups_in(result)) {
    if (group.empty()) return "a group is empty";
    for (const std::size_t gradient : group)
      if (gradient != next++) return fmt::format("gradient {} stands where {} is to", gradient, next - 1);
  }
  const std::size_t all = question.is_fusible() ? question.gradients.size() : 0;
  return next == all ? "" : fmt::format("{} gradients are in groups, there are {}", next, all);
}

// Only asked of a cover, as all that follows.
std::string alike(const PassQuestion& question, const json&, const json& result) {
  const json& told = result.at("groups");
  for (std::size_t at = 0; const auto& group : groups_in(result)) {
    const DrawnGradient& first = question.gradients[group.front()];
    for (const std::size_t gradient : group) {
      const DrawnGradient& one = question.gradients[gradient];
      if (one.ring != first.ring || one.dtype != first.dtype)
        return fmt::format("gradients {} and {} are in one group: rings {} and {}, {} and {}", group.front(), gradient,
                           first.ring, one.ring, first.dtype, one.dtype);
    }
    if (told[at].at("ring_id") != 10 + first.ring || told[at].at("dtype") != first.dtype)
      return fmt::format("group {} is said to have ring {} and {}", at, told[at].at("ring_id").dump(),
                         told[at].at("dtype").dump());
    ++at;
  }
  return {};
}

std::int64_t elements_of(const PassQuestion& question, const std::vector<std::size_t>& group) {
  std::int64_t sum = 0;
  for (const std::size_t gradient : group) sum += question.gradients[gradient].elements();
  return sum;
}

std::string within_limit(const PassQuestion& question, const json&, const json& result) {
  for (std::size_t at = 0; const auto& group : groups_in(result)) {
    const std::int64_t elements = elements_of(question, group);
    if (group.size() > 1 && elements > question.limit)
      return fmt::format("group {} has {} elements of {}", at, elements, question.limit);
    if (result.at("groups")[at].at("numel") != elements)
      return fmt::format("group {} is said to have {} elements, it has {}", at,
                         result.at("groups")[at].at("numel").dump(), elements);
    ++at;
  }
  return {};
}

std::string untouched(const PassQuestion& question, const json&, const json& result) {
  for (const auto& group : groups_in(result))
    for (const std::size_t gradient : group)
      if (gradient != group.back() && is_touched_between(question, gradient, group.back()))
        return fmt::format("gradient {} is touched before the reduction of its group, at {}", gradient, group.back());
  return {};
}

// A group ends where the next gradient could not have joined.
std::string closed_for_a_reason(const PassQuestion& question, const json&, const json& result) {
  const Groups groups = groups_in(result);
  for (std::size_t at = 1; at < groups.size(); ++at) {
    const auto& group = groups[at - 1];
    const std::size_t next = groups[at].front();
    const DrawnGradient &last = question.gradients[group.back()], &one = question.gradients[next];
    const bool differs = one.ring != last.ring || one.dtype != last.dtype;
    const bool exceeds = elements_of(question, group) + one.elements() > question.limit;
    const bool touches =
        std::ranges::any_of(group, [&](std::size_t gradient) { return is_touched_between(question, gradient, next); });
    if (!differs && !exceeds && !touches)
      return fmt::format("group {} is closed before gradient {}, which fits", at - 1, next);
  }
  return {};
}

// ---- where its ops are told to stand ----

// In the program that was grouped. Of a gradient alone nothing goes; its wait is listed all the same.
std::string positions_told(const PassQuestion& question, const json& args, const json& result) {
  const json program = program_at(args, result, "after_overlap");
  const json& ops = program.at("ops");
  std::vector<std::size_t> reduced, made;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (is_reduction(ops[i])) reduced.push_back(i);
    if (ops[i].at("outputs").contains("Y@GRAD")) made.push_back(i);
  }
  const Groups groups = groups_in(result);
  for (std::size_t at = 0; at < groups.size(); ++at) {
    json waits = json::array(), reductions = json::array();
    for (const std::size_t gradient : groups[at]) {
      const bool goes = gradient != groups[at].back();
      if (goes) reductions.push_back(reduced.at(gradient));
      if ((goes || groups[at].size() == 1) && is_plain_wait(ops.at(reduced.at(gradient) - 1)))
        waits.push_back(reduced.at(gradient) - 1);
    }
    const std::string words = first_difference({{"allreduce_op_idx", reduced.at(groups[at].back())},
                                                {"remove_allreduce_op_indices", reductions},
                                                {"remove_wait_op_indices", waits},
                                                {"coalesce_op_idx", made.at(groups[at].front())},
                                                {"scale_op_idx", -1},
                                                {"remove_scale_op_indices", json::array()},
                                                {"fused", groups[at].size() > 1}},
                                               result.at("groups")[at], fmt::format("group {}", at));
    if (!words.empty()) return words;
  }
  return question.is_fusible() || groups.empty() ? "" : "there are groups";
}

// ---- what is refused ----

std::vector<std::string> lines_about(const json& refused, const std::string& what) {
  std::vector<std::string> lines;
  for (const json& line : refused)
    if (line.get<std::string>().starts_with(what + ": ")) lines.push_back(line.get<std::string>());
  return lines;
}

// A line for each reason, and for rings how many there are and may be.
std::string reasons_told(const PassQuestion& question, const json& refused) {
  const bool is_pruned = question.has_scales && question.is_prunable();
  const bool has_many_rings = question.used_rings() > question.ring_limit;
  const std::map<std::string, int> expected{
      {"pruning", is_pruned ? 0 : 1},
      {"overlap", (has_many_rings ? 1 : 0) + (question.use_sharding ? 1 : 0)},
      {"fusion", (question.second_derivative.empty() ? 0 : 1) + (question.use_sharding ? 1 : 0)}};
  for (const auto& [what, count] : expected)
    if (static_cast<int>(lines_about(refused, what).size()) != count)
      return fmt::format("{} reasons are told against {}, there are {}: {}", lines_about(refused, what).size(), what,
                         count, refused.dump());
  if (!has_many_rings) return {};
  const std::string line = lines_about(refused, "overlap").front();
  return has_word(line, std::to_string(question.used_rings())) && has_word(line, std::to_string(question.ring_limit))
             ? ""
             : fmt::format("'{}' does not say that {} rings are too many", line, question.used_rings());
}

// Whether that keeps the gradient out of the group.
bool keeps_out(const PassQuestion& question, const std::vector<std::size_t>& group, std::size_t next,
               const std::string& why) {
  const DrawnGradient &last = question.gradients[group.back()], &one = question.gradients[next];
  if (why == "ring") return one.ring != last.ring;
  if (why == "type") return one.dtype != last.dtype;
  if (why == "limit") return elements_of(question, group) + one.elements() > question.limit;
  return why == "op" &&
         std::ranges::any_of(group, [&](std::size_t gradient) { return is_touched_between(question, gradient, next); });
}

bool names(const json& op, const std::vector<std::size_t>& gradients) {
  return std::ranges::any_of(gradients, [&](std::size_t gradient) {
    const std::string name = PassQuestion::name_of(gradient);
    return std::ranges::any_of(std::vector{op.at("inputs"), op.at("outputs")}, [&](const json& slots) {
      return std::ranges::any_of(slots,
                                 [&](const json& list) { return std::ranges::find(list, json(name)) != list.end(); });
    });
  });
}

std::string refusals_told(const PassQuestion& question, const json& args, const json& result) {
  if (std::string words = reasons_told(question, result.at("analysis").at("refused")); !words.empty()) return words;
  const Groups groups = groups_in(result);
  const json program = program_at(args, result, "after_overlap");
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const json& told = result.at("groups")[at];
    const std::string why = told.at("closed_by");
    const bool is_last = at + 1 == groups.size();
    const bool is_right =
        is_last ? why == "op" || why == "end" : keeps_out(question, groups[at], groups[at + 1].front(), why);
    if (!is_right) return fmt::format("group {} is said to be closed by '{}'", at, why);
    if (why == "end" && told.at("closed_at") != -1)
      return fmt::format("group {} is closed by the end, at {}", at, told.at("closed_at").dump());
    if (why == "end") continue;
    const json& op = program.at("ops").at(told.at("closed_at").get<std::size_t>());
    const bool is_it = why == "op" ? names(op, groups[at]) : is_reduction(op) && names(op, {groups[at + 1].front()});
    if (!is_it) return fmt::format("group {} is said to be closed at {}", at, op.dump());
  }
  return {};
}

// ---- fusion ----

// Where something stands: after how many of the ops that the pass leaves where they are.
struct Standing {
  json op;
  std::size_t preceding = 0;
  std::size_t position = 0;
};

struct Layout {
  std::vector<json> left;  // what the pass may not change, the factors taken out
  std::vector<Standing> reductions, coalesced, dependencies;
};

Layout layout_of(const json& program) {
  Layout layout;
  for (std::size_t i = 0; json op : program.at("ops")) {
    const std::string type = op.at("type");
    const Standing here{.op = op, .preceding = layout.left.size(), .position = i++};
    if (is_reduction(op)) {
      layout.reductions.push_back(here);
    } else if (type == "coalesce_tensor") {
      layout.coalesced.push_back(here);
    } else if (type == "nop") {
      layout.dependencies.push_back(here);
    } else if (!is_scale(op) && !is_plain_wait(op) && type != "c_wait_comm") {
      if (type == "fill_constant") op["attrs"].erase("value");
      op["attrs"].erase("rescale_grad");
      layout.left.push_back(op);
    }
  }
  return layout;
}

std::string others_are_left(const PassQuestion&, const json& args, const json& result) {
  const Layout before = layout_of(args.at("program")), after = layout_of(program_at(args, result, "final"));
  return first_difference(json(before.left), json(after.left), "other ops");
}

std::string fused_name(std::size_t group, std::size_t groups) {
  return fmt::format("coalesce_grad_{}_0", groups - 1 - group);
}

// Without groups each gradient stands for itself.
Groups groups_or_singles(const PassQuestion& question, const json& result) {
  Groups groups = groups_in(result);
  for (std::size_t i = 0; groups.empty() && i < question.gradients.size(); ++i) groups.push_back({i});
  if (!question.is_fusible()) {
    groups.clear();
    for (std::size_t i = 0; i < question.gradients.size(); ++i) groups.push_back({i});
  }
  return groups;
}

std::string reduced_once(const PassQuestion& question, const json& args, const json& result) {
  const Groups groups = groups_or_singles(question, result);
  const Layout before = layout_of(args.at("program")), after = layout_of(program_at(args, result, "final"));
  if (after.reductions.size() != groups.size())
    return fmt::format("{} reductions of {} groups", after.reductions.size(), groups.size());
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const Standing& got = after.reductions[at];
    const std::string name =
        groups[at].size() > 1 ? fused_name(at, groups.size()) : PassQuestion::name_of(groups[at].front());
    if (!has_names(got.op.at("inputs"), "x", {name}) || !has_names(got.op.at("outputs"), "out", {name}))
      return fmt::format("reduction {} is of {}, it is of '{}'", at, got.op.at("inputs").dump(), name);
    if (got.op.at("attrs").at("ring_id") != 10 + question.gradients[groups[at].front()].ring)
      return fmt::format("reduction {} goes over ring {}", at, got.op.at("attrs").at("ring_id").dump());
    if (got.preceding != before.reductions[groups[at].back()].preceding)
      return fmt::format("reduction {} stands after {} ops, its last gradient's stood after {}", at, got.preceding,
                         before.reductions[groups[at].back()].preceding);
  }
  return {};
}

json coalesce_expected(const PassQuestion& question, const std::vector<std::size_t>& group) {
  json shapes = json::array(), ranks = json::array();
  for (const std::size_t gradient : group) {
    for (const std::int64_t size : question.gradients[gradient].shape) shapes.push_back(size);
    ranks.push_back(question.gradients[gradient].shape.size());
  }
  return {{"op_role", 1},
          {"copy_data", false},
          {"use_align", true},
          {"dtype", question.gradients[group.front()].dtype},
          {"concated_shapes", shapes},
          {"concated_ranks", ranks}};
}

std::string memory_made_one(const PassQuestion& question, const json& args, const json& result) {
  const Groups groups = groups_or_singles(question, result);
  const Layout before = layout_of(args.at("program")), after = layout_of(program_at(args, result, "final"));
  std::size_t next = 0;
  for (std::size_t at = 0; at < groups.size(); ++at) {
    if (groups[at].size() == 1) continue;
    if (next == after.coalesced.size()) return fmt::format("group {} has no coalesce_tensor", at);
    const Standing& got = after.coalesced[next++];
    // Directly before the op that makes the first gradient, which stands directly before its reduction.
    if (got.preceding + 1 != before.reductions[groups[at].front()].preceding)
      return fmt::format("the memory of group {} is coalesced after {} ops, its first gradient is made after {}", at,
                         got.preceding, before.reductions[groups[at].front()].preceding - 1);
    const json names = names_of(groups[at]);
    std::string words =
        first_difference({{"inputs", {{"Input", names}}},
                          {"outputs", {{"Output", names}, {"FusedOutput", {fused_name(at, groups.size())}}}},
                          {"attrs", coalesce_expected(question, groups[at])}},
                         got.op, "coalesce_tensor");
    if (!words.empty()) return words;
  }
  return next == after.coalesced.size() ? "" : "a coalesce_tensor belongs to no group";
}

std::string variables_added(const PassQuestion& question, const json& args, const json& result) {
  const Groups groups = groups_or_singles(question, result);
  std::map<std::string, json> added;
  const json program = program_at(args, result, "final");
  for (const json& variable : program.at("vars")) added[variable.at("name")] = variable;
  for (const json& variable : args.at("program").at("vars"))
    if (added.erase(variable.at("name")) == 0) return "a variable is gone: " + variable.dump();
  for (std::size_t at = 0; at < groups.size(); ++at) {
    if (groups[at].size() == 1) continue;
    const std::string name = fused_name(at, groups.size());
    const auto found = added.find(name);
    if (found == added.end()) return "there is no variable '" + name + "'";
    if (found->second.at("dtype") != question.gradients[groups[at].front()].dtype ||
        found->second.at("persistable") != false)
      return "the fused variable is " + found->second.dump();
    added.erase(found);
  }
  return added.empty() ? "" : "a variable more: " + added.begin()->second.dump();
}

// ---- dependencies ----

bool is_dependency(const json& op, const json& on, const json& of) {
  return op.at("type") == "nop" && has_names(op.at("inputs"), "X", on) && has_names(op.at("outputs"), "Out", of) &&
         op.at("attrs").value("execution_stream", "") == "gradient_sync_stream";
}

std::string dependent(const PassQuestion& question, const json& args, const json& result) {
  const Groups groups = groups_or_singles(question, result);
  const json program = program_at(args, result, "final");
  const Layout after = layout_of(program);
  std::size_t fused = 0;
  for (std::size_t at = 0; at < groups.size() && at < after.reductions.size(); ++at) {
    if (groups[at].size() == 1) continue;
    ++fused;
    const std::string name = fused_name(at, groups.size());
    const std::size_t position = after.reductions[at].position;
    const json& ops = program.at("ops");
    if (!is_dependency(ops.at(position - 1), {PassQuestion::name_of(groups[at].back())}, {name}))
      return fmt::format("before fused reduction {} stands {}", at, ops.at(position - 1).dump());
    if (!is_dependency(ops.at(position + 1), {name}, names_of(groups[at])))
      return fmt::format("after fused reduction {} stands {}", at, ops.at(position + 1).dump());
  }
  return after.dependencies.size() == 2 * fused
             ? ""
             : fmt::format("{} dependency ops of {} fused reductions", after.dependencies.size(), fused);
}

std::string on_their_stream(const PassQuestion& question, const json& args, const json& result) {
  const json program = program_at(args, result, "final");
  const Layout layout = layout_of(program);
  for (const Standing& one : layout.reductions) {
    const json& attributes = one.op.at("attrs");
    const bool is_on_gradient_stream = attributes.value("execution_stream", "") == "gradient_sync_stream";
    if (is_on_gradient_stream != question.is_fusible())
      return fmt::format("op {}, a reduction, is {} the gradient stream", one.position,
                         is_on_gradient_stream ? "on" : "off");
    if (question.is_fusible() && attributes.value("use_calc_stream", false) != true)
      return fmt::format("op {}, a reduction, has use_calc_stream {}", one.position,
                         attributes.value("use_calc_stream", false));
  }
  const auto waits = std::ranges::count_if(program.at("ops"), is_plain_wait);
  const bool keeps = !question.is_fusible() && question.is_overlapped();
  const auto expected = keeps ? static_cast<std::ptrdiff_t>(question.gradients.size()) : 0;
  return waits == expected ? "" : fmt::format("{} waits are left, there are {}", waits, expected);
}

// Where no name orders a reduction and its readers, a wait for the communication does.
std::string readers_wait(const PassQuestion& question, const json& args, const json& result) {
  if (question.is_fusible() || !question.is_overlapped()) return {};
  std::map<std::string, int> running;  // gradients by the ring that they are reduced over
  const json program = program_at(args, result, "final");
  for (std::size_t i = 0; const json& op : program.at("ops")) {
    if (op.at("type") == "c_wait_comm")
      std::erase_if(running, [&](const auto& one) { return one.second == op.at("attrs").at("ring_id"); });
    if (is_reduction(op)) {
      const std::string gradient = op.at("outputs").at("out").at(0);
      running[gradient] = ring_number(question, number_of(gradient));
    } else {
      for (const json* slots : {&op.at("inputs"), &op.at("outputs")})
        for (const json& names : *slots)
          for (const json& name : names)
            if (running.contains(name))
              return fmt::format("op {} ({}) touches '{}', which is still being reduced", i, op.at("type").dump(),
                                 name.get<std::string>());
    }
    ++i;
  }
  return {};
}

// ---- summary ----

std::string summed_up(const PassQuestion& question, const json&, const json& result) {
  const json& summary = result.at("summary");
  if (!question.is_fusible()) {
    for (const char* count : {"allreduce_ops", "coalesce_allreduce_ops", "not_fused"})
      if (summary.contains(count)) return fmt::format("{} is told without groups", count);
    return summary.at("info").empty() && summary.at("debug").empty() ? "" : "something is logged without groups";
  }
  const std::size_t groups = result.at("groups").size();
  return first_difference(
      {{"info",
        {"Data Parallel Optimization: ", fmt::format(" {} Allreduce ops are fused into {} coalesce allreduce ops.",
                                                     question.gradients.size(), groups)}},
       {"allreduce_ops", question.gradients.size()},
       {"coalesce_allreduce_ops", groups},
       {"not_fused", 0}},
      summary, "summary");
}

std::string named_in_log(const PassQuestion& question, const json&, const json& result) {
  if (!question.is_fusible()) return {};
  std::vector<std::string> lines = result.at("summary").at("debug");
  for (std::size_t at = 0; const auto& group : groups_in(result)) {
    const auto line = std::ranges::find_if(lines, [&](const std::string& words) {
      return std::ranges::all_of(group, [&](std::size_t gradient) {
        return words.find(PassQuestion::name_of(gradient)) != std::string::npos;
      });
    });
    if (line == lines.end()) return fmt::format("no line names the members of group {} together", at);
    ++at;
  }
  return {};
}

// ---- asking ----

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> list{"plain", "types",      "rings",  "around_limit", "touched", "degrees",
                                             "large", "many_rings", "higher", "sharding",     "unscaled"};
  return list;
}

void judge_steps(Context& context, const std::string& convention, const std::vector<Judge>& judges) {
  constexpr int kTrials = 30;
  const std::string kind = context.parameters().text("step");
  const Property<PassQuestion> property{
      .draw = [&](Random& random) { return draw_step(kind, random); },
      .problem =
          [&](const PassQuestion& question) {
            const json args = question.args(convention);
            return problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
              for (const Judge judge : judges)
                if (std::string problem = judge(question, args, result); !problem.empty()) return problem;
              return {};
            });
          },
      .smaller = smaller_steps,
      .words = [](const PassQuestion& question) { return question.words(); }};
  report_words(search(property, context.seed(), kTrials));
}

template <Judge... judges>
void judge(Context& context) {
  judge_steps(context, "plumbline", {covered, judges...});
}

// Scale ops that are not wanted to go, that there are none of, and that nothing can hold.
void reasons_differ(Context& context) {
  PassQuestion unwanted{.gradients = std::vector<DrawnGradient>(2), .ring_sizes = {2, 4}};
  PassQuestion none = unwanted, nowhere = unwanted;
  unwanted.gradient_scale = false;
  none.has_scales = false;
  nowhere.gradients[1].ring = 1;
  std::set<std::string> reasons;
  for (const PassQuestion& question : {unwanted, none, nowhere})
    report_words(problem_of(context.adapter(), kPass, question.args("plumbline"), [&](const json& result) {
      const json& refused = result.at("analysis").at("refused");
      if (std::string words = reasons_told(question, refused); !words.empty()) return words;
      const std::string reason = lines_about(refused, "pruning").front();
      return reasons.insert(reason).second ? "" : fmt::format("two reasons are told as '{}'", reason);
    }));
}

void paddle_rules(Context& context) {
  judge_steps(context, "paddle",
              {covered, analysed, pruned, overlapped, alike, within_limit, untouched, closed_for_a_reason,
               others_are_left, reduced_once, memory_made_one, variables_added, dependent, on_their_stream, summed_up});
}

}  // namespace

void add_pass_rule_checks(suite::Suite& suite) {
  // An op of the forward among those of the backward hides reductions from the source.
  std::vector<std::string> all = kinds();
  all.emplace_back("forward");
  const auto add = [&](const char* name, const char* requirement, void (*body)(Context&),
                       const char* convention = "plumbline", const char* own_step = nullptr) {
    suite::Axis steps{"step", std::string_view(convention) == "plumbline" ? all : kinds()};
    if (own_step != nullptr) steps.values.emplace_back(own_step);
    suite.add({.id = std::string("pass.rule.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(steps)},
               .operations = {kPass},
               .convention = convention,
               .body = body});
  };
  add("analysed", "PASS-001@7db3", judge<analysed>);
  add("pruned", "PASS-010@ba42", judge<pruned>);
  add("overlapped", "PASS-020@8b74", judge<overlapped>, "plumbline", "default_rings");
  add("each_gradient_once", "PASS-030@375e", judge<>);
  add("alike", "PASS-031@8c8f", judge<alike>);
  add("within_limit", "PASS-032@56f2", judge<within_limit>);
  add("untouched", "PASS-033@cc59", judge<untouched>);
  add("closed_for_a_reason", "PASS-034@811d", judge<closed_for_a_reason>);
  add("others_are_left", "PASS-040@817b", judge<others_are_left>);
  add("reduced_once", "PASS-041@5bda", judge<reduced_once>);
  add("memory_made_one", "PASS-042@90ca", judge<memory_made_one>);
  add("variables_added", "PASS-043@e965", judge<variables_added>);
  add("dependent", "PASS-050@4760", judge<dependent>);
  add("on_their_stream", "PASS-051@2b82", judge<on_their_stream>);
  add("readers_wait", "PASS-052@a47b", judge<readers_wait>);
  add("refusals_told", "PASS-062@2ef0", judge<refusals_told>);
  suite.add({.id = "pass.rule.reasons_differ",
             .verifies = {"PASS-062@2ef0"},
             .door = Door::adapter,
             .operations = {kPass},
             .convention = "plumbline",
             .body = reasons_differ});
  add("positions_told", "PASS-094@1693", judge<positions_told>);
  add("named_in_log", "PASS-061@9573", judge<named_in_log>);
  add("summed_up", "PASS-060@2ffa", judge<summed_up>);
  add("paddle", "PASS-070@416f", paddle_rules, "paddle");
}

}  // namespace plumbline::conformance
