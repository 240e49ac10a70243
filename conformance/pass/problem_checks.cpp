// What is wrong with a program is told fault by fault, with the op, the variable and what is beside it.
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "conformance/pass/race_checks.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/validate.hpp"

namespace plumbline::conformance {

using program::Op;
using program::Program;
using program::ProgramFault;
using program::ProgramProblem;
using program::Rings;
using program::ValidationRules;
using suite::Context;
using testing::HasSubstr;
using testing::Not;

namespace {

Op problem_op(std::string type, program::Slots inputs, program::Slots outputs) {
  return {.type = std::move(type), .inputs = std::move(inputs), .outputs = std::move(outputs), .role = 1};
}
Op relu(const std::string& from, const std::string& to) { return problem_op("relu", {{"X", {from}}}, {{"Out", {to}}}); }

// All that its ops name, and "x", which nobody writes.
Program program_of(std::vector<Op> ops) {
  Program program{.variables = {{"x", {.shape = {4}}}}, .ops = std::move(ops), .other_blocks = {}};
  for (const Op& op : program.ops)
    for (const program::Slots* slots : {&op.inputs, &op.outputs})
      for (const std::string& name : program::names_in(*slots)) program.variables[name] = {.shape = {4}};
  return program;
}

// What must be told of a program: fault, op, variable, and words that the message has.
struct Told {
  ProgramFault fault{};
  int op = -1;
  std::string variable{};
  std::vector<std::string> words{};
};

std::string_view word_of(ProgramFault fault) {
  static const std::map<ProgramFault, std::string_view> words{
      {ProgramFault::undeclared_variable, "undeclared_variable"},
      {ProgramFault::shape, "shape"},
      {ProgramFault::unknown_op, "unknown_op"},
      {ProgramFault::unknown_slot, "unknown_slot"},
      {ProgramFault::missing_ring, "missing_ring"},
      {ProgramFault::unknown_ring, "unknown_ring"},
      {ProgramFault::used_before_written, "used_before_written"},
      {ProgramFault::cyclic_dependency, "cyclic_dependency"},
      {ProgramFault::not_copied, "not_copied"}};
  return words.at(fault);
}

void expect_told(const Program& program, const std::vector<Told>& all, const Rings& rings = {{1, {0, 1}}},
                 const ValidationRules& rules = {}) {
  const std::vector<ProgramProblem> got = find_problems(program, rings, rules);
  std::vector<std::string> messages;
  for (const ProgramProblem& one : got) messages.push_back(one.message);
  ASSERT_EQ(got.size(), all.size()) << "PASS-093: " << fmt::format("{}", fmt::join(messages, "; "));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(name_of(got[i].fault), word_of(all[i].fault)) << "PASS-093: " << got[i].message;
    EXPECT_EQ(got[i].op, all[i].op) << "PASS-093: " << got[i].message;
    EXPECT_EQ(got[i].variable, all[i].variable) << "PASS-093: " << got[i].message;
    for (const std::string& words : all[i].words) EXPECT_THAT(got[i].message, HasSubstr(words)) << "PASS-093";
  }
}

// ---- ops and variables, one by one ----

void names_and_slots() {
  Program right = program_of({relu("x", "a"), relu("a", "b")});
  expect_told(right, {});
  Program program = right;
  program.variables.erase("b");
  expect_told(program, {{ProgramFault::undeclared_variable, 1, "b", {"op 1 (relu) names 'b' in slot Out"}}});
  program.variables.erase("x");
  expect_told(program, {{ProgramFault::undeclared_variable, 0, "x", {"op 0 (relu) names 'x' in slot X"}},
                        {ProgramFault::undeclared_variable, 1, "b", {"slot Out"}}});
  program = right;
  program.ops[1].type = "reluu";
  expect_told(program, {{ProgramFault::unknown_op, 1, "", {"op 1 has the type 'reluu'"}}});
  expect_told(program, {}, {}, {.known_ops = false});
  for (const char* type : {"reluu_grad", "adam_grad", "all_reduce_grad", "_grad", "grad", ""}) {  // of no forward
    program.ops[1].type = type;
    expect_told(program, {{ProgramFault::unknown_op, 1, "", {fmt::format("op 1 has the type '{}'", type)}}});
  }
  program =
      program_of({problem_op("relu_grad", {{"X", {"x"}}, {"Out", {"x"}}, {"Out@GRAD", {"x"}}}, {{"X@GRAD", {"a"}}}),
                  problem_op("relu_grad", {{"X@GRAD", {"x"}}}, {{"Out@GRAD", {"b"}}})});
  expect_told(program, {{ProgramFault::unknown_slot, 1, "", {"has inputs 'X@GRAD'; there are X, Out, Out@GRAD"}},
                        {ProgramFault::unknown_slot, 1, "", {"has outputs 'Out@GRAD'; there are X@GRAD"}}});
  program = program_of({relu("x", "a"), problem_op("elementwise_add", {{"X", {"a"}}, {"Z", {"x"}}}, {{"Sum", {"b"}}})});
  expect_told(program, {{ProgramFault::unknown_slot, 1, "", {"op 1 (elementwise_add) has inputs 'Z'; there are X, Y"}},
                        {ProgramFault::unknown_slot, 1, "", {"has outputs 'Sum'; there are Out"}}});
  program = program_of({problem_op("recv_v2", {{"x", {"x"}}}, {{"out", {"a"}}})});
  expect_told(program, {{ProgramFault::unknown_slot, 0, "", {"has inputs 'x'; there are none"}}});
}

void shapes() {
  Program program = program_of({relu("x", "a")});
  for (const std::vector<std::int64_t>& right :
       std::vector<std::vector<std::int64_t>>{{}, {0, 5}, {-1, 3}, {0, 1LL << 62, 1LL << 62}, {1LL << 62}})
    program.variables["a"].shape = right, expect_told(program, {});
  program.variables["a"].shape = {3, -2};
  expect_told(program, {{ProgramFault::shape, -1, "a", {"'a' has shape [3,-2]", "-1 for one that is not known"}}});
  program.variables["x"].shape = {1LL << 40, 1LL << 40};
  expect_told(program,
              {{ProgramFault::shape, -1, "a", {"[3,-2]"}},
               {ProgramFault::shape, -1, "x", {"[1099511627776,1099511627776]", "more elements than 64 bits count"}}});
}

void rings() {
  for (const char* type : {"all_reduce", "reduce", "c_allreduce_sum", "c_allreduce_max"}) {
    Program program = program_of({relu("x", "a"), problem_op(type, {{"x", {"a"}}}, {{"out", {"a"}}})});
    const std::string op = fmt::format("op 1 ({})", type);
    expect_told(program, {{ProgramFault::missing_ring, 1, "", {op + " names no ring"}}});
    expect_told(program, {}, {}, {.rings_exist = false});
    program.ops[1].ring = 2;
    expect_told(program, {{ProgramFault::unknown_ring, 1, "", {op + " runs over ring 2"}}});
    expect_told(program, {}, {}, {.rings_exist = false});
    program.ops[1].ring = 1;
    expect_told(program, {});
  }
  Program program =
      program_of({problem_op("c_wait_compute", {}, {}), problem_op("broadcast", {{"x", {"x"}}}, {{"out", {"a"}}})});
  expect_told(program, {});
  program.ops[0].ring = 7;
  expect_told(program, {{ProgramFault::unknown_ring, 0, "", {"op 0 (c_wait_compute) runs over ring 7"}}});
}

void one_by_one(Context&) {
  names_and_slots();
  shapes();
  rings();
}

// ---- order ----

void late_writers() {
  const Program program = program_of({relu("b", "c"), relu("x", "a"), relu("a", "b"), relu("c", "d")});
  expect_told(program, {{ProgramFault::used_before_written, 0, "b", {"op 0 (relu) reads 'b' before op 2 (relu)"}}});
  expect_told(program, {}, {}, {.order = false});
  Program persistent = program;
  persistent.variables["b"].persistable = true;  // it has a value of the step before
  expect_told(persistent, {});
  // Whoever reads and writes does not give a variable its first value; nor does a wait for its name read it.
  expect_told(program_of({relu("a", "a"), relu("a", "b")}), {});
  expect_told(program_of({problem_op("nop", {{"X", {"a"}}}, {{"Out", {"a"}}}), relu("x", "a")}),
              {{ProgramFault::used_before_written, 0, "a", {"op 0 (nop) reads 'a' before op 1 (relu)"}}});
  // Dependency ops and waits give no value.
  for (const char* type : {"nop", "c_wait_compute", "c_wait_comm"})
    expect_told(program_of({problem_op(type, {{"X", {"x"}}}, {{"Out", {"a"}}}), relu("a", "b"), relu("x", "a")}),
                {{ProgramFault::used_before_written, 1, "a", {"op 1 (relu) reads 'a' before op 2 (relu)"}}});
  // What lies in a variable that another op writes again, in place, is read by it.
  expect_told(
      program_of({relu("x", "a"), problem_op("conv2d", {{"Input", {"a"}}}, {{"Output", {"a"}}}), relu("a", "b")}), {});
  for (const char* type : {"abs", "assign", "clip", "concat", "mul", "nop", "split", "tanh"})
    expect_told(program_of({problem_op(type, {{"X", {"a"}}}, {{"Out", {"b"}}}), relu("x", "a")}),
                {{ProgramFault::used_before_written, 0, "a", {fmt::format("op 0 ({}) reads 'a' before op 1", type)}}});
  Program undeclared = program_of({relu("a", "b"), relu("x", "a")});
  undeclared.variables.erase("a");
  expect_told(undeclared, {{ProgramFault::undeclared_variable, 0, "a", {"slot X"}},
                           {ProgramFault::used_before_written, 0, "a", {"before op 1"}},
                           {ProgramFault::undeclared_variable, 1, "a", {"slot Out"}}});
  // Each variable once, each reader for itself.
  expect_told(program_of({problem_op("sum", {{"X", {"a", "a", "b"}}}, {{"Out", {"c"}}}), relu("a", "d"), relu("x", "a"),
                          relu("x", "b")}),
              {{ProgramFault::used_before_written, 0, "a", {"before op 2"}},
               {ProgramFault::used_before_written, 0, "b", {"before op 3"}},
               {ProgramFault::used_before_written, 1, "a", {"op 1 (relu) reads 'a' before op 2"}}});
}

std::string name_of_link(int link) { return fmt::format("v{}", link); }

// Op i reads what op i + 1 writes, and the last one what the first one does.
Program cycle_of(int ops) {
  std::vector<Op> all;
  for (int i = 0; i < ops; ++i) all.push_back(relu(name_of_link((i + 1) % ops), name_of_link(i)));
  return program_of(all);
}

// The ops of a cycle, each of which is needed by the one after it, and the last by the first; of many the middle is
// left out.
std::string way_along(int ops) {
  std::vector<int> way{0};
  for (int i = ops - 1; i > 0; --i) way.push_back(i);
  constexpr int kMost = 16, kHalf = 8;
  if (ops <= kMost) return fmt::format("{}", fmt::join(way, " <- "));
  return fmt::format("{} <- ... {} more ... <- {}", fmt::join(way.begin(), way.begin() + kHalf, " <- "), ops - kMost,
                     fmt::join(way.end() - kHalf, way.end(), " <- "));
}

void cycles() {
  for (const int ops : {2, 3, 16, 17, 40}) {
    std::vector<Told> told;
    for (int i = 0; i + 1 < ops; ++i)
      told.push_back({ProgramFault::cyclic_dependency,
                      i,
                      name_of_link(i + 1),
                      {fmt::format("op {} (relu) reads 'v{}' before op {} (relu)", i, i + 1, i + 1),
                       "which needs what it makes itself"}});
    const Program program = cycle_of(ops);
    expect_told(program, told);
    const auto problems = find_problems(program, {});
    for (std::size_t i = 0; i < problems.size(); ++i)
      EXPECT_EQ(problems[i].message.find(": ops ") != std::string::npos, i < 16)
          << "PASS-093: the way is told of the first 16: " << problems[i].message;
    // From the op that reads too early back to it, by way of all.
    const std::string words = problems.front().message;
    const std::string way = words.substr(words.find(": ops ") + 6);
    EXPECT_EQ(way, way_along(ops)) << "PASS-093";
  }
}

// Two cycles, and ops beside them that are late, but in none.
void cycles_and_others() {
  const Program program = program_of(
      {relu("b", "a"), relu("a", "b"), relu("e", "c"), relu("x", "e"), relu("g", "f"), relu("f", "g"), relu("b", "h")});
  expect_told(program, {{ProgramFault::cyclic_dependency, 0, "b", {": ops 0 <- 1"}},
                        {ProgramFault::used_before_written, 2, "e", {"before op 3"}},
                        {ProgramFault::cyclic_dependency, 4, "g", {": ops 4 <- 5"}}});
  // Of two ways the shorter one.
  const Program short_way = program_of(
      {problem_op("sum", {{"X", {"b", "d"}}}, {{"Out", {"a"}}}), relu("c", "b"), relu("a", "c"), relu("a", "d")});
  expect_told(short_way, {{ProgramFault::cyclic_dependency, 0, "b", {": ops 0 <- 2 <- 1"}},
                          {ProgramFault::cyclic_dependency, 0, "d", {": ops 0 <- 3"}},
                          {ProgramFault::cyclic_dependency, 1, "c", {": ops 1 <- 0 <- 2"}}});
}

// Four ops, each of which reads what some of the others write.
constexpr int kOps = 4;
using Needs = std::map<int, std::map<int, bool>>;  // by op, by the other

std::vector<Needs> all_needs() {
  std::vector<Needs> all;
  for (unsigned bits = 0; bits < 1U << (kOps * (kOps - 1)); ++bits) {
    Needs needs;
    for (int op = 0, bit = 0; op < kOps; ++op)
      for (int other = 0; other < kOps; ++other) needs[op][other] = op != other && ((bits >> bit++) & 1U) != 0;
    all.push_back(needs);
  }
  return all;
}

// How many needs lead from one op to another; a large number where none do.
std::map<int, std::map<int, int>> distances(const Needs& needs) {
  std::map<int, std::map<int, int>> steps;
  for (int i = 0; i < kOps; ++i)
    for (int j = 0; j < kOps; ++j) steps[i][j] = i == j ? 0 : needs.at(i).at(j) ? 1 : 100;
  for (int by = 0; by < kOps; ++by)
    for (int i = 0; i < kOps; ++i)
      for (int j = 0; j < kOps; ++j) steps[i][j] = std::min(steps[i][j], steps[i][by] + steps[by][j]);
  return steps;
}

// "ops 0 <- 2 <- 1": each is needed by the one after it, on a shortest way from the writer back to the reader.
bool is_way(const std::string& message, const Needs& needs, int reader, int writer, int steps) {
  const std::size_t begin = message.find(": ops ");
  if (begin == std::string::npos) return false;
  std::istringstream words(message.substr(begin + 6));
  std::vector<int> way;
  std::string arrow;
  for (int op = 0; words >> op; words >> arrow) way.push_back(op);
  for (std::size_t i = 1; i < way.size(); ++i)
    if (!needs.at(way[i]).at(way[i - 1])) return false;
  return static_cast<int>(way.size()) == steps + 1 && way.front() == reader && way.back() == writer;
}

void all_small_orders() {
  for (const Needs& needs : all_needs()) {
    auto steps = distances(needs);
    std::vector<Op> ops;
    std::vector<std::pair<int, int>> late;  // a reader, and the op after it that writes
    for (int op = 0; op < kOps; ++op) {
      std::vector<std::string> read{"x"};
      for (int other = 0; other < kOps; ++other)
        if (needs.at(op).at(other)) read.push_back(name_of_link(other));
      for (int other = op + 1; other < kOps; ++other)
        if (needs.at(op).at(other)) late.emplace_back(op, other);
      ops.push_back(problem_op("sum", {{"X", read}}, {{"Out", {name_of_link(op)}}}));
    }
    const auto problems = find_problems(program_of(ops), {});
    ASSERT_EQ(problems.size(), late.size()) << "PASS-093";
    for (std::size_t i = 0; i < late.size(); ++i) {
      const auto [reader, writer] = late[i];
      const bool is_cycle = steps[writer][reader] < 100;
      ASSERT_EQ(problems[i].op, reader) << "PASS-093: " << problems[i].message;
      ASSERT_EQ(problems[i].variable, name_of_link(writer)) << "PASS-093: " << problems[i].message;
      ASSERT_EQ(problems[i].fault, is_cycle ? ProgramFault::cyclic_dependency : ProgramFault::used_before_written)
          << "PASS-093: " << problems[i].message;
      ASSERT_EQ(is_way(problems[i].message, needs, reader, writer, steps[writer][reader]), is_cycle)
          << "PASS-093: " << problems[i].message;
    }
  }
}

void order(Context&) {
  late_writers();
  cycles();
  cycles_and_others();
  all_small_orders();
}

// ---- parts of fused variables ----

Op coalesce(const std::vector<std::string>& members, bool copies) {
  Op op = problem_op("coalesce_tensor", {{"Input", members}}, {{"Output", members}, {"FusedOutput", {"all"}}});
  op.attributes = {{"copy_data", copies}};
  return op;
}

// Whatever reads and writes, before and after coalesce_tensor in the alphabet.
void lost_by_types(bool copies) {
  for (const char* type : {"abs", "assign", "clip", "concat", "mul", "split", "tanh"}) {
    const Op reader = problem_op(type, {{"X", {"a"}}}, {{"Out", {"c"}}});
    const Op writer = problem_op(type, {{"X", {"x"}}}, {{"Out", {"a"}}});
    expect_told(program_of({writer, coalesce({"a", "b"}, copies), reader}),
                copies ? std::vector<Told>{} : std::vector<Told>{{ProgramFault::not_copied, 2, "a", {"wrote"}}});
    expect_told(program_of({writer, coalesce({"a", "b"}, copies), writer, reader}), {});
  }
}

void lost_once(bool copies) {
  // The first op that reads it is told, and what gave it its value first.
  expect_told(program_of({relu("x", "a"), relu("x", "a"), relu("x", "b"), coalesce({"a", "b"}, copies), relu("x", "c"),
                          problem_op("sum", {{"X", {"b", "a"}}}, {{"Out", {"d"}}})}),
              copies ? std::vector<Told>{}
                     : std::vector<Told>{{ProgramFault::not_copied, 5, "b", {"what op 2 (relu) wrote"}},
                                         {ProgramFault::not_copied, 5, "a", {"what op 0 (relu) wrote"}}});
  // A dependency op does not read it, and what an op reads and writes stays lost.
  expect_told(
      program_of({relu("x", "a"), coalesce({"a", "b"}, copies), problem_op("nop", {{"X", {"a"}}}, {{"Out", {"b"}}})}),
      {});
  expect_told(program_of({relu("x", "a"), coalesce({"a", "b"}, copies), relu("a", "a")}),
              copies ? std::vector<Told>{} : std::vector<Told>{{ProgramFault::not_copied, 2, "a", {"op 2 (relu)"}}});
  // A second coalescing of the same memory, and one that names no parts.
  expect_told(program_of({relu("x", "a"), coalesce({"a", "b"}, copies), coalesce({"a", "b"}, true), relu("a", "c")}),
              copies ? std::vector<Told>{} : std::vector<Told>{{ProgramFault::not_copied, 3, "a", {"after op 1"}}});
  Program without = program_of({relu("x", "a"), coalesce({"a"}, copies), relu("a", "c")});
  without.ops[1].outputs.erase("Output");
  expect_told(without, {});
}

void lost_values(Context&) {
  for (const bool copies : {true, false}) {
    const Program program = program_of({relu("x", "a"), coalesce({"a", "b"}, copies), relu("a", "c"), relu("a", "d")});
    std::vector<Told> told;
    if (!copies)
      told = {{ProgramFault::not_copied,
               2,
               "a",
               {"op 2 (relu) reads 'a' after op 1 (coalesce_tensor), which does not copy what op 0 (relu) wrote"}}};
    expect_told(program, told);
    Program persistent = program;
    persistent.variables["a"].persistable = true;
    expect_told(persistent, {});
    // Read by the name of the whole.
    told.clear();
    if (!copies)
      told = {{ProgramFault::not_copied, 2, "a", {"op 2 (relu) reads 'a', which is a part of 'all', after op 1"}}};
    expect_told(program_of({relu("x", "a"), coalesce({"a", "b"}, copies), relu("all", "c")}), told);
    // What is written again has a value.
    expect_told(program_of({relu("x", "a"), coalesce({"a", "b"}, copies), relu("x", "a"), relu("a", "c")}), {});
    expect_told(program_of({relu("x", "a"), coalesce({"a", "b"}, copies), relu("x", "all"), relu("a", "c")}), {});
    lost_by_types(copies);
    lost_once(copies);
    // A part that is written after a reader of the whole.
    expect_told(program_of({coalesce({"a", "b"}, copies), relu("x", "a"), relu("all", "c"), relu("x", "b")}),
                {{ProgramFault::used_before_written,
                  2,
                  "b",
                  {"op 2 (relu) reads 'b', which is a part of 'all', before op 3 (relu)"}}});
  }
}

// ---- refusals ----

void refusals(Context&) {
  const Program right = program_of({relu("x", "a")}), one = program_of({relu("a", "b"), relu("x", "a")});
  Program three = one;
  three.ops[1].inputs["Y"] = {"x"};
  three.ops[0].inputs["Y"] = {"x"};
  const auto said = [](const Program& program) -> std::string {
    try {
      require_valid(program, {});
    } catch (const program::InvalidProgram& refusal) {
      EXPECT_EQ(refusal.problems().size(), find_problems(program, {}).size()) << "PASS-093";
      return refusal.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said(right), "nothing") << "PASS-093";
  EXPECT_THAT(said(one), HasSubstr("op 0 (relu) reads 'a' before op 1 (relu)")) << "PASS-093";
  EXPECT_THAT(said(one), Not(HasSubstr("more"))) << "PASS-093";
  EXPECT_THAT(said(three), HasSubstr("op 0 (relu) has inputs 'Y'; there are X (and 2 more)")) << "PASS-093";
}

// ---- programs as they are written ----

// All that a program may have, as the pass answers it.
const char* const kWritten = R"({
  "vars": [
    {"name": "a", "shape": [], "dtype": "float16", "persistable": false, "parameter": false},
    {"name": "b", "shape": [-1, 0, 9223372036854775807], "dtype": "bool", "persistable": true, "parameter": true,
     "process_mesh": [1, 0], "dims_mapping": [-1, 0, 1]},
    {"name": "c", "shape": [4], "dtype": "complex128", "persistable": true, "parameter": false,
     "process_mesh": [], "dims_mapping": []}],
  "ops": [
    {"type": "relu", "inputs": {}, "outputs": {}, "attrs": {"op_role": 0}},
    {"type": "all_reduce", "inputs": {"x": ["a", "a"], "y": []}, "outputs": {"out": ["b"]},
     "attrs": {"op_role": 257, "op_namescope": "/s", "ring_id": -3, "reduce_type": "prod", "use_calc_stream": false,
               "execution_stream": "s", "scale": "inf", "value": "-inf", "rescale_grad": "nan", "copy_data": true,
               "truth": false, "whole": -9223372036854775808, "number": 0.1, "text": "t", "wholes": [1, -2],
               "numbers": [0.5, 2.0], "texts": ["a", ""], "nothing": [], "dtype": "int8",
               "concated_shapes": [2, 3], "concated_ranks": [1]},
     "process_mesh": [0, 1], "input_dims_mappings": {"a": [0, -1]}, "output_dims_mappings": {"b": []}}],
  "other_blocks": [["while"], []]})";

