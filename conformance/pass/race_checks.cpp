// Who checks the order of a program finds what is not ordered and nothing else; and no pass leaves a race.
#include "conformance/pass/race_checks.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/random_programs.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recorded.hpp"
#include "conformance/support/sizes.hpp"
#include "conformance/support/words.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_check.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using program::Op;
using program::Program;
using program::Rings;
using suite::Context;
using suite::Door;

namespace {

const char* const kFold = "/auto_parallel/data_parallel";

const Rings& some_rings() {
  static const Rings rings{{0, {0, 1}}, {1, {0, 1}}, {2, {0, 1}}, {12, {0, 1}}, {13, {0, 1}}};
  return rings;
}

json question_of(const Program& program, const Rings& rings = some_rings()) {
  return {{"program", program::json_of(program)}, {"rings", program::json_of(rings)}};
}

// ---- which ops are ordered, by following every way from one to another ----

class Closure {
 public:
  explicit Closure(const Program& program) : ops_(program.ops), count_(ops_.size()) {
    reached_.assign(count_, std::vector<bool>(count_));
    for (std::size_t j = 0; j < count_; ++j)
      for (std::size_t i = j; i-- > 0;)
        if (!reached_[i][j] && is_next(i, j))
          for (std::size_t k = 0; k <= i; ++k)
            if (k == i || reached_[k][i]) reached_[k][j] = true;
    touch_all();
  }

  [[nodiscard]] std::string stream(std::size_t i) const {
    const Op& op = ops_[i];
    return has_left(op) ? "ring " + std::to_string(*op.ring) : op.stream == "default" ? "" : op.stream;
  }
  /// Variables that both touch, one of them writing, with no way from one to the other.
  [[nodiscard]] std::set<std::string> raced(std::size_t i, std::size_t j) const {
    std::set<std::string> both;
    if (reached_[i][j]) return both;
    for (const auto& [name, writes] : touched_[i])
      if (const auto found = touched_[j].find(name); found != touched_[j].end() && (writes || found->second))
        both.insert(name);
    return both;
  }
  /// Whether what a race for `variable` says holds for `other` as well: it is the same memory, or a part of it.
  [[nodiscard]] bool includes(const std::string& variable, const std::string& other) const {
    return variable == other || fused_.contains({other, variable});
  }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  static bool is_wait(const Op& op) { return op.type == "c_wait_compute" || op.type == "c_wait_comm"; }
  static bool has_left(const Op& op) { return !is_wait(op) && op.ring && op.on_calculation_stream == false; }
  static bool has_one_whole(const Op& op) {
    const auto whole = op.outputs.find("FusedOutput");
    return whole != op.outputs.end() && whole->second.size() == 1;
  }
  static bool copies(const Op& op) {
    return op.attributes.contains("copy_data") && std::get<bool>(op.attributes.at("copy_data"));
  }
  static bool shares_a_name(const Op& first, const Op& second) {
    const auto meets = [](const program::Slots& written, const Op& other) {
      const auto names = program::names_in(written);
      return std::ranges::any_of(names, [&](const auto& name) { return reads(other, name) || writes(other, name); });
    };
    return meets(first.outputs, second) || meets(second.outputs, first);
  }
  // One step of order from i to a later j.
  [[nodiscard]] bool is_next(std::size_t i, std::size_t j) const {
    const Op &first = ops_[i], &second = ops_[j];
    if (stream(i) == stream(j)) return true;
    if (!has_left(first) && !has_left(second) && shares_a_name(first, second)) return true;
    if (first.type == "c_wait_compute" && has_left(second) && first.ring == second.ring) return true;
    // A ring's stream that waits passes that on to who waits for it, without an op of its own between.
    const bool is_passed_on = first.type == "c_wait_compute" && first.ring.has_value();
    return second.type == "c_wait_comm" && (has_left(first) || is_passed_on) && first.ring == second.ring;
  }

  void touch_all() {
    std::map<std::string, std::string> whole_of;
    for (const Op& op : ops_) {
      auto& touched = touched_.emplace_back();
      const bool coalesces = op.type == "coalesce_tensor";
      if (coalesces && op.outputs.contains("Output") && has_one_whole(op))
        for (const std::string& member : op.outputs.at("Output")) {
          whole_of[member] = op.outputs.at("FusedOutput").front();
          fused_.emplace(member, whole_of[member]);
        }
      if (op.type == "nop" || is_wait(op)) continue;
      const auto touch = [&](const std::string& name, bool writes) {
        touched[name] = touched[name] || writes;
        for (const auto& [member, whole] : whole_of)
          if (whole == name) touched[member] = touched[member] || writes;
      };
      for (const std::string& name : program::names_in(op.outputs)) touch(name, true);
      const bool reads_inputs = !coalesces || copies(op);
      for (const std::string& name : program::names_in(op.inputs))
        if (reads_inputs) touch(name, false);
    }
  }

