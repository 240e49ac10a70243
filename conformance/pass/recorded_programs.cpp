#include "conformance/pass/recorded_programs.hpp"

#include <algorithm>

namespace plumbline::conformance {

using nlohmann::json;

namespace {

json items_of(const json& numbers, const json& all) {
  json items = json::array();
  for (const json& number : numbers) items.push_back(all.at(number.get<std::size_t>()));
  return items;
}

}  // namespace

const std::vector<std::string>& files_of_answered() {
  static const std::vector<std::string> files{"models", "options", "recognition", "degrees",
                                              "order",  "limits",  "rings",       "entry"};
  return files;
}

json expanded_program(json program, const json& record) {
  if (!program.is_object() || program.contains("same_as")) return program;
  program["ops"] = items_of(program.at("ops"), record.at("ops"));
  for (const char* variables : {"vars", "vars_added"})
    if (program.contains(variables)) program[variables] = items_of(program[variables], record.at("variables"));
  return program;
}

json question_of_recorded(const json& one, const json& record, const char* convention) {
  json args{{"program", expanded_program(one.at("before"), record)}, {"convention", convention}};
  for (const char* name : {"rings", "options", "max_fuse_numel", "max_overlap_rings"}) args[name] = one.at(name);
  return args;
}

bool is_computed_elsewhere(const json& program) {
  return std::ranges::any_of(program.at("ops"), [](const json& op) {
    return op.at("type") == "recv_v2" && (op.at("attrs").at("op_role").get<int>() & 1) != 0;
  });
}

bool is_refused_by_all(const json& one) { return one.contains("error") && one.at("error").at("stage") == "analyze"; }

}  // namespace plumbline::conformance
