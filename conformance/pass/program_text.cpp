#include "conformance/pass/program_text.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::conformance {

using program::Op;
using program::Program;
using program::Slots;

namespace {

constexpr std::string_view kScope = "/auto_parallel/data_parallel", kGradientStream = "gradient_sync_stream";

std::vector<std::string> words_in(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> names_in_list(const std::string& list) {
  std::istringstream stream(list);
  std::vector<std::string> names;
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

bool is_collective(const std::string& type) {
  return type == "all_reduce" || type == "reduce" || type.starts_with("c_") || type == "send_v2" || type == "recv_v2";
}

// The line that a short one stands for.
std::string long_form(const std::vector<std::string>& words) {
  static const std::set<std::string> optimizers{"sgd",          "adam",           "momentum",        "merged_momentum",
                                                "dgc_momentum", "merge_momentum", "sparse_momentum", "lars_momentum"};
  const std::string& type = words[0];
  std::size_t used = words.size() > 1 ? 2 : 1;
  const std::string a = words.size() > 1 ? words[1] : "";
  std::string line;
  if (type == "L") {
    line = "fill_constant -> " + a + " role=257 value=1";
  } else if (type == "R" || type == "O" || type == "G") {
    const bool has_other = words.size() > 2 && words[2].find('=') == std::string::npos;
    line = "all_reduce " + a + " -> " + (has_other ? words[2] : a) + " dp ring=12 by=sum";
    if (has_other) ++used;
    if (type == "O") line += " calc=0";
    if (type == "G") line += fmt::format(" calc=1 on={}", kGradientStream);
  } else if (type == "S") {
    line = "scale " + a + " -> " + a + " dp scale=0.5";
  } else if (type == "W" || type == "Q") {
    line = (type == "W" ? "c_wait_compute -> ring=" : "c_wait_comm -> ring=") + a;
  } else if (type == "C") {
    line = fmt::format("coalesce_tensor Input:{1} -> Output:{1} FusedOutput:{0} copy_data=false", a, words.at(2));
    ++used;
  } else if (optimizers.contains(type) && std::ranges::find(words, "->") == words.end()) {
    line = fmt::format("{0} Param:{1} Grad:{2} -> ParamOut:{1} role=2", type, a, words.at(2));
    if (type != "sgd") line += " rescale_grad=1";
    ++used;
  } else {
    line = type == "N" ? "nop" : type;
    used = 1;
  }
  for (std::size_t i = used; i < words.size(); ++i) line += " " + words[i];
  return type == "N" ? line + fmt::format(" on={}", kGradientStream) : line;
}

program::Attribute attribute_of(const std::string& name, const std::string& value) {
  if (value == "true" || value == "false") return value == "true";
  if (name == "scale" || name == "value" || name == "rescale_grad" || name == "bias") return std::stod(value);
  if (std::ranges::all_of(value, [](char one) { return std::isdigit(one) != 0; }))
    return std::int64_t{std::stoi(value)};
  return value;
}

void give(Op& op, const std::string& name, const std::string& value) {
  if (name == "dp")
    op.name_scope = kScope;
  else if (name == "role")
    op.role = std::stoi(value);
  else if (name == "scope")
    op.name_scope = value;
  else if (name == "ring")
    op.ring = std::stoi(value);
  else if (name == "by")
    op.reduction = value == "sum"   ? comm::ReduceOp::sum
                   : value == "avg" ? comm::ReduceOp::avg
                   : value == "max" ? comm::ReduceOp::max
                                    : throw std::invalid_argument("by=" + value);
  else if (name == "calc")
    op.on_calculation_stream = value == "1";
  else if (name == "on")
    op.stream = value;
  else
    op.attributes[name] = attribute_of(name, value);
}

Op op_of_line(const std::vector<std::string>& words) {
  Op op{.type = words[0], .role = program::role::backward};
  bool is_after = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "->") {
      is_after = true;
    } else if (const auto at = word.find('='); at != std::string::npos || word == "dp") {
      give(op, word.substr(0, at), at == std::string::npos ? "" : word.substr(at + 1));
    } else {
      const auto colon = word.find(':');
      const bool is_small = is_collective(op.type);
      const std::string slot = colon != std::string::npos ? word.substr(0, colon)
                               : is_after                 ? (is_small ? "out" : "Out")
                                                          : (is_small ? "x" : "X");
      (is_after ? op.outputs : op.inputs)[slot] =
          names_in_list(word.substr(colon == std::string::npos ? 0 : colon + 1));
    }
  }
  return op;
}

void declare(Program& program, const Slots& slots) {
  for (const std::string& name : program::names_in(slots))
    program.variables[name] = {.shape = {4}, .persistable = std::isupper(name.front()) != 0};
}

std::string text_of(const Slots& slots) {
  std::string text;
  for (const auto& [slot, names] : slots) text += fmt::format(" {}:{}", slot, fmt::join(names, ","));
  return text;
}

std::string text_of(const program::Attribute& attribute) {
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<std::string>>)
          return fmt::format("[{}]", fmt::join(value, ","));
        else
          return fmt::format("{}", value);
      },
      attribute);
}

std::string line_of(const Op& op) {
  std::string line = op.type + text_of(op.inputs) + " ->" + text_of(op.outputs);
  if (op.role != program::role::backward) line += fmt::format(" role={}", op.role);
  if (op.type != "nop" && !op.name_scope.empty()) line += fmt::format(" scope={}", op.name_scope);
  if (op.ring) line += fmt::format(" ring={}", *op.ring);
  if (op.reduction) line += fmt::format(" by={}", comm::name_of(*op.reduction));
  if (op.on_calculation_stream) line += fmt::format(" calc={}", *op.on_calculation_stream ? 1 : 0);
  if (!op.stream.empty()) line += fmt::format(" on={}", op.stream);
  if (op.placement) line += " (placed)";
  for (const auto& [name, value] : op.attributes)
    if (op.type != "coalesce_tensor") line += fmt::format(" {}={}", name, text_of(value));
  return line;
}

}  // namespace

Program program_of_text(const std::string& text) {
  Program program;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> words = words_in(line);
    if (words.empty()) continue;
    program.ops.push_back(op_of_line(words_in(long_form(words))));
    declare(program, program.ops.back().inputs);
    declare(program, program.ops.back().outputs);
  }
  return program;
}

std::vector<std::string> lines_of(const Program& program) {
  std::vector<std::string> lines;
  for (const Op& op : program.ops) lines.push_back(line_of(op));
  return lines;
}

std::string difference_of_lines(const Program& expected, const Program& got) {
  const std::vector<std::string> right = lines_of(expected), lines = lines_of(got);
  for (std::size_t i = 0; i < std::max(right.size(), lines.size()); ++i) {
    const std::string one = i < right.size() ? right[i] : "nothing", other = i < lines.size() ? lines[i] : "nothing";
    if (one != other) return fmt::format("op {} is '{}', expected '{}'", i, other, one);
  }
  return {};
}

}  // namespace plumbline::conformance