  const std::vector<Op>& ops_;
  std::size_t count_;
  std::vector<std::vector<bool>> reached_;
  std::vector<std::map<std::string, bool>> touched_;     // by op: the variable, and whether it is written
  std::set<std::pair<std::string, std::string>> fused_;  // a variable, and the fused one that it is part of
};

struct ReportedRace {
  std::size_t first, second;
  std::string variable;
};

// For each variable, the last op of a stream may stand for all of that stream that race for it with a later op.
bool stands_for(const Closure& closure, const ReportedRace& race, std::size_t first, const std::string& variable) {
  return race.first >= first && closure.stream(race.first) == closure.stream(first) &&
         closure.includes(race.variable, variable) && closure.raced(race.first, race.second).contains(variable);
}

// The first variable that two ops race for and the report does not; "" where there is none. What is said of each member
// is said of the fused variable.
std::string unreported(const Closure& closure, const std::vector<ReportedRace>& races, std::size_t first,
                       std::size_t second) {
  const std::set<std::string> variables = closure.raced(first, second);
  const auto has_members = [&](const std::string& variable) {
    return std::ranges::any_of(
        variables, [&](const std::string& one) { return one != variable && closure.includes(variable, one); });
  };
  for (const std::string& variable : variables)
    if (!has_members(variable) && std::ranges::none_of(races, [&](const ReportedRace& race) {
          return race.second == second && stands_for(closure, race, first, variable);
        }))
      return variable;
  return {};
}

std::string difference_from(const Closure& closure, const json& races) {
  std::vector<ReportedRace> reported;
  for (const json& race : races) {
    const auto first = race.at("first").get<std::size_t>(), second = race.at("second").get<std::size_t>();
    if (first >= second || second >= closure.size()) return "there are no such ops: " + race.dump();
    const auto variables = closure.raced(first, second);
    if (variables.empty())
      return fmt::format("ops {} and {} are ordered or share nothing: {}", first, second, race.dump());
    const auto variable = race.at("variable").get<std::string>();
    if (!variables.contains(variable))
      return fmt::format("ops {} and {} do not race for that: {}", first, second, race.dump());
    reported.push_back({first, second, variable});
  }
  for (std::size_t second = 0; second < closure.size(); ++second)
    for (std::size_t first = 0; first < second; ++first)
      if (const std::string variable = unreported(closure, reported, first, second); !variable.empty())
        return fmt::format("ops {} and {} race for {}, which is not reported", first, second, variable);
  return {};
}

std::string problem_of_races(suite::Adapter& adapter, const Program& program, const Rings& rings = some_rings()) {
  return problem_of(adapter, kRaces, question_of(program, rings), [&](const json& result) {
    const Closure closure(program);
    return difference_from(closure, result.at("races"));
  });
}

constexpr int kOrders = 2000;

void by_closure(Context& context) {
  const std::string kind = context.parameters().text("programs");
  report_words(search<Program>({.draw = [&](Random& random) { return draw_order(kind, random); },
                                .problem = [&](const Program& one) { return problem_of_races(context.adapter(), one); },
                                .smaller = smaller_orders,
                                .words = words_of},
                               context.seed(), kOrders));
}

// ---- steps in which something orders each reduction, and what is taken away ----

Op step_op_of(std::string type, program::Slots inputs, program::Slots outputs) {
  return {.type = std::move(type), .inputs = std::move(inputs), .outputs = std::move(outputs), .role = 1};
}
Op reduction_of(const std::string& name) {
  Op op = step_op_of("all_reduce", {{"x", {name}}}, {{"out", {name}}});
  op.ring = 12, op.reduction = comm::ReduceOp::sum, op.name_scope = kFold;
  return op;
}
Op wait_of(const std::string& type) {
  Op op = step_op_of(type, {}, {});
  op.ring = 12;
  return op;
}

Program declared(std::vector<Op> ops) {
  Program program{.variables = {}, .ops = std::move(ops), .other_blocks = {}};
  for (const Op& op : program.ops)
    for (const program::Slots* slots : {&op.inputs, &op.outputs})
      for (const std::string& name : program::names_in(*slots)) program.variables[name] = {.shape = {4}};
  return program;
}

// Each gradient is made, leaves for its ring after a wait, and is waited for by its reader.
Program overlapped(int gradients) {
  std::vector<Op> ops;
  for (int i = 0; i < gradients; ++i) {
    const std::string name = "g" + std::to_string(i);
    ops.push_back(step_op_of("relu", {{"X", {"x"}}}, {{"Out", {name}}}));
    ops.push_back(wait_of("c_wait_compute"));
    ops.push_back(reduction_of(name));
    ops.back().on_calculation_stream = false;
  }
  ops.push_back(wait_of("c_wait_comm"));
  for (int i = 0; i < gradients; ++i)
    ops.push_back(step_op_of("scale", {{"X", {"g" + std::to_string(i)}}}, {{"Out", {"y" + std::to_string(i)}}}));
  return declared(ops);
}

// Made one, reduced on a stream of its own between two dependency ops.
Program fused(int gradients) {
  std::vector<std::string> names;
  for (int i = 0; i < gradients; ++i) names.push_back("g" + std::to_string(i));
  std::vector<Op> ops{step_op_of("coalesce_tensor", {{"Input", names}}, {{"Output", names}, {"FusedOutput", {"all"}}})};
  ops[0].attributes = {{"copy_data", false}, {"use_align", true}, {"dtype", std::string("float32")}};
  for (const std::string& name : names) ops.push_back(step_op_of("relu", {{"X", {"x"}}}, {{"Out", {name}}}));
  ops.push_back(step_op_of("nop", {{"X", {names.back()}}}, {{"Out", {"all"}}}));
  ops.push_back(reduction_of("all"));
  ops.push_back(step_op_of("nop", {{"X", {"all"}}}, {{"Out", names}}));
  for (std::size_t i = ops.size() - 3; i < ops.size(); ++i) ops[i].stream = "gradient_sync_stream";
  for (const std::string& name : names) ops.push_back(step_op_of("scale", {{"X", {name}}}, {{"Out", {"of_" + name}}}));
  return declared(ops);
}

Program erased(Program program, std::size_t position) {
  program.ops.erase(program.ops.begin() + static_cast<std::ptrdiff_t>(position));
  return program;
}

struct Taken {
  Program program;
  std::vector<std::pair<std::size_t, std::size_t>> races;  // ops, first and second: all that there are
};

const std::map<std::string, Taken>& taken() {
  static const std::map<std::string, Taken> list = [] {
    std::map<std::string, Taken> cases;
    // 0 make, 1 wait, 2 reduce; 3, 4, 5; 6 wait; 7, 8 read
    cases["wait_before"] = {erased(overlapped(2), 1), {{0, 1}}};
    cases["wait_after"] = {erased(overlapped(2), 6), {{2, 6}, {5, 7}}};
    Program other = overlapped(2);
    other.ops[6].ring = 13;
    cases["wait_for_another_ring"] = {other, {{2, 7}, {5, 8}}};
    Program early = overlapped(2);
    std::swap(early.ops[3], early.ops[4]);
    cases["wait_ahead_of_the_write"] = {early, {{4, 5}}};
    Program written = overlapped(1);  // 0 make, 1 wait, 2 reduce, 3 wait, 4 read
    written.ops[3] = step_op_of("relu", {{"X", {"x"}}}, {{"Out", {"g0"}}});
    cases["written_while_it_is_sent"] = {written, {{2, 3}, {2, 4}}};
    Program sent = overlapped(1);
    sent.ops[2] = step_op_of("send_v2", {{"X", {"g0"}}}, {});
    sent.ops[2].ring = 12, sent.ops[2].on_calculation_stream = false;
    sent.ops[3] = step_op_of("relu", {{"X", {"x"}}}, {{"Out", {"g0"}}});
    cases["written_while_it_is_read"] = {sent, {{2, 3}}};
    // 0 coalesce, 1 and 2 make, 3 nop, 4 reduce, 5 nop, 6 and 7 read
    cases["dependency_before"] = {erased(fused(2), 3), {{1, 3}, {2, 3}}};
    cases["dependency_after"] = {erased(fused(2), 5), {{4, 5}, {4, 6}}};
    Program partly = fused(2);
    partly.ops[5].outputs["Out"] = {"g0"};
    cases["dependency_of_one_member"] = {partly, {}};  // who reads the other is issued after who reads that one
    Program later = fused(2);
    later.ops[5].outputs["Out"] = {"g1"};
    cases["dependency_of_the_later_reader"] = {later, {{4, 6}}};
    Program made = fused(2);
    made.ops[1].stream = "another";
    cases["member_of_another_stream"] = {made, {{1, 4}}};
    return cases;
  }();
  return list;
}

// What an op does to a variable, on which stream: by its own name, or by that of the fused one.
std::string words_of_access(const Program& program, std::size_t position, const std::string& variable) {
  const Op& op = program.ops.at(position);
  const std::string stream = Closure(program).stream(position);
  const bool by_name = writes(op, variable) || reads(op, variable);
  const std::string name = by_name ? variable : "all";
  return fmt::format("op {} ({}, {}) {} {}", position, op.type, stream.empty() ? "the default stream" : stream,
                     writes(op, name) ? "writes" : "reads", by_name ? "it" : "all, which it is part of");
}

void taken_away(Context& context) {
  const Taken& one = taken().at(context.parameters().text("taken"));
  report_words(problem_of(context.adapter(), kRaces, question_of(one.program), [&](const json& result) -> std::string {
    std::set<std::pair<std::size_t, std::size_t>> expected(one.races.begin(), one.races.end()), got;
    for (const json& race : result.at("races")) {
      got.emplace(race.at("first").get<std::size_t>(), race.at("second").get<std::size_t>());
      const auto variable = race.at("variable").get<std::string>(), why = race.at("why").get<std::string>();
      if (!one.program.variables.contains(variable)) return "a race for no variable: " + race.dump();
      for (const char* which : {"first", "second"})
        if (!has_word(why, race.at(which).dump()))
          return fmt::format("'{}' does not name op {}", why, race.at(which).dump());
    }
    return expected == got ? ""
                           : fmt::format("{} races are told, {} there are: {}", got.size(), expected.size(),
                                         result.at("races").dump());
  }));
}

// In our own words.
void told(Context& context) {
  const auto& [program, expected] = taken().at(context.parameters().text("taken"));
  const std::vector<program::Race> races = program::find_races(program);
  std::vector<std::pair<std::size_t, std::size_t>> positions;
  for (const program::Race& race : races) positions.emplace_back(race.first, race.second);
  EXPECT_EQ(positions, expected) << "PASS-081: by the position of the second op, then of the first";
  for (const program::Race& race : races) {
    const auto access = [&](int position) {
      return words_of_access(program, static_cast<std::size_t>(position), race.variable);
    };
    EXPECT_EQ(race.why, fmt::format("{}, {}, and neither waits for the other", access(race.first), access(race.second)))
        << "PASS-081";
  }
}

void none_where_ordered(Context& context) {
  const auto count = static_cast<int>(context.parameters().number("gradients"));
  const std::string how = context.parameters().text("ordered_by");
  const Program program = how == "waits" ? overlapped(count) : fused(count);
  report_words(problem_of(context.adapter(), kRaces, question_of(program),
                          [](const json& result) { return first_difference({{"races", json::array()}}, result); }));
}

// ---- what the pass leaves ----

constexpr int kRandomSteps = 100;

json pass_question_of(const DrawnStep& step) {
  json args = question_of(step.program(), step.rings());
  args["max_fuse_numel"] = step.limit;
  return args;
}

Program final_of(const json& result, const Program& before) {
  const json& final = result.at("final");
  return final.contains("same_as") ? before : program::program_of_json(final);
}

void pass_leaves_none(Context& context) {
  const std::string kind = context.parameters().text("steps");
  const auto problem = [&](const DrawnStep& step) {
    const json args = pass_question_of(step);
    return problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
      if (auto words = problem_of_lost_ops(args.at("program"), program_at(args, result, "final")); !words.empty())
        return words;
      const Program after = final_of(result, step.program());
      const Closure closure(after);
      for (std::size_t second = 0; second < closure.size(); ++second)
        for (std::size_t first = 0; first < second; ++first)
          if (const auto variables = closure.raced(first, second); !variables.empty())
            return fmt::format("ops {} and {} race for {} after the pass: {}", first, second, *variables.begin(),
                               words_of(after));
      return {};
    });
  };
  report_words(search<DrawnStep>({.draw = [&](Random& random) { return draw_training_step(kind, random); },
                                  .problem = problem,
                                  .smaller = smaller_training_steps,
                                  .words = [](const DrawnStep& step) { return words_of(step.program()); }},
                                 context.seed(), kRandomSteps));
}