void written(Context&) {
  const nlohmann::json whole = nlohmann::json::parse(kWritten);
  nlohmann::json without_blocks = whole;
  without_blocks.erase("other_blocks");
  for (const nlohmann::json& one : {whole, without_blocks})
    EXPECT_EQ(program::json_of(program::program_of_json(one)), one) << "PASS-040";
  nlohmann::json shorter = whole;
  for (nlohmann::json& variable : shorter["vars"])
    for (const char* flag : {"persistable", "parameter"})
      if (variable[flag] == false) variable.erase(flag);
  shorter["ops"][0].erase("attrs");
  EXPECT_EQ(program::json_of(program::program_of_json(shorter)), whole) << "PASS-040";
  nlohmann::json placed = whole, split = whole;
  placed["ops"][0]["process_mesh"] = split["ops"][0]["process_mesh"] = {1};
  split["ops"][0]["input_dims_mappings"] = split["ops"][0]["output_dims_mappings"] = nlohmann::json::object();
  EXPECT_EQ(program::json_of(program::program_of_json(placed)), split) << "PASS-040";
  const nlohmann::json rings = {{"0", {2, 0, 1}}, {"12", {7}}, {"2147483647", {0, 2147483647}}};
  EXPECT_EQ(program::json_of(program::rings_of_json(rings)), rings) << "PASS-040";
  EXPECT_EQ(program::json_of(Rings{}), nlohmann::json::object()) << "PASS-040";
}

}  // namespace

void add_problem_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, void (*body)(Context&)) {
    suite.add({.id = std::string("pass.problems.") + name,
               .verifies = {"PASS-093@1371"},
               .axes = {suite::worlds({1})},
               .body = body});
  };
  add("one_by_one", one_by_one);
  add("order", order);
  add("lost_values", lost_values);
  add("refusals", refusals);
  suite.add({.id = "pass.written", .verifies = {"PASS-040@817b"}, .axes = {suite::worlds({1})}, .body = written});
}

}  // namespace plumbline::conformance
