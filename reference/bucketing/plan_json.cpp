#include "reference/bucketing/plan_json.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/bucketing/detail/reading_json.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::bucketing {

using nlohmann::json;

json json_of(const Plan& plan) {
  json buckets = json::array();
  for (const Bucket& bucket : plan.buckets) {
    json members = json::array();
    for (const Member& member : plan.members_of(bucket)) members.push_back({member.gradient, member.begin});
    buckets.push_back({{"dtype", name_of(ElementType{bucket.dtype, bucket.components_per_element})},
                       {"device", comm::name_of(bucket.device)},
                       {"group", bucket.group},
                       {"sparse", bucket.sparse},
                       {"elements", bucket.elements},
                       {"limit_bytes", bucket.limit_bytes},
                       {"members", std::move(members)}});
  }
  return {{"schema", 1}, {"buckets", std::move(buckets)}};
}

namespace {

Member member_of(const json& value, const std::string& where) {
  const json& pair = reading::list(value, where);
  if (pair.size() != 2) reading::refuse(where, "a pair of gradient and first element", value);
  return {.gradient = reading::small(pair[0], where + "[0]"), .begin = reading::integer(pair[1], where + "[1]")};
}

Bucket bucket_of(const json& value, const std::string& where) {
  const reading::Object object(value, where);
  const ElementType type = object.type("dtype");
  const Bucket bucket{.elements = object.integer("elements"),
                      .limit_bytes = object.integer("limit_bytes", 0),
                      .first_member = 0,
                      .members = 0,
                      .dtype = type.dtype,
                      .components_per_element = type.components_per_element,
                      .sparse = object.boolean("sparse", false),
                      .device = object.device("device"),
                      .group = object.small("group", 0)};
  object.expect_only({"dtype", "elements", "limit_bytes", "sparse", "device", "group", "members"});
  return bucket;
}

}  // namespace

Plan plan_of_json(const json& value) {
  const reading::Object object(value, "plan");
  if (object.integer("schema", 1) != 1) reading::refuse("plan.schema", "1", object.at("schema"));
  object.expect_only({"schema", "buckets", "member_alignment", "bucket_alignment"});
  Plan plan;
  for (const json& one : reading::list(object.at("buckets"), "plan.buckets")) {
    const std::string where = fmt::format("plan.buckets[{}]", plan.buckets.size());
    Bucket bucket = bucket_of(one, where);
    bucket.first_member = static_cast<int>(plan.members.size());
    const json& members = reading::list(reading::Object(one, where).at("members"), where + ".members");
    for (const json& member : members)
      plan.members.push_back(member_of(member, fmt::format("{}.members[{}]", where, bucket.members++)));
    plan.buckets.push_back(bucket);
  }
  return plan;
}

Alignment alignment_of_json(const json& value) {
  if (!value.is_object()) return {};
  const reading::Object object(value, "plan");
  const Alignment alignment{.member = object.integer("member_alignment", 1),
                            .bucket = object.integer("bucket_alignment", 1)};
  if (alignment.member < 1) reading::refuse("plan.member_alignment", "1 or more", object.at("member_alignment"));
  if (alignment.bucket < 1) reading::refuse("plan.bucket_alignment", "1 or more", object.at("bucket_alignment"));
  return alignment;
}

json json_of(const Plan& plan, const Alignment& alignment) {
  json value = json_of(plan);
  if (alignment == Alignment{}) return value;
  value["member_alignment"] = alignment.member;
  value["bucket_alignment"] = alignment.bucket;
  return value;
}

// ---- gradients ----

namespace {

constexpr std::initializer_list<const char*> kFields{"name", "elements", "dtype", "device", "group", "sparse"};

std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

std::vector<std::string> cells_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string> cells;
  bool is_last = false;
  while (!is_last) {
    is_last = line.find(',') == std::string_view::npos;
    std::string_view cell = next_part(line, ',');
    while (cell.starts_with(' ')) cell.remove_prefix(1);
    while (cell.ends_with(' ')) cell.remove_suffix(1);
    cells.emplace_back(cell);
  }
  return cells;
}

// A cell as the JSON that the field is written as.
json value_of(const std::string& field, const std::string& cell) {
  if (field == "name") return cell;  // also one of digits
  const json value = json::parse(cell, nullptr, false);
  return value.is_discarded() ? json(cell) : value;
}

json row_of(const std::vector<std::string>& columns, const std::vector<std::string>& cells, int line) {
  if (cells.size() != columns.size())
    throw InvalidArgument(
        fmt::format("gradients, line {}: {} cells under {} columns", line, cells.size(), columns.size()));
  json row = json::object();
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (!cells[i].empty()) row[columns[i]] = value_of(columns[i], cells[i]);
  return row;
}

void add(NamedGradients& list, const json& value, const std::string& where) {
  const reading::Object object(value, where);
  const ElementType type = object.has("dtype") ? object.type("dtype") : ElementType{};
  list.gradients.push_back({.elements = object.integer("elements"),
                            .dtype = type.dtype,
                            .components_per_element = type.components_per_element,
                            .sparse = object.boolean("sparse", false),
                            .device = object.device("device"),
                            .group = object.small("group", 0)});
  list.names.push_back(object.text("name", fmt::format("gradient {}", list.names.size())));
  object.expect_only(kFields);
  if (list.gradients.back().elements < 0) reading::refuse(where + ".elements", "0 or more", object.at("elements"));
}

// `where` has the place of each in what was read.
NamedGradients required(NamedGradients list, const std::vector<std::string>& where) {
  require_gradients(list.gradients);
  std::map<std::string_view, std::size_t> first;
  for (std::size_t i = 0; i < list.names.size(); ++i)
    if (const auto [known, is_new] = first.emplace(list.names[i], i); !is_new)
      throw InvalidArgument(fmt::format("{}: the name '{}' is that of {} already; each gradient has its own", where[i],
                                        list.names[i], where[known->second]));
  return list;
}

}  // namespace

NamedGradients gradients_of_json(const json& value) {
  NamedGradients list;
  std::vector<std::string> where;
  for (const json& one : reading::list(value, "gradients"))
    add(list, one, where.emplace_back(fmt::format("gradients[{}]", list.gradients.size())));
  return required(std::move(list), where);
}

NamedGradients gradients_of_csv(std::string_view text) {
  NamedGradients list;
  std::vector<std::string> columns, where;
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view words = next_part(text, '\n');
    if (words.empty() || words == "\r") continue;
    if (!columns.empty()) {
      add(list, row_of(columns, cells_of(words), line), where.emplace_back(fmt::format("gradients, line {}", line)));
      continue;
    }
    columns = cells_of(words);
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (std::ranges::find(kFields, columns[i]) == kFields.end() ||
          std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i), columns[i]) !=
              columns.begin() + static_cast<std::ptrdiff_t>(i))
        throw InvalidArgument(
            fmt::format("gradients, line {}: column '{}' is unknown or there already; there are name, elements, dtype, "
                        "device, group, sparse{}",
                        line, columns[i], did_you_mean(columns[i], {kFields.begin(), kFields.end()})));
  }
  return required(std::move(list), where);
}

}  // namespace plumbline::bucketing