// ---- refusals ----

const std::map<std::string, json>& refused() {
  static const std::map<std::string, json> list = [] {
    const json right = question_of(overlapped(1));
    std::map<std::string, json> cases;
    const auto with = [&](const char* name, auto change) { change(cases.emplace(name, right).first->second); };
    with("no_program", [](json& args) { args.erase("program"); });
    with("program_is_a_list", [](json& args) { args["program"] = json::array(); });
    with("ring_that_is_not_there", [](json& args) { args["rings"].erase("12"); });
    with("ring_without_ranks", [](json& args) { args["rings"]["12"] = json::array(); });
    with("unknown_variable", [](json& args) { args["program"]["ops"][0]["outputs"]["Out"] = {"stranger"}; });
    with("unknown_op", [](json& args) { args["program"]["ops"][0]["type"] = "reluu"; });
    with("unknown_slot", [](json& args) { args["program"]["ops"][0]["inputs"]["Z"] = {"x"}; });
    with("negative_shape", [](json& args) { args["program"]["vars"][0]["shape"] = {-2}; });
    with("read_before_it_is_written", [](json& args) {
      json& ops = args["program"]["ops"];
      std::swap(ops[0], ops[4]);
    });
    with("cycle", [](json& args) {
      json& ops = args["program"]["ops"];
      ops[0]["inputs"]["X"] = ops[4].at("outputs").at("Out");
    });
    with("ring_not_named", [](json& args) { args["program"]["ops"][2]["attrs"].erase("ring_id"); });
    with("too_many_elements", [](json& args) { args["program"]["vars"][0]["shape"] = {1LL << 40, 1LL << 40}; });
    with("rank_twice", [](json& args) { args["rings"]["12"] = {1, 1}; });
    with("factor_no_number", [](json& args) { args["program"]["ops"][0]["attrs"]["scale"] = "half"; });
    with("number_too_large", [](json& args) { args["program"]["ops"][2]["attrs"]["ring_id"] = 1e30; });
    return cases;
  }();
  return list;
}

