#include "reference/schedules/schedule.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

// By kind.
constexpr std::array<std::string_view, 16> kNames{
    "",       "F",       "B",       "I",           "W",         "SEND_F",    "RECV_F",      "SEND_B",
    "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_META", "RECV_META", "WAIT_SEND_F", "WAIT_SEND_B"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kPostedTogether = "P2P";
static_assert(kMostStages == 4194304);  // as kCell says
constexpr std::string_view kCell =
    "a cell is empty, <stage><action><micro-batch> with an action of F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
    "SEND_META, RECV_META, WAIT_SEND_F, WAIT_SEND_B, or <stage><action> with UNSHARD, RESHARD, REDUCE_GRAD, or "
    "(cell;cell;...)OVERLAP_F_B or "
    "(cell;cell;...)P2P; stages are below 4194304";

bool has_micro_batch(ActionKind kind) { return is_compute(kind) || is_message(kind) || is_send_wait(kind); }

std::optional<ActionKind> kind_of(std::string_view name) {
  for (std::size_t kind = 1; kind < kNames.size(); ++kind)
    if (kNames[kind] == name) return static_cast<ActionKind>(kind);
  return std::nullopt;
}

void append_number(std::string& text, std::int32_t number) {
  std::array<char, 12> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

void append(std::string& text, const Action& action) {
  if (action.kind == ActionKind::idle) return;
  append_number(text, action.stage);
  text.append(name_of(action.kind));
  if (action.micro_batch != kNoMicroBatch) append_number(text, action.micro_batch);
}

void append_row(std::string& text, std::span<const Action> actions) {
  bool inside = false;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (i > 0) text.push_back(inside ? ';' : ',');
    if (action.joined && !inside) text.push_back('(');
    append(text, action);
    if (inside && !action.joined) {
      text.push_back(')');
      text.append(is_message(action.kind) ? kPostedTogether : kOverlap);
    }
    inside = action.joined;
  }
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Takes the digits that `text` begins with; nothing when there are none or their number is too large.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number == std::numeric_limits<std::int32_t>::max() || text.front() == '-')
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<Action> parse_action(std::string_view text) {
  const auto stage = take_number(text);
  if (!stage || *stage >= kMostStages) return std::nullopt;
  const auto kind = kind_of(text.substr(0, text.find_first_of("0123456789")));
  if (!kind) return std::nullopt;
  text.remove_prefix(name_of(*kind).size());
  Action action{.kind = *kind, .stage = *stage};
  if (has_micro_batch(*kind)) {
    const auto micro_batch = take_number(text);
    if (!micro_batch) return std::nullopt;
    action.micro_batch = *micro_batch;
  }
  if (!text.empty()) return std::nullopt;
  return action;
}

// Reads the cells of one row.
class RowParser {
 public:
  RowParser(std::string_view row, int line) : row_(row), line_(line) {}

  std::vector<Action> parse() {
    if (stripped(row_).empty()) return {};
    actions_.reserve(static_cast<std::size_t>(std::ranges::count(row_, ',')) + 1);
    for (std::size_t begin = 0; begin <= row_.size();) {
      const std::size_t end = std::min(row_.find(',', begin), row_.size());
      ++column_;
      parse_cell(stripped(row_.substr(begin, end - begin)));
      begin = end + 1;
    }
    return std::move(actions_);
  }

 private:
  void parse_cell(std::string_view cell) {
    if (cell.empty())
      actions_.emplace_back();
    else if (cell.front() == '(')
      parse_group(cell);
    else
      actions_.push_back(parse_one(cell, cell));
  }

  Action parse_one(std::string_view text, std::string_view cell) const {
    const std::optional<Action> action = parse_action(text);
    if (!action) refuse(cell, kCell);
    return *action;
  }

  void parse_group(std::string_view cell) {
    const std::size_t close = cell.find(')');
    const std::string_view name = close == cell.npos ? "" : cell.substr(close + 1);
    if (name != kOverlap && name != kPostedTogether) refuse(cell, kCell);
    std::string_view inside = cell.substr(1, close - 1);
    const std::size_t first = actions_.size();
    while (true) {
      const std::size_t end = std::min(inside.find(';'), inside.size());
      actions_.push_back(parse_one(stripped(inside.substr(0, end)), cell));
      actions_.back().joined = true;
      const ActionKind kind = actions_.back().kind;
      if (name == kOverlap ? !is_compute(kind) : !is_message(kind))
        refuse(cell, "OVERLAP_F_B joins computations, P2P messages");
      if (end == inside.size()) break;
      inside.remove_prefix(end + 1);
    }
    actions_.back().joined = false;
    if (actions_.size() == first + 1) refuse(cell, "a group has at least two actions");
  }

  [[noreturn]] void refuse(std::string_view cell, std::string_view rule) const {
    throw InvalidArgument(
        fmt::format("schedule: line {}, column {}: '{}' is no cell; {}", line_, column_, readable(cell), rule));
  }

  // On one line of a screen, whatever the file holds.
  static std::string readable(std::string_view cell) {
    constexpr std::size_t kMost = 60;
    std::string text;
    for (const char letter : cell.substr(0, kMost)) {
      const auto code = static_cast<unsigned char>(letter);
      std::iscntrl(code) != 0 ? text += fmt::format("\\x{:02x}", code) : text += letter;
    }
    return cell.size() > kMost ? text + "…" : text;
  }

  std::string_view row_;
  int line_;
  int column_ = 0;
  std::vector<Action> actions_;
};

[[noreturn]] void refuse_two_ranks(const Action& action, std::size_t rank, int other) {
  throw InvalidArgument(
      fmt::format("schedule: {} is on line {}, but line {} computes stage {} too; a stage has one rank",
                  to_string(action), rank + 1, other + 1, action.stage));
}

// Who computes what. `computations` bounds how many stages can have a rank at all, so that a stage of an absurd number
// costs no memory.
std::vector<int> stage_to_rank_of(const std::vector<std::vector<Action>>& ranks, std::int64_t stages,
                                  std::int64_t computations) {
  std::vector<int> owner(static_cast<std::size_t>(std::min(stages, computations + 1)), -1);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Action& action : ranks[rank]) {
      if (!is_compute(action.kind) || static_cast<std::size_t>(action.stage) >= owner.size()) continue;
      int& rank_of_stage = owner[static_cast<std::size_t>(action.stage)];
      if (rank_of_stage >= 0 && rank_of_stage != static_cast<int>(rank)) refuse_two_ranks(action, rank, rank_of_stage);
      rank_of_stage = static_cast<int>(rank);
    }
  if (const auto nobody = std::ranges::find(owner, -1); nobody != owner.end())
    throw InvalidArgument(fmt::format("schedule: no line computes stage {}, but there is a stage {}",
                                      nobody - owner.begin(), stages - 1));
  return owner;
}

}  // namespace

