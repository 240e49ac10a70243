#include "harness/cli/schedule_file.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/cli/json_text.hpp"
#include "harness/suite/text.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::cli {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;

namespace {

constexpr std::string_view kBlanks = " \t\r";

// What lies between commas, and inside of groups.
template <class Visit>
void for_each_cell(std::string_view row, const Visit& visit) {
  while (true) {
    const std::size_t end = std::min(row.find_first_of(",;()"), row.size());
    visit(row.substr(0, end), end < row.size() ? row.substr(end, 1) : "");
    if (end == row.size()) return;
    row.remove_prefix(end + 1);
  }
}

// A quoted cell without its quotes; any other as it is, for the parser of rows to judge.
std::string unquoted(const std::string& row) {
  if (row.find('"') == row.npos) return row;
  std::string written;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t end = std::min(row.find(',', begin), row.size());
    std::string_view cell(row.data() + begin, end - begin);
    const std::size_t first = cell.find_first_not_of(kBlanks), last = cell.find_last_not_of(kBlanks);
    if (first != cell.npos && last > first && cell[first] == '"' && cell[last] == '"')
      cell = cell.substr(first + 1, last - first - 1);
    if (begin > 0) written += ',';
    written += cell;
    begin = end + 1;
  }
  return written;
}

// The name of a cell's action, between its two numbers.
std::string_view action_of_cell(std::string_view cell) {
  constexpr std::string_view kDigits = "0123456789";
  cell.remove_prefix(std::min(cell.find_first_not_of(kBlanks), cell.size()));
  cell.remove_prefix(std::min(cell.find_first_not_of(kDigits), cell.size()));
  return cell.substr(0, cell.find_first_of(kDigits));
}

// "0/3" of 0B3 and of 0W3.
std::string stage_and_micro_batch(std::string_view cell) {
  const std::string_view action = action_of_cell(cell);
  const std::size_t begin = cell.find_first_not_of(kBlanks), at = static_cast<std::size_t>(action.data() - cell.data());
  std::string_view number = cell.substr(at + action.size());
  number = number.substr(0, number.find_last_not_of(kBlanks) + 1);
  return fmt::format("{}/{}", cell.substr(begin, at - begin), number);
}

// Whether each W belongs to a B.
bool weights_follow_backwards(const std::vector<std::string>& rows) {
  std::set<std::string> backwards, weights;
  for (const std::string& row : rows)
    for_each_cell(row, [&](std::string_view cell, std::string_view) {
      const std::string_view action = action_of_cell(cell);
      if (action == "B") backwards.insert(stage_and_micro_batch(cell));
      if (action == "W") weights.insert(stage_and_micro_batch(cell));
    });
  return std::ranges::includes(backwards, weights);
}

// Which actions' names the file has, wherever they stand.
struct NamesOfFile {
  bool whole = false, input = false, weight = false;  // BW, I, W
};
NamesOfFile names_in(const std::vector<std::string>& rows) {
  NamesOfFile names;
  for (const std::string& row : rows)
    for_each_cell(row, [&](std::string_view cell, std::string_view) {
      const std::string_view action = action_of_cell(cell);
      names.whole = names.whole || action == "BW";
      names.input = names.input || action == "I";
      names.weight = names.weight || action == "W";
    });
  return names;
}

std::string in_new_notation(std::string_view row) {
  std::string written;
  for_each_cell(row, [&](std::string_view cell, std::string_view separator) {
    const std::string_view action = action_of_cell(cell);
    const auto at = static_cast<std::size_t>(action.data() - cell.data());
    if (action == "B" || action == "BW")
      written.append(cell.substr(0, at)).append(action == "B" ? "I" : "B").append(cell.substr(at + action.size()));
    else
      written.append(cell);
    written.append(separator);
  });
  return written;
}

[[noreturn]] void refuse_field(const std::string& field, const std::string& why) {
  throw InvalidArgument(fmt::format("schedule: {}: {}", field, why));
}

// A number of the JSON's that has to be between 1 and what an int holds.
std::optional<int> count_in(const json& object, const char* field) {
  if (!object.contains(field)) return std::nullopt;
  const json& value = object.at(field);
  if (!value.is_number_integer() || value < 1 || value > schedules::kMostStages)
    refuse_field(field,
                 fmt::format("must be a whole number from 1 to {}, got {}", schedules::kMostStages, value.dump()));
  return value.get<int>();
}

std::vector<std::string> rows_in(const json& object) {
  if (!object.is_object()) throw InvalidArgument("schedule: it must be an object with the field ranks");
  if (!object.contains("ranks"))
    refuse_field("ranks", R"(it is missing; a row of cells for each rank: ["0F0,0B0", "1F0,1B0"])");
  const json& ranks = object.at("ranks");
  if (!ranks.is_array() || !std::ranges::all_of(ranks, [](const json& row) {
        return row.is_string() && row.get_ref<const std::string&>().find('\n') == std::string::npos;
      }))
    refuse_field("ranks", R"(must be a list of rows in text, a rank each: ["0F0,0B0", "1F0,1B0"])");
  return ranks.get<std::vector<std::string>>();
}