void refuses(Context& context) {
  report_words(problem_of_refusal(context.adapter(), kRaces, refused().at(context.parameters().text("fault"))));
}

// What the message must name of a fault: the op by its position, and its variable, or what it has in place of one.
const std::map<std::string, std::pair<json, std::vector<std::string>>>& named_faults() {
  static const std::map<std::string, std::pair<json, std::vector<std::string>>> list = [] {
    std::map<std::string, std::pair<json, std::vector<std::string>>> cases;
    const auto of_refused = [&](const char* fault, std::vector<std::string> words) {
      cases[fault] = {refused().at(fault), std::move(words)};
    };
    of_refused("unknown_variable", {"0", "stranger"});
    of_refused("unknown_op", {"0", "reluu"});
    of_refused("unknown_slot", {"0", "Z"});
    of_refused("ring_that_is_not_there", {"1", "12"});
    of_refused("read_before_it_is_written", {"0", "4", "g0"});
    of_refused("cycle", {"0", "4"});
    cases["negative_shape"] = {refused().at("negative_shape"),
                               {refused().at("negative_shape")["program"]["vars"][0]["name"].get<std::string>(), "-2"}};
    Program lost = fused(2);  // its first gradient is written, and then becomes a part of the fused variable
    std::swap(lost.ops[0], lost.ops[1]);
    cases["lost_value"] = {question_of(lost), {"1", "g0"}};
    return cases;
  }();
  return list;
}
void names_faults(Context& context) {
  const auto& [args, words] = named_faults().at(context.parameters().text("fault"));
  report_words(problem_of_refusal(context.adapter(), kRaces, args));
  const Answer answer = answer_to(context.adapter(), kRaces, args);
  if (const std::string missing = missing_words(answer.message, words); answer.is_refused() && !missing.empty())
    report_words(fmt::format("{} is not in the message: {}", missing, answer.message));
}

