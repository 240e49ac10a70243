#include "reference/program/program_json.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "reference/support/nearest_name.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::program {

using nlohmann::json;

// ---- writing ----

namespace {

std::string_view word_of(comm::ReduceOp op) { return op == comm::ReduceOp::product ? "prod" : comm::name_of(op); }

// Numbers that JSON has no digits for are texts.
json json_of_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json json_of_attribute(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>)
          return json_of_number(value);
        else
          return value;
      },
      attribute);
}

json attributes_of(const Op& op) {
  json attributes = json::object();
  for (const auto& [name, value] : op.attributes) attributes[name] = json_of_attribute(value);
  attributes["op_role"] = op.role;
  if (!op.name_scope.empty()) attributes["op_namescope"] = op.name_scope;
  if (op.ring) attributes["ring_id"] = *op.ring;
  if (op.reduction) attributes["reduce_type"] = word_of(*op.reduction);
  if (op.on_calculation_stream) attributes["use_calc_stream"] = *op.on_calculation_stream;
  if (!op.stream.empty()) attributes["execution_stream"] = op.stream;
  return attributes;
}

json json_of(const std::string& name, const Variable& variable) {
  json value{{"name", name},
             {"shape", variable.shape},
             {"dtype", name_of(variable.dtype)},
             {"persistable", variable.persistable},
             {"parameter", variable.parameter}};
  if (variable.placement) {
    value["process_mesh"] = variable.placement->process_mesh;
    value["dims_mapping"] = variable.placement->dims_mapping;
  }
  return value;
}

}  // namespace

json json_of(const Op& op) {
  json value{{"type", op.type}, {"inputs", op.inputs}, {"outputs", op.outputs}, {"attrs", attributes_of(op)}};
  if (op.placement) {
    value["process_mesh"] = op.placement->process_mesh;
    value["input_dims_mappings"] = op.placement->input_dims_mappings;
    value["output_dims_mappings"] = op.placement->output_dims_mappings;
  }
  return value;
}

json json_of(const Program& program) {
  json variables = json::array(), ops = json::array();
  for (const auto& [name, variable] : program.variables) variables.push_back(json_of(name, variable));
  for (const Op& op : program.ops) ops.push_back(json_of(op));
  json value{{"vars", std::move(variables)}, {"ops", std::move(ops)}};
  if (!program.other_blocks.empty()) value["other_blocks"] = program.other_blocks;
  return value;
}

json json_of(const Rings& rings) {
  json value = json::object();
  for (const auto& [ring, ranks] : rings) value[std::to_string(ring)] = ranks;
  return value;
}

// ---- reading ----

namespace {

using reading::boolean;
using reading::integer;
using reading::list;
using reading::refuse;
using reading::small;
using reading::text;

const json& object(const json& value, const std::string& where, std::initializer_list<std::string_view> fields) {
  if (!value.is_object()) refuse(where, "an object", value);
  reading::refuse_other_fields(value, where, {fields.begin(), fields.end()});
  return value;
}

// The field, or null where it is not there.
const json& field(const json& value, const char* name) {
  static const json kNone;
  const auto found = value.find(name);
  return found == value.end() ? kNone : *found;
}

int whole(const json& value, const std::string& where) {
  const int number = small(value, where);
  if (number < 0) refuse(where, "0 or more", value);
  return number;
}

double number(const json& value, const std::string& where) {
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) refuse(where, "a number", value);
  return value.get<double>();
}

// A number that a float32 holds, if not exactly.
double float32(const json& value, const std::string& where) {
  const double wide = number(value, where);
  if (std::isfinite(wide) && std::abs(wide) > double{std::numeric_limits<float>::max()})
    throw OutOfRange(fmt::format("{} is {}, more than a float32 holds", where, wide));
  return wide;
}

template <class T, class Read>
std::vector<T> list_of(const json& value, const std::string& where, const Read& read) {
  std::vector<T> items;
  for (const json& item : list(value, where)) items.push_back(read(item, fmt::format("{}[{}]", where, items.size())));
  return items;
}