// What the file itself says of its placement, where the options do not.
void read_placement(const json& object, std::vector<int>& stage_to_rank, std::optional<int>& micro_batches) {
  if (!micro_batches) micro_batches = count_in(object, "microbatches");
  const std::optional<int> stages = count_in(object, "num_stages");
  if (!stage_to_rank.empty() || !object.contains("stage_to_rank")) return;
  const json& places = object.at("stage_to_rank");
  const auto is_rank = [](const json& one) {
    return one.is_number_integer() && one >= 0 && one < schedules::kMostStages;
  };
  if (!places.is_array() || places.empty() || !std::ranges::all_of(places, is_rank))
    refuse_field("stage_to_rank", "must be a list of ranks, one for each stage: [0, 1]");
  if (stages && places.size() != static_cast<std::size_t>(*stages))
    refuse_field("num_stages", fmt::format("is {}, but stage_to_rank has {} entries", *stages, places.size()));
  stage_to_rank = places.get<std::vector<int>>();
}

// Where the stages' ranks are told, nothing has to be inferred, and what does not fit is a finding.
Schedule placed(const std::vector<std::string>& rows, std::vector<int> stage_to_rank, std::string_view source) {
  Schedule schedule{.stages = static_cast<int>(stage_to_rank.size()), .stage_to_rank = std::move(stage_to_rank)};
  for (const std::string& row : rows)
    schedule.ranks.push_back(schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1));
  if (schedule.ranks.empty()) throw InvalidArgument("schedule: there is no line in it");
  for (const int rank : schedule.stage_to_rank)
    if (rank >= static_cast<int>(schedule.ranks.size()))
      throw InvalidArgument(
          fmt::format("{}: rank {} is not one of the file's {} ranks", source, rank, schedule.ranks.size()));
  std::int32_t last = 0;
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions) last = std::max(last, action.micro_batch);
  schedule.micro_batches = last + 1;
  return schedule;
}

}  // namespace

std::optional<Notation> notation_named(std::string_view name) {
  if (name == "torch") return Notation::present;
  if (name == "torch-old") return Notation::old;
  return std::nullopt;
}

ScheduleFile parse_schedule_file(const std::string& whole, const GivenPlacement& given) {
  std::vector<int> stage_to_rank = given.stage_to_rank;
  std::optional<int> micro_batches = given.micro_batches;
  std::vector<std::string> rows;
  const std::string text(without_byte_order_mark(whole));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != text.npos && text[first] == '{';
  if (is_json) {
    const json object = parse_json(text, "schedule");
    // Those of `plumbline schedule --format json`, of which the first four are read.
    reading::refuse_other_fields(
        object, "the schedule",
        {"ranks", "num_stages", "microbatches", "stage_to_rank", "title", "makespan", "barrier_bubble", "figures"});
    rows = rows_in(object);
    read_placement(object, stage_to_rank, micro_batches);
  } else {
    rows = lines_of(text);
  }
  for (std::string& row : rows) row = unquoted(row);
  const NamesOfFile names = names_in(rows);
  ScheduleFile file;
  file.old_notation = given.notation ? *given.notation == Notation::old : names.whole && !is_json;
  if (file.old_notation && names.input)
    throw InvalidArgument(
        names.whole ? "schedule: it has both BW, of PyTorch's old notation, and I, of the new one"
                    : "schedule: it has I, which PyTorch's old notation lacks; leave out --notation torch-old");
  file.may_be_old = !file.old_notation && !given.notation && !is_json && names.weight && !names.input &&
                    weights_follow_backwards(rows);
  if (file.old_notation)
    for (std::string& row : rows) row = in_new_notation(row);
  if (stage_to_rank.empty()) {
    std::string csv;
    for (const std::string& row : rows) csv += row + '\n';
    file.schedule = schedules::parse_csv(csv);
  } else {
    file.schedule = placed(rows, std::move(stage_to_rank),
                           given.stage_to_rank.empty() ? "schedule: stage_to_rank" : "--stage-to-rank");
  }
  if (micro_batches) file.schedule.micro_batches = *micro_batches;
  return file;
}

std::string notation_text(const ScheduleFile& file) {
  return file.old_notation
             ? "read in PyTorch's old notation: B is the gradient of the input, now I, and BW both, now B\n"
             : "";
}

std::string notation_hint(const ScheduleFile& file) {
  return file.may_be_old ? "if its B is the gradient of the input alone, as PyTorch once wrote it: --notation torch-old"
                         : "";
}

}  // namespace plumbline::cli