// ---- fused variables that are reduced too early ----

constexpr int kFusedGradients = 3;

// Made one, produced and reduced on one stream, in that order; the gradient `late` is produced after the reduction.
Program reduced_in_one_stream(bool copies, int late) {
  Program program = fused(kFusedGradients);
  std::erase_if(program.ops, [](const Op& op) { return op.type == "nop"; });
  for (Op& op : program.ops) op.stream.clear();
  program.ops.front().attributes["copy_data"] = copies;
  const auto first = program.ops.begin() + 1, reduction = first + kFusedGradients;
  if (late >= 0) std::rotate(first + late, first + late + 1, reduction + 1);
  return program;
}

void reduced_before_produced(Context& context) {
  const bool copies = context.parameters().text("copies") == "yes";
  const auto late = static_cast<int>(context.parameters().number("late"));
  report_words(problem_of(context.adapter(), kRaces, question_of(reduced_in_one_stream(copies, -1)),
                          [](const json& result) { return first_difference({{"races", json::array()}}, result); }));
  const json args = question_of(reduced_in_one_stream(copies, late));
  report_words(problem_of_refusal(context.adapter(), kRaces, args));
  const Answer answer = answer_to(context.adapter(), kRaces, args);
  const std::string gradient = "g" + std::to_string(late);
  constexpr std::size_t kReduction = kFusedGradients;  // after coalesce_tensor and all producers but one
  if (answer.is_refused() &&
      (answer.message.find(gradient) == answer.message.npos || !has_word(answer.message, std::to_string(kReduction)) ||
       !has_word(answer.message, std::to_string(kReduction + 1))))
    report_words(fmt::format("'{}' is produced by op {}, after op {} reduces it; the refusal does not say so: {}",
                             gradient, kReduction + 1, kReduction, answer.message));
}