std::vector<std::string> texts(const json& value, const std::string& where) {
  return list_of<std::string>(value, where, text);
}

std::vector<int> ints(const json& value, const std::string& where) { return list_of<int>(value, where, small); }

using Mappings = std::map<std::string, std::vector<int>, std::less<>>;
Mappings mappings(const json& value, const std::string& where) {
  Mappings result;
  if (value.is_null()) return result;
  if (!value.is_object()) refuse(where, "an object", value);
  for (const auto& one : value.items()) result[one.key()] = ints(one.value(), fmt::format("{}.{}", where, one.key()));
  return result;
}

// ---- variables ----

std::int64_t dimension(const json& value, const std::string& where) {
  const std::int64_t size = integer(value, where);
  if (size < kUnknownDimension) refuse(where, "0 or more, or -1 where it is not known", value);
  return size;
}

DataType data_type(const json& value, const std::string& where) {
  const auto type = parse_data_type(text(value, where));
  if (!type) refuse(where, "a type such as float32, float16, bfloat16, float64, int64, int32 or bool", value);
  return *type;
}

Variable variable_of(const json& value, const std::string& where) {
  Variable variable{.shape = list_of<std::int64_t>(field(value, "shape"), where + ".shape", dimension),
                    .dtype = data_type(field(value, "dtype"), where + ".dtype")};
  if (const json& flag = field(value, "persistable"); !flag.is_null())
    variable.persistable = boolean(flag, where + ".persistable");
  if (const json& flag = field(value, "parameter"); !flag.is_null())
    variable.parameter = boolean(flag, where + ".parameter");
  const json &mesh = field(value, "process_mesh"), &mapping = field(value, "dims_mapping");
  if (!mesh.is_null() || !mapping.is_null())
    variable.placement = {.process_mesh = ints(mesh, where + ".process_mesh"),
                          .dims_mapping = ints(mapping, where + ".dims_mapping")};
  (void)element_count(variable.shape);
  return variable;
}

void add_variable(Program& program, const json& value, const std::string& where) {
  object(value, where, {"name", "shape", "dtype", "persistable", "parameter", "process_mesh", "dims_mapping"});
  std::string name = text(field(value, "name"), where + ".name");
  if (name.empty()) throw InvalidArgument(where + ".name is empty");
  const auto [at, is_new] = program.variables.try_emplace(std::move(name));
  if (!is_new) throw InvalidArgument(fmt::format("{}.name is '{}', which there is already", where, at->first));
  try {
    at->second = variable_of(value, where);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}, of variable '{}'", error.what(), at->first));
  } catch (const OutOfRange& error) {
    throw OutOfRange(fmt::format("{} ('{}'): {}", where, at->first, error.what()));
  }
}

// ---- ops ----

Slots slots_of(const json& value, const std::string& where) {
  Slots slots;
  if (!value.is_object()) refuse(where, "an object of slots", value);
  for (const auto& one : value.items()) slots[one.key()] = texts(one.value(), fmt::format("{}.{}", where, one.key()));
  return slots;
}

comm::ReduceOp reduction_of(const json& value, const std::string& where) {
  const std::string word = text(value, where);
  for (const comm::ReduceOp op : comm::kAllReduceOps)
    if (word_of(op) == word) return op;
  refuse(where, "sum, avg, min, max or prod", value);
}

Attribute list_attribute(const json& value, const std::string& where) {
  if (std::ranges::all_of(value, [](const json& item) { return item.is_number_integer(); }))
    return list_of<std::int64_t>(value, where, integer);
  if (std::ranges::all_of(value, [](const json& item) { return item.is_string(); })) return texts(value, where);
  return list_of<double>(value, where, number);
}