std::string_view name_of(ActionKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::string to_string(const Action& action) {
  std::string text;
  append(text, action);
  return text;
}

std::vector<int> stage_to_rank(int ranks, int stages, Placement placement) {
  if (ranks < 1 || stages < 1)
    throw InvalidArgument(fmt::format("schedule: {} stages cannot lie on {} ranks", stages, ranks));
  if (placement == Placement::v && stages % ranks != 0)
    throw InvalidArgument(fmt::format(
        "schedule: there and back, the ranks divide the stages, but there are {} stages on {} ranks", stages, ranks));
  std::vector<int> owner(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    const bool back = placement == Placement::v && stage / ranks % 2 == 1;
    owner[static_cast<std::size_t>(stage)] = back ? ranks - 1 - stage % ranks : stage % ranks;
  }
  return owner;
}

std::string to_csv(std::span<const Action> actions) {
  std::string text;
  append_row(text, actions);
  return text;
}

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.ranks) {
    append_row(text, actions);
    text.push_back('\n');
  }
  return text;
}

std::vector<Action> parse_row(std::string_view row, int line) { return RowParser(row, line).parse(); }

Schedule parse_csv(std::string_view text) {
  Schedule schedule;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    schedule.ranks.push_back(parse_row(text.substr(0, end), static_cast<int>(schedule.ranks.size()) + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::int64_t stages = 0, micro_batches = 0, computations = 0;
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions) {
      if (action.kind == ActionKind::idle) continue;
      stages = std::max(stages, std::int64_t{action.stage} + 1);
      micro_batches = std::max(micro_batches, std::int64_t{action.micro_batch} + 1);
      computations += is_compute(action.kind) ? 1 : 0;
    }
  if (stages == 0) throw InvalidArgument("schedule: no line has an action");
  schedule.stage_to_rank = stage_to_rank_of(schedule.ranks, stages, computations);
  schedule.stages = static_cast<int>(stages);
  schedule.micro_batches = static_cast<int>(std::max<std::int64_t>(micro_batches, 1));
  return schedule;
}

}  // namespace plumbline::schedules