// ---- long programs ----

// Of the gradient before the last one, nothing waits until it is made.
std::string one_in_long_programs(suite::Adapter& adapter, int ops) {
  const int gradients = ops / 4, made = 3 * (gradients - 2);
  const Program program = erased(overlapped(gradients), static_cast<std::size_t>(made) + 1);
  return problem_of(adapter, kRaces, question_of(program), [&](const json& result) -> std::string {
    if (result.at("races").size() != 1)
      return fmt::format("{} races are reported, there is one", result["races"].size());
    return first_difference({{"variable", "g" + std::to_string(gradients - 2)}, {"first", made}, {"second", made + 1}},
                            result["races"][0], "race");
  });
}

// As many ops as asked for, about: one order by waits, the other by names. Who finds no race anywhere has found none
// here: one in a small program is.
std::string none_in_long_programs(suite::Adapter& adapter, int ops) {
  for (const Program& program : {overlapped(ops / 4), fused(ops / 2)}) {
    const std::string words = problem_of(adapter, kRaces, question_of(program), [](const json& result) {
      return first_difference({{"races", json::array()}}, result);
    });
    if (!words.empty()) return words;
  }
  constexpr int few = 40;
  return one_in_long_programs(adapter, few);
}

template <class Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

}  // namespace

void add_race_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations,
                       std::vector<suite::Axis> axes, void (*body)(Context&)) {
    suite.add({.id = std::string("pass.races.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .limit = std::chrono::seconds(120),  // thousands of questions
               .body = body});
  };
  add("none_where_ordered", "PASS-080@7dd5", {kRaces}, {{"ordered_by", {"waits", "names"}}, {"gradients", {"1", "4"}}},
      none_where_ordered);
  add("taken_away", "PASS-081@f85e", {kRaces}, {{"taken", keys_of(taken())}}, taken_away);
  suite.add({.id = "pass.races.told",
             .verifies = {"PASS-081@f85e"},
             .axes = {{"taken", keys_of(taken())}, suite::worlds({1})},
             .body = told});
  add("by_closure", "PASS-082@1c5d", {kRaces}, {{"programs", kinds_of_order()}}, by_closure);
  add("bad_programs", "PASS-083@f77c", {kRaces}, {{"fault", keys_of(refused())}}, refuses);
  add("named_faults", "PASS-093@1371", {kRaces}, {{"fault", keys_of(named_faults())}}, names_faults);
  add("reduced_before_produced", "PASS-092@bf0b", {kRaces}, {{"copies", {"no", "yes"}}, {"late", {"0", "1", "2"}}},
      reduced_before_produced);
  add("pass_leaves_none", "PASS-084@bb63", {kPass}, {{"steps", kinds_of_steps()}}, pass_leaves_none);
  const std::vector<int> ops{40, 400, 2500, 10'000};
  add_sized_check(suite, "pass", {kRaces, "PASS-080@7dd5", ops, none_in_long_programs});
  add_sized_check(suite, "pass", {kRaces, "PASS-081@f85e", ops, one_in_long_programs, "plumbline", "one"});
}

}  // namespace plumbline::conformance