Attribute attribute_of(const std::string& name, const json& value, const std::string& where) {
  if (name == "scale" || name == "value" || name == "rescale_grad") return float32(value, where);
  if (name == "copy_data" || name == "use_align") return boolean(value, where);
  if (name == "concated_shapes" || name == "concated_ranks") return list_of<std::int64_t>(value, where, integer);
  if (name == "dtype") return std::string(name_of(data_type(value, where)));
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return integer(value, where);
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return list_attribute(value, where);
  refuse(where, "true or false, a number, a text or a list of one of these", value);
}

void read_attribute(Op& op, const std::string& name, const json& value, const std::string& where) {
  if (name == "op_role")
    op.role = whole(value, where);
  else if (name == "op_namescope")
    op.name_scope = text(value, where);
  else if (name == "ring_id")
    op.ring = small(value, where);
  else if (name == "reduce_type")
    op.reduction = reduction_of(value, where);
  else if (name == "use_calc_stream")
    op.on_calculation_stream = boolean(value, where);
  else if (name == "execution_stream")
    op.stream = text(value, where);
  else
    op.attributes[name] = attribute_of(name, value, where);
}

Op op_of(const json& value, const std::string& where) {
  object(value, where,
         {"type", "inputs", "outputs", "attrs", "process_mesh", "input_dims_mappings", "output_dims_mappings"});
  Op op{.type = text(field(value, "type"), where + ".type"),
        .inputs = slots_of(field(value, "inputs"), where + ".inputs"),
        .outputs = slots_of(field(value, "outputs"), where + ".outputs")};
  const json& attributes = field(value, "attrs");
  if (!attributes.is_null() && !attributes.is_object()) refuse(where + ".attrs", "an object", attributes);
  for (const auto& one : attributes.items())
    read_attribute(op, one.key(), one.value(), fmt::format("{}.attrs.{}", where, one.key()));
  if (const json& mesh = field(value, "process_mesh"); !mesh.is_null())
    op.placement = {
        .process_mesh = ints(mesh, where + ".process_mesh"),
        .input_dims_mappings = mappings(field(value, "input_dims_mappings"), where + ".input_dims_mappings"),
        .output_dims_mappings = mappings(field(value, "output_dims_mappings"), where + ".output_dims_mappings")};
  return op;
}

}  // namespace

Program program_of_json(const json& value, const std::string& where) {
  object(value, where, {"vars", "ops", "other_blocks"});
  Program program;
  std::size_t position = 0;
  for (const json& one : list(field(value, "vars"), where + ".vars"))
    add_variable(program, one, fmt::format("{}.vars[{}]", where, position++));
  program.ops = list_of<Op>(field(value, "ops"), where + ".ops", op_of);
  if (const json& blocks = field(value, "other_blocks"); !blocks.is_null())
    program.other_blocks = list_of<std::vector<std::string>>(blocks, where + ".other_blocks", texts);
  return program;
}

// ---- rings ----

namespace {

RingId ring_of_name(const std::string& name, const std::string& where) {
  const json number = json::parse(name, nullptr, false);
  if (!number.is_number_integer() || number.dump() != name) refuse(where, "an object of rings by their numbers", name);
  return whole(number, where + ", ring");
}

std::vector<int> ranks_of(const json& value, const std::string& where) {
  std::vector<int> ranks = ints(value, where);
  if (ranks.empty()) throw InvalidArgument(where + " has no ranks");
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] < 0) refuse(fmt::format("{}[{}]", where, i), "a rank, 0 or more", ranks[i]);
  if (const std::set<int> different(ranks.begin(), ranks.end()); different.size() != ranks.size())
    throw InvalidArgument(fmt::format("{} has a rank twice: [{}]", where, fmt::join(ranks, ",")));
  return ranks;
}

}  // namespace

Rings rings_of_json(const json& value, const std::string& where) {
  if (!value.is_object()) refuse(where, "an object of rings by their numbers", value);
  Rings rings;
  for (const auto& one : value.items())
    rings[ring_of_name(one.key(), where)] = ranks_of(one.value(), fmt::format("{}.{}", where, one.key()));
  return rings;
}

}  // namespace plumbline::program
